package postgres

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The column payload is a projection of the value for people and searches that
// use SQL. These are its bounds; the value's bytes are kept in every case.
const (
	projectionMaxDepth    = 512  // jsonb itself fails between 14,000 and 16,000
	projectionMaxExponent = 1000 // 1e131071 is 8 bytes in and 131,072 characters out
	projectionMaxDigits   = 1000 // jsonb itself refuses more than 16,383 behind the point
)

// Why a payload is NULL although there is a value.
const (
	noteNotJSON  = "not_json"
	noteTooLarge = "too_large"
	noteTooDeep  = "too_deep"
	noteNumber   = "number"     // digits or an exponent that would blow up as text
	noteText     = "text"       // NUL, or half of a surrogate pair: jsonb has neither
	noteRefused  = "refused"    // PostgreSQL itself would not take it
	noteOver     = "over_limit" // the record was not stored as a whole

	noteUnreadable = "unreadable" // there is no record to store
	noteNever      = "never"      // by configuration
	notePending    = "pending"    // FillPayloads has not come to it
)

// projectable returns "" when jsonb holds value faithfully enough, else the
// note to keep. Package encoding/json cannot answer this: it accepts bytes that
// are not UTF-8, NUL escapes, lone surrogates and any exponent, gives up at a
// depth of its own, and takes twice as long as the single pass below,
// which every record that comes in has to go through.
func projectable(value []byte, maxBytes int) string {
	switch {
	case len(value) > maxBytes:
		return noteTooLarge
	case !utf8.Valid(value):
		return noteNotJSON
	}
	s := jsonScan{b: value}
	switch {
	case s.tooDeep():
		return noteTooDeep
	case s.bad:
		return noteNotJSON
	}
	return s.note
}

// jsonScan checks one text against the grammar of RFC 8259 without recursion.
// Its methods advance i; once bad is set the rest has no meaning.
type jsonScan struct {
	b    []byte
	i    int
	bad  bool   // not JSON
	note string // JSON, but not for jsonb

	depth   int
	objects [projectionMaxDepth]bool // whether each open level is an object
}

// tooDeep scans the whole text; it returns true as soon as that is too deep to
// go on.
func (s *jsonScan) tooDeep() bool {
	for s.value() {
		if s.depth > projectionMaxDepth {
			return true
		}
	}
	return false
}

// value reads a value, or the opening of one, and then all that closes; more
// says that another value has to follow.
func (s *jsonScan) value() (more bool) {
	s.space()
	switch c := s.peek(); {
	case c == '{':
		return s.open(true)
	case c == '[':
		return s.open(false)
	case c == '"':
		s.i++
		s.text()
	case c == '-' || c >= '0' && c <= '9':
		s.number()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.bad = true
	}
	return s.closing()
}

// open enters an object or an array.
func (s *jsonScan) open(object bool) (more bool) {
	s.i++
	if s.depth++; s.depth > projectionMaxDepth {
		return true // tooDeep ends here
	}
	s.objects[s.depth-1] = object
	s.space()
	switch end := s.peek(); {
	case object && end == '}', !object && end == ']':
		s.i++
		s.depth--
		return s.closing()
	case object:
		s.key()
	}
	return !s.bad
}

// closing reads what may stand behind a value: the ends of levels, and a comma
// before the next value.
func (s *jsonScan) closing() (more bool) {
	for !s.bad {
		s.space()
		if s.depth == 0 {
			s.bad = s.i < len(s.b)
			return false
		}
		object := s.objects[s.depth-1]
		switch c := s.peek(); {
		case c == ',':
			s.i++
			if object {
				s.space()
				s.key()
			}
			return !s.bad
		case object && c == '}', !object && c == ']':
			s.i++
			s.depth--
		default:
			s.bad = true
		}
	}
	return false
}

// key reads a name and its colon.
func (s *jsonScan) key() {
	if s.peek() != '"' {
		s.bad = true
		return
	}
	s.i++
	s.text()
	s.space()
	if s.peek() != ':' {
		s.bad = true
		return
	}
	s.i++
}

// peek returns the next byte, 0 at the end: no JSON has it outside a string.
func (s *jsonScan) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *jsonScan) space() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *jsonScan) word(w string) {
	if end := s.i + len(w); end > len(s.b) || string(s.b[s.i:end]) != w {
		s.bad = true
		return
	}
	s.i += len(w)
}

// text reads a string from behind its opening quote to behind its closing one.
func (s *jsonScan) text() {
	for !s.bad {
		s.plain()
		switch c := s.peek(); c {
		case '"':
			s.i++
			return
		case '\\':
			s.escape()
		default: // a control character, or it never closed
			s.bad = true
		}
	}
}

// plain skips what needs no look. Most of every text is this, so it goes by eight
// bytes: stop has the top bit of the first byte set that ends it. In bytes behind
// that one, a borrow may have set bits that mean nothing.
func (s *jsonScan) plain() {
	const each, top = 0x0101010101010101, 0x8080808080808080
	b, i := s.b, s.i
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, escape := w^each*'"', w^each*'\\'
		stop := ((w-each*' ')&^w | (quote-each)&^quote | (escape-each)&^escape) & top
		if stop != 0 {
			s.i = i + bits.TrailingZeros64(stop)/8
			return
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	s.i = i
}

// escape reads one escape; both halves of a surrogate pair are one.
func (s *jsonScan) escape() {
	s.i++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return
	case 'u':
		s.i++
	default:
		s.bad = true
		return
	}
	switch unit := s.hex4(); {
	case s.bad:
	case unit == 0, unit >= 0xDC00 && unit <= 0xDFFF:
		s.note = noteText
	case unit >= 0xD800 && unit <= 0xDBFF:
		s.lowHalf()
	}
}

// lowHalf reads the second half of a surrogate pair, if it is there.
func (s *jsonScan) lowHalf() {
	if s.i+1 >= len(s.b) || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		s.note = noteText
		return
	}
	back := s.i
	s.i += 2
	if unit := s.hex4(); !s.bad && (unit < 0xDC00 || unit > 0xDFFF) {
		s.note = noteText
		s.i = back // it is an escape of its own
	}
}

func (s *jsonScan) hex4() (v int) {
	if s.i+4 > len(s.b) {
		s.bad = true
		return 0
	}
	for _, c := range s.b[s.i : s.i+4] {
		v <<= 4
		switch {
		case c >= '0' && c <= '9':
			v |= int(c - '0')
		case c >= 'a' && c <= 'f':
			v |= int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			v |= int(c-'A') + 10
		default:
			s.bad = true
		}
	}
	s.i += 4
	return v
}

// number reads a number and notes one that is out of bounds.
func (s *jsonScan) number() {
	if s.peek() == '-' {
		s.i++
	}
	start := s.i
	if s.peek() == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.i++
		s.digits()
	}
	if s.i-start > projectionMaxDigits {
		s.note = noteNumber
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.exponent()
	}
}

func (s *jsonScan) exponent() {
	s.i++
	if c := s.peek(); c == '+' || c == '-' {
		s.i++
	}
	from := s.i
	s.digits()
	exponent := 0
	for _, c := range s.b[from:s.i] {
		if exponent <= projectionMaxExponent {
			exponent = exponent*10 + int(c-'0')
		}
	}
	if exponent > projectionMaxExponent {
		s.note = noteNumber
	}
}

// digits reads one digit or more.
func (s *jsonScan) digits() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		s.bad = true
	}
}
