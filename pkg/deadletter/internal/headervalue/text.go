package headervalue

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// Text returns b as text that any store accepts, of at most limit bytes and cut between characters. Invalid UTF-8 and
// NUL, which PostgreSQL refuses, become U+FFFD.
func Text(b []byte, limit int) string {
	b = b[:boundary(b, limit)]
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return string(b)
	}
	s := strings.ToValidUTF8(string(b), replacement)
	s = strings.ReplaceAll(s, "\x00", replacement)
	return s[:boundary([]byte(s), limit)]
}

// boundary returns the largest length, up to limit, to which b can be cut without cutting a character. Bytes that are
// not UTF-8 may be cut anywhere.
func boundary(b []byte, limit int) int {
	if len(b) <= limit {
		return len(b)
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return limit
}
