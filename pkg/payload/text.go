package payload

import (
	"strings"
	"unicode/utf8"
)

// Text returns the text that a free-text search finds. For JSON, the result contains the strings, numbers and member
// names, separated by spaces, but nothing at or below a masked path. For text that is not JSON, the result is the whole
// text, or "" if the configuration masks any path. For bytes that are not UTF-8, it is "". The result is in lower case
// (strings.ToLower), valid UTF-8, without NUL, and at most limit bytes long.
func Text(value []byte, masks *Masks, limit int) string {
	c, ok := open(value)
	switch {
	case ok:
		t := texter{walk: walk{cursor: c, rules: masks.rules(), states: masks.rules().begin()}, limit: limit}
		t.value(0)
		return lower(t.text.String(), limit)
	case len(masks.rules()) > 0 || !utf8.Valid(value):
		return ""
	}
	return lower(cut(string(value), limit), limit)
}

type texter struct {
	walk
	limit int
	text  strings.Builder
}

// value skips a value and appends its text. The masking rules' states for this value are those in t.states from the
// index from on. It returns false when the limit is reached.
func (t *texter) value(from int) bool {
	base := len(t.states)
	if t.enter(from) {
		t.skip()
		return true
	}
	switch t.kind() {
	case '{':
		return t.object(func(name []byte) bool {
			t.toMember(from, base, name)
			if !t.masked(base) {
				t.add(unquote(name))
			}
			return t.value(base)
		})
	case '[':
		return t.array(func() bool {
			t.toElement(from, base)
			return t.value(base)
		})
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
