package format

import (
	"bytes"
	"encoding/json"
	"strings"
)

// layout formats JSON with one line per value. It stops at a limit, because indentation of deep nesting would turn a
// small text into gigabytes.
type layout struct {
	out   strings.Builder
	most  int
	depth int
	full  bool
}

// JSON returns formatted JSON, cut to the length in the parameter most, and the number of bytes of raw that the result
// represents; ok is false when raw is not JSON. The last character may be incomplete.
func JSON(raw []byte, most int) (text string, used int, ok bool) {
	if !json.Valid(raw) {
		return "", 0, false
	}
	l := layout{most: most}
	l.out.Grow(min(most, 2*len(raw)))
	for used < len(raw) && !l.full {
		used += l.next(raw[used:])
	}
	return l.out.String(), used, true
}

// next writes the JSON token at the beginning of raw to the formatted text, and returns the length of the token in
// raw.
func (l *layout) next(raw []byte) int {
	n := 1
	switch raw[0] {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		l.put(raw[:1])
		if inside := bytes.TrimLeft(raw[1:], " \t\r\n"); inside[0] == '}' || inside[0] == ']' {
			l.put(inside[:1])
			return len(raw) - len(inside) + 1
		}
		l.line(1)
	case '}', ']':
		l.line(-1)
		l.put(raw[:1])
	case ',':
		l.put(raw[:1])
		l.line(0)
	case ':':
		l.put([]byte(": "))
	case '"':
		n = textEnd(raw)
		l.put(raw[:n])
	default:
		if n = bytes.IndexAny(raw, ",]} \t\r\n"); n < 0 {
			n = len(raw)
		}
		l.put(raw[:n])
	}
	return n
}

func textEnd(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// line begins a new line, whose indentation has deeper more levels than the line before.
func (l *layout) line(deeper int) {
	l.depth += deeper
	l.put([]byte{'\n'})
	for range l.depth {
		if l.full {
			return
		}
		l.put([]byte("  "))
	}
}

func (l *layout) put(b []byte) {
	left := l.most - l.out.Len()
	if len(b) > left {
		b, l.full = b[:left], true
	}
	l.out.Write(b)
}
