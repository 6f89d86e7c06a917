// Package codec contains what the formats share: limits, and an error that names a value by its path.
package codec

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting depth of a decoded value. Common JSON readers stop at 256 levels, and the API's
// answers add some levels around the value.
const MaxDepth = 200

// Error says that a value does not fit its schema. Its text contains no part of the value.
type Error struct {
	Path   string // path to the value, such as $.items[2].sku; $ is the whole value
	Reason string
}

// Error returns the path and the reason.
func (e *Error) Error() string { return e.Path + ": " + e.Reason }

// The values of LimitError.Kind.
const (
	TooLarge = "too_large"
	TooDeep  = "too_deep"
)

// LimitError says that a value is larger than the caller allows, or nested deeper than MaxDepth.
type LimitError struct{ Kind string }

// Error names the limit.
func (e *LimitError) Error() string {
	if e.Kind == TooDeep {
		return fmt.Sprintf("the decoded value nests deeper than %d levels", MaxDepth)
	}
	return "the decoded value is larger than the limit"
}

// Path is the path to a value, as a stack of names and indexes. It is converted to text only for an error.
type Path struct{ steps []step }

type step struct {
	name  string // name of a member of an object; "" for an element and an entry
	index int    // index of an element of an array, or one of the constants below
}

const (
	memberStep = -1
	entryStep  = -2
)

// Member adds a step to the member of an object.
func (p *Path) Member(name string) { p.steps = append(p.steps, step{name, memberStep}) }

// Element adds a step to the element of an array.
func (p *Path) Element(i int) { p.steps = append(p.steps, step{"", i}) }

// Entry adds a step to an entry of a map. The step does not contain the entry's key, because errors must not contain
// parts of the value.
func (p *Path) Entry() { p.steps = append(p.steps, step{"", entryStep}) }

// Pop removes the last step.
func (p *Path) Pop() { p.steps = p.steps[:len(p.steps)-1] }

// Errorf returns an error that names the present path.
func (p *Path) Errorf(format string, args ...any) error {
	return &Error{Path: p.String(), Reason: fmt.Sprintf(format, args...)}
}

// String returns the path in the form of payload.Path, which searches accept.
func (p *Path) String() string {
	text := "$"
	for _, s := range p.steps {
		switch s.index {
		case memberStep:
			text += member(Clip(s.name, maxPath))
		case entryStep:
			text += "[*]"
		default:
			text += "[" + strconv.Itoa(s.index) + "]"
		}
		if len(text) > maxPath {
			break
		}
	}
	return Clip(text, maxPath)
}

// Clip shortens a text to at most the given number of bytes, without cutting a character, and marks the cut with "…".
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

const maxPath = 512

// Listed returns a list of names as one text of limited length; it may leave out names at the end.
func Listed(names []string) string {
	const most, longest = 20, 1000
	if len(names) > most {
		return Clip(strings.Join(names[:most], ", "), longest) + ", …"
	}
	return Clip(strings.Join(names, ", "), longest)
}

func member(name string) string {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return "[" + strconv.Quote(name) + "]"
		}
	}
	return "." + name
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
