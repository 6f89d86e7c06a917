package fingerprint

import "strings"

const maxMessage = 4 << 10 // bytes of a message that are read; the rest is ignored

// telling returns the most informative line of an error message: its first line with words, together with the line
// below it if the first line ends with a colon. If the message looks like JSON, telling returns all of it; if the
// message is a Python traceback, it returns the last line.
func telling(message string) string {
	message = trim(message[:min(len(message), maxMessage)])
	end := strings.IndexAny(message, "\n\r")
	if end < 0 || message[0] == '{' || message[0] == '[' {
		return message
	}
	if strings.HasPrefix(message, "Traceback (most recent call last)") {
		return trim(message[strings.LastIndexAny(message, "\n\r")+1:])
	}
	for rest := message; rest != ""; {
		line, after := nextLine(rest)
		if hasWord(line) {
			if next, _ := nextLine(strings.TrimLeft(after, " \t\n\r")); strings.HasSuffix(line, ":") && next != "" {
				return line + " " + next
			}
			return line
		}
		rest = after
	}
	return message
}

// nextLine returns the first line without surrounding space, and the text after it.
func nextLine(text string) (line, rest string) {
	end := strings.IndexAny(text, "\n\r")
	if end < 0 {
		return trim(text), ""
	}
	return trim(text[:end]), text[end+1:]
}

func hasWord(line string) bool {
	for i := 1; i < len(line); i++ {
		if isLetter(line[i-1]) && isLetter(line[i]) {
			return true
		}
	}
	return false
}
