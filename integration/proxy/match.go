package proxy

import (
	"bytes"
	"slices"
)

// Matcher searches the bytes that one client sends, piece by piece, for the requests or statements at which the proxy
// may inject a fault.
type Matcher interface {
	// Next reads b, which continues the bytes of earlier calls, up to the end of the first match,
	// and returns the end's index and the name of the match. Without a match it reads all of b and
	// returns -1 and "".
	Next(b []byte) (end int, what string)
}

// Nothing makes a matcher that never matches.
func Nothing() Matcher { return nothing{} }

type nothing struct{}

func (nothing) Next([]byte) (int, string) { return -1, "" }

// Bytes makes matchers of a pattern, which must not be empty. A match is called "bytes" and ends
// with the pattern; matches do not overlap.
func Bytes(pattern []byte) func() Matcher {
	return func() Matcher { return &byteMatcher{pattern: pattern} }
}

type byteMatcher struct {
	pattern []byte
	before  []byte // the last bytes of earlier calls, which may be the beginning of a match
}

func (m *byteMatcher) Next(b []byte) (int, string) {
	text := slices.Concat(m.before, b)
	at := bytes.Index(text, m.pattern)
	if at < 0 {
		m.before = bytes.Clone(text[max(0, len(text)-len(m.pattern)+1):])
		return -1, ""
	}
	end := at + len(m.pattern) - len(m.before)
	m.before = nil
	return end, "bytes"
}

// After returns a function that makes matchers. Each matcher finds one match, named "after", which ends with the n-th
// byte of the client.
func After(n int) func() Matcher {
	return func() Matcher { return &afterMatcher{left: n} }
}

type afterMatcher struct{ left int }

func (m *afterMatcher) Next(b []byte) (int, string) {
	if m.left <= 0 || len(b) < m.left {
		m.left -= len(b)
		return -1, ""
	}
	end := m.left
	m.left = 0
	return end, "after"
}
