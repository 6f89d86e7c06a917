package format

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Part is a piece of a text. Varies marks a piece that differs between similar texts.
type Part struct {
	Text   string
	Varies bool
}

// variables are the replacements for the parts of a title that vary.
var variables = [...]string{"<n>", "<id>", "<hex>", "<time>", "<addr>", "<email>"}

// Parts splits a title at its placeholders for parts that vary.
func Parts(title string) []Part {
	var parts []Part
	plain := 0
	for i := 0; i < len(title); {
		n := variableAt(title[i:])
		if n == 0 {
			i++
			continue
		}
		if plain < i {
			parts = append(parts, Part{Text: title[plain:i]})
		}
		parts = append(parts, Part{title[i : i+n], true})
		i += n
		plain = i
	}
	if plain < len(title) {
		parts = append(parts, Part{Text: title[plain:]})
	}
	return parts
}

func variableAt(text string) int {
	for _, v := range variables {
		if strings.HasPrefix(text, v) {
			return len(v)
		}
	}
	return 0
}

// Middle returns about n characters of a text, at most n+2. It removes the middle of a longer text, because similar
// texts mostly differ at the end. It cuts between words if that costs few characters.
func Middle(n int, text string) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	const reach = 12 // characters that Middle may remove on each side of the gap, to avoid cutting a word
	runes := []rune(text)
	head := runes[:(n-1)*2/5]
	tail := runes[len(runes)-(n-1-len(head)):]
	if i := lastSpace(head); i >= len(head)-reach && i > 0 {
		head = head[:i]
	}
	if i := slices.Index(tail, ' '); i >= 0 && i < min(reach, len(tail)-1) {
		tail = tail[i+1:]
	}
	return strings.TrimRight(string(head), " ") + " … " + strings.TrimLeft(string(tail), " ")
}

func lastSpace(runes []rune) int {
	for i := len(runes) - 1; i >= 0; i-- {
		if runes[i] == ' ' {
			return i
		}
	}
	return -1
}

// Differing splits each text of a list into parts, and marks the words that are not in all texts. Equal texts have no
// marks.
func Differing(texts []string) [][]Part {
	in := map[string]int{} // number of texts that contain the word
	for _, text := range texts {
		seen := map[string]bool{}
		for _, word := range strings.Fields(text) {
			if !seen[word] {
				seen[word] = true
				in[word]++
			}
		}
	}
	out := make([][]Part, len(texts))
	for i, text := range texts {
		out[i] = marked(text, func(word string) bool { return in[word] < len(texts) })
	}
	return out
}

// marked splits a text into parts, and joins neighbouring words that both vary or both do not.
func marked(text string, varies func(word string) bool) []Part {
	var parts []Part
	for _, word := range strings.Fields(text) {
		v := varies(word)
		if n := len(parts); n > 0 && parts[n-1].Varies == v {
			parts[n-1].Text += " " + word
			continue
		} else if n > 0 {
			word = " " + word
		}
		parts = append(parts, Part{word, v})
	}
	return parts
}
