package payload

import (
	"strings"
	"unicode/utf8"
)

// Text returns the text that a free-text search finds. For JSON, the result contains the strings, numbers and member
// names, separated by spaces, but nothing that is hidden. For text that is not JSON, the result is the whole text, or ""
// if it is hidden. For bytes that are not UTF-8, it is "". The result is in lower case (strings.ToLower), valid UTF-8,
// without NUL, and at most limit bytes long.
func (r Reading) Text(limit int) string {
	c, ok := r.reader()
	switch {
	case ok:
		t := texter{reader: c, limit: limit}
		t.value()
		return lower(t.text.String(), limit)
	case r.Hides() || !utf8.Valid(r.text):
		return ""
	}
	return lower(cut(string(r.text), limit), limit)
}

type texter struct {
	reader
	limit int
	text  strings.Builder
}

// value skips a value and appends its text. It returns false when the limit is reached.
func (t *texter) value() bool {
	if s := t.hidden(); s != nil {
		if t.skip(); s.inside {
			t.add(unquote(s.shown))
		}
		return true
	}
	switch t.kind() {
	case '{':
		return t.object(func(name []byte) bool {
			if s := t.hidden(); s == nil || s.inside {
				t.add(unquote(name))
			}
			return t.value()
		})
	case '[':
		return t.array(t.value)
	case '"':
		t.add(unquote(t.scalar()))
	case 't', 'f', 'n':
		t.scalar()
	default:
		t.add(string(t.scalar()))
	}
	return t.text.Len() < t.limit
}

func (t *texter) add(text string) {
	if t.text.Len() > 0 {
		t.text.WriteByte(' ')
	}
	t.text.WriteString(cut(text, max(0, t.limit-t.text.Len())))
}

// lower returns the text in lower case and without NUL, which PostgreSQL's text columns cannot hold.
func lower(text string, limit int) string {
	return cut(strings.ToLower(strings.ReplaceAll(text, "\x00", " ")), limit)
}

// cut shortens text to at most limit bytes, without cutting through a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(0, limit)]
}
