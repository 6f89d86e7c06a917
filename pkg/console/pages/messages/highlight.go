package messages

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

// piece is a part of a text. Match marks a part that the search has found.
type piece struct {
	Text  string
	Match bool
}

// highlighter finds the words of a search in the texts of a message; nil for a search without words and values of
// payload fields.
type highlighter struct{ inText, inPayload *regexp.Regexp }

// between matches the characters that may stand between two words of a phrase. A phrase may consist of a name and a
// value of JSON, because in the search index they follow each other.
const between = `[\s":,{}\[\]]+`

func highlighterOf(filter url.Values) *highlighter {
	var words, fields []string
	for _, word := range wordsOf(strings.Join(filter["q"], " ")) {
		parts := strings.Fields(word)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		words = append(words, strings.Join(parts, between))
	}
	for _, condition := range filter["payload"] {
		path, value, _ := strings.Cut(condition, "=")
		name := path[strings.LastIndexAny(path, ".'\"")+1:]
		name, value = strings.Trim(name, "[*] "), strings.Trim(value, `" `)
		if name != "" && value != "" {
			fields = append(fields, regexp.QuoteMeta(name)+between+regexp.QuoteMeta(value))
		}
	}
	if len(words)+len(fields) == 0 {
		return nil
	}
	return &highlighter{anyOf(words), anyOf(append(fields, words...))}
}

// wordsOf splits words as the API does: text between quotation marks is one word.
func wordsOf(q string) (words []string) {
	for i, part := range strings.Split(q, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func anyOf(patterns []string) *regexp.Regexp {
	if len(patterns) == 0 {
		return nil
	}
	re, err := regexp.Compile("(?i)" + strings.Join(patterns, "|"))
	if err != nil { // the search is too long
		return nil
	}
	return re
}

const (
	before     = 40  // maximum number of characters before the first match in an excerpt
	excerptLen = 120 // characters of an excerpt; more only if the first match is long
)

// Error returns the beginning of an error or, if the first match is not there, an excerpt around it; nil: the error has
// no match.
func (h *highlighter) Error(text string) []piece {
	if h == nil || h.inText == nil {
		return nil
	}
	if at := h.inText.FindStringIndex(text); at != nil && utf8.RuneCountInString(text[:at[1]]) < excerptLen {
		return marked(h.inText, format.Visible(format.Clip(excerptLen, text)))
	}
	return excerpt(h.inText, text, excerptLen)
}

// Payload returns an excerpt around the first place in the payload that contains a word or a field of the search; nil
// when there is none.
func (h *highlighter) Payload(m api.Message) []piece {
	if h == nil || h.inPayload == nil || len(m.JSONPayload()) == 0 {
		return nil
	}
	return excerpt(h.inPayload, string(m.JSONPayload()), excerptLen)
}

// excerpt returns about n characters around the first match; nil: there is no match.
func excerpt(re *regexp.Regexp, text string, n int) []piece {
	at := re.FindStringIndex(text)
	if at == nil {
		return nil
	}
	from, until := at[0], at[1]
	for i := 0; i < before && from > 0; i++ {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
	}
	for i := utf8.RuneCountInString(text[from:until]); i < n && until < len(text); i++ {
		_, size := utf8.DecodeRuneInString(text[until:])
		until += size
	}
	shown := strings.Join(strings.Fields(text[from:until]), " ")
	if from > 0 {
		shown = "…" + shown
	}
	if until < len(text) {
		shown += "…"
	}
	return marked(re, format.Visible(shown))
}

func marked(re *regexp.Regexp, text string) (pieces []piece) {
	end := 0
	for _, at := range re.FindAllStringIndex(text, -1) {
		if at[0] > end {
			pieces = append(pieces, piece{Text: text[end:at[0]]})
		}
		pieces = append(pieces, piece{text[at[0]:at[1]], true})
		end = at[1]
	}
	if end < len(text) {
		pieces = append(pieces, piece{Text: text[end:]})
	}
	return pieces
}
