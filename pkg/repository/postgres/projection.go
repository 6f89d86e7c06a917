package postgres

import (
	"encoding/json"
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
	noteOver     = "over_limit" // the value itself was not stored
)

// projectable returns "" when jsonb holds value faithfully enough, else the
// note to keep. encoding/json's Valid is not enough: it accepts bytes that are
// not UTF-8, NUL escapes, lone surrogates and any exponent.
func projectable(value []byte, maxBytes int) string {
	switch {
	case len(value) > maxBytes:
		return noteTooLarge
	case !utf8.Valid(value):
		return noteNotJSON
	}
	// Depth comes before Valid, which gives up at 10,000 as if it were no JSON.
	if note := scanJSON(value); note == noteTooDeep {
		return noteTooDeep
	} else if !json.Valid(value) {
		return noteNotJSON
	} else {
		return note
	}
}

// scanJSON looks at text that is probably JSON, without judging its grammar.
func scanJSON(b []byte) (note string) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '{' || c == '[':
			if depth++; depth > projectionMaxDepth {
				return noteTooDeep
			}
		case c == '}' || c == ']':
			depth--
		case c == '"':
			end, ok := scanString(b, i+1)
			if !ok {
				note = noteText
			}
			i = end
		case c >= '0' && c <= '9':
			end, ok := scanNumber(b, i)
			if !ok {
				note = noteNumber
			}
			i = end - 1
		}
	}
	return note
}

// scanString returns the index of the closing quote; ok is false when jsonb has
// no such text.
func scanString(b []byte, i int) (end int, ok bool) {
	ok = true
	high := false // the last escape was the first half of a pair
	for ; i < len(b); i++ {
		switch {
		case b[i] == '"':
			return i, ok && !high
		case b[i] != '\\' || i+1 >= len(b):
			ok, high = ok && !high, false
		case b[i+1] != 'u' || i+5 >= len(b):
			ok, high = ok && !high, false
			i++
		default:
			unit := hex4(b[i+2 : i+6])
			low := unit >= 0xDC00 && unit <= 0xDFFF
			if unit == 0 || low != high {
				ok = false
			}
			high = unit >= 0xD800 && unit <= 0xDBFF
			i += 5
		}
	}
	return i, false
}

func hex4(b []byte) (v int) {
	for _, c := range b {
		v <<= 4
		switch {
		case c >= '0' && c <= '9':
			v |= int(c - '0')
		case c >= 'a' && c <= 'f':
			v |= int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			v |= int(c-'A') + 10
		}
	}
	return v
}

// scanNumber returns where the number ends; ok is false when its digits or its
// exponent are out of bounds.
func scanNumber(b []byte, i int) (end int, ok bool) {
	start := i
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '.') {
		i++
	}
	ok = i-start <= projectionMaxDigits
	if i >= len(b) || b[i] != 'e' && b[i] != 'E' {
		return i, ok
	}
	i++
	if i < len(b) && (b[i] == '+' || b[i] == '-') {
		i++
	}
	exponent := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		if exponent <= projectionMaxExponent {
			exponent = exponent*10 + int(b[i]-'0')
		}
	}
	return i, ok && exponent <= projectionMaxExponent
}
