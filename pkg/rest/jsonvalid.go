package rest

import "encoding/binary"

// validJSON reports whether text is one JSON value, as encoding/json.Valid does in
// more time: each payload that is shown passes here. It keeps a byte for each level
// of nesting, of which the caller has bounded the number.
func validJSON(text []byte) bool {
	var shallow [64]byte
	closers := shallow[:0] // what has to close, the innermost last
	i, ok := 0, false
	for {
		// A value begins at i.
		i = skipSpace(text, i)
		if i >= len(text) {
			return false
		}
		switch text[i] {
		case '{':
			if i = skipSpace(text, i+1); i < len(text) && text[i] == '}' {
				i++
				break
			}
			closers = append(closers, '}')
			if i, ok = skipName(text, i); !ok {
				return false
			}
			continue
		case '[':
			if i = skipSpace(text, i+1); i < len(text) && text[i] == ']' {
				i++
				break
			}
			closers = append(closers, ']')
			continue
		default:
			if i, ok = skipScalar(text, i); !ok {
				return false
			}
		}
		// It ends, and with it all that it is the last of.
		for i = skipSpace(text, i); len(closers) > 0 && i < len(text) && text[i] == closers[len(closers)-1]; {
			closers = closers[:len(closers)-1]
			i = skipSpace(text, i+1)
		}
		switch {
		case len(closers) == 0:
			return i == len(text)
		case i >= len(text) || text[i] != ',':
			return false
		}
		if i++; closers[len(closers)-1] == '}' {
			if i, ok = skipName(text, skipSpace(text, i)); !ok {
				return false
			}
		}
	}
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// skipName skips a member's name and its colon.
func skipName(text []byte, i int) (int, bool) {
	i, ok := skipString(text, i)
	if !ok {
		return i, false
	}
	i = skipSpace(text, i)
	return i + 1, i < len(text) && text[i] == ':'
}

func skipScalar(text []byte, i int) (int, bool) {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case 't':
		return skipWord(text, i, "true")
	case 'f':
		return skipWord(text, i, "false")
	case 'n':
		return skipWord(text, i, "null")
	default:
		return skipNumber(text, i)
	}
}

func skipWord(text []byte, i int, word string) (int, bool) {
	end := i + len(word)
	return end, end <= len(text) && string(text[i:end]) == word
}

func skipString(text []byte, i int) (int, bool) {
	if i >= len(text) || text[i] != '"' {
		return i, false
	}
	for i++; i < len(text); i++ {
		for i+8 <= len(text) && allPlain(binary.LittleEndian.Uint64(text[i:])) {
			i += 8
		}
		if i == len(text) {
			break
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		case c == '\\':
			ok := false
			if i, ok = skipEscape(text, i+1); !ok {
				return i, false
			}
		}
	}
	return i, false
}

// allPlain reports whether eight bytes of a string have no quote, no backslash and
// no control character among them. A byte has its high bit set by a subtraction
// that borrows, which it does only where it, or one before it, is what is looked for.
func allPlain(eight uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := eight^'"'*ones, eight^'\\'*ones
	return ((eight-' '*ones)&^eight|(quote-ones)&^quote|(slash-ones)&^slash)&high == 0
}

// skipEscape stays on the last byte of what stands behind a backslash.
func skipEscape(text []byte, i int) (int, bool) {
	if i >= len(text) {
		return i, false
	}
	switch text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i, true
	case 'u':
	default:
		return i, false
	}
	if i+4 >= len(text) {
		return i, false
	}
	for _, c := range text[i+1 : i+5] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return i, false
		}
	}
	return i + 4, true
}

func skipNumber(text []byte, i int) (int, bool) {
	if text[i] == '-' {
		i++
	}
	begin := i
	if i = skipDigits(text, i); i == begin || text[begin] == '0' && i > begin+1 {
		return i, false
	}
	if i < len(text) && text[i] == '.' {
		begin = i + 1
		if i = skipDigits(text, begin); i == begin {
			return i, false
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		begin = i
		if i = skipDigits(text, begin); i == begin {
			return i, false
		}
	}
	return i, true
}

func skipDigits(text []byte, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}
