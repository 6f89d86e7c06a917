package payload

import (
	"strings"
	"unicode/utf8"
)

// Text returns the text for free-text search: of JSON the strings, numbers and member names, separated by spaces,
// without anything at or below a masked path; other text itself, "" if there are masked paths; "" for bytes that are
// not UTF-8. It is in lower case by strings.ToLower, valid UTF-8, without NUL, and at most limit bytes long.
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

// value skips a value whose states are those from index from on, and reports whether the limit allows more.
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

// lower removes NUL, which PostgreSQL text columns cannot hold.
func lower(text string, limit int) string {
	return cut(strings.ToLower(strings.ReplaceAll(text, "\x00", " ")), limit)
}

// cut shortens text to at most limit bytes without splitting a rune.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(0, limit)]
}
