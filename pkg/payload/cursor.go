package payload

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// cursor is a position in a valid JSON text. It works with offsets in the text, so it neither copies nor decodes the
// values that it skips.
type cursor struct {
	data []byte
	pos  int
}

// open returns a cursor at the first byte of the value. It returns false when value is not exactly one JSON text.
func open(value []byte) (*cursor, bool) {
	if !Valid(value) {
		return nil, false
	}
	c := &cursor{data: value}
	c.space()
	return c, true
}

func (c *cursor) space() {
	for c.pos < len(c.data) && c.data[c.pos] <= ' ' {
		c.pos++
	}
}

func (c *cursor) kind() byte { return c.data[c.pos] }

// object calls the function member for each member of the object at the cursor, with the member's name in quotes.
// During the call the cursor is at the member's value, and the function must move it past this value. When the function
// returns false, object stops, and the position of the cursor is undefined.
func (c *cursor) object(member func(name []byte) bool) bool {
	return c.items('}', func() bool {
		name := c.text()
		c.space()
		c.pos++ // skip the colon
		c.space()
		return member(name)
	})
}

func (c *cursor) array(element func() bool) bool { return c.items(']', element) }

func (c *cursor) items(end byte, item func() bool) bool {
	c.pos++
	c.space()
	for c.data[c.pos] != end {
		if !item() {
			return false
		}
		c.space()
		if c.data[c.pos] == ',' {
			c.pos++
			c.space()
		}
	}
	c.pos++
	return true
}

// text skips the string at the cursor and returns it, still in quotes.
func (c *cursor) text() []byte {
	from := c.pos
	for c.pos++; c.data[c.pos] != '"'; c.pos++ {
		if c.data[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
	return c.data[from:c.pos]
}

// scalar skips a string, a number, true, false or null, and returns its text.
func (c *cursor) scalar() []byte {
	if c.kind() == '"' {
		return c.text()
	}
	from := c.pos
	for c.pos < len(c.data) && !ends(c.data[c.pos]) {
		c.pos++
	}
	return c.data[from:c.pos]
}

// ends reports whether the byte b ends a number, true, false or null, because it cannot be a part of it.
func ends(b byte) bool { return b <= ' ' || b == ',' || b == ']' || b == '}' }

func (c *cursor) skip() {
	for depth := 0; ; {
		switch c.kind() {
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ',', ':':
			c.pos++
		default:
			c.scalar()
		}
		if depth == 0 {
			return
		}
		c.space()
	}
}

// unquote decodes a JSON string. Invalid Unicode becomes U+FFFD.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return string(bytes.ToValidUTF8(inner, []byte("\uFFFD")))
	}
	return text
}

// says reports whether the JSON string quoted, which is still in quotes, is equal to name after decoding.
func says(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner) == name
	}
	return unquote(quoted) == name
}
