package proxy

import (
	"bytes"
	"encoding/binary"
)

// ReadyForQuery returns the end of PostgreSQL's answer to a statement outside a transaction: the changes
// of the statement have been committed.
func ReadyForQuery() []byte { return []byte{'Z', 0, 0, 0, 5, 'I'} }

// Statements makes matchers of the statements that a client executes, prepared or not. name gets a
// statement's text and returns the name of the match, or "" to ignore the statement. A match ends
// with the message that makes PostgreSQL execute and commit. Connections must not be encrypted.
func Statements(name func(text string) string) func() Matcher {
	return func() Matcher { return &statementMatcher{name: name, prepared: map[string]string{}} }
}

type statementMatcher struct {
	name     func(text string) string
	prepared map[string]string // names of the matches for prepared statements, by the statement's name
	message  []byte            // what was read so far of the message that is being read
	greeted  bool              // the client has sent its start-up message; unlike later messages, it has no type
	bound    string            // name of the match for the statement that was bound last
}

func (m *statementMatcher) Next(b []byte) (int, string) {
	for at := 0; at < len(b); {
		n := min(m.missing(), len(b)-at)
		m.message = append(m.message, b[at:at+n]...)
		at += n
		if m.missing() > 0 {
			continue
		}
		what := m.read()
		m.message = m.message[:0]
		if what != "" {
			return at, what
		}
	}
	return -1, ""
}

// missing returns how many more bytes the matcher needs before it can continue: the rest of a message's head, or the
// rest of the message.
func (m *statementMatcher) missing() int {
	head := m.headBytes()
	if len(m.message) < head {
		return head - len(m.message)
	}
	size := int(binary.BigEndian.Uint32(m.message[head-sizeBytes:]))
	return head - sizeBytes + size - len(m.message)
}

// headBytes returns the length of a message's head: its type and its size. The start-up message has no type.
func (m *statementMatcher) headBytes() int {
	if m.greeted {
		return 1 + sizeBytes
	}
	return sizeBytes
}

// version3 begins the start-up message; other numbers request encryption first.
const version3 = 3 << 16

// read interprets a complete message, and returns the match name of the statement that it executes.
func (m *statementMatcher) read() (what string) {
	body := m.message[m.headBytes():]
	if !m.greeted {
		m.greeted = len(body) >= sizeBytes && binary.BigEndian.Uint32(body)>>16 == version3>>16
		return ""
	}
	switch m.message[0] {
	case 'Q': // a plain query
		text, _ := cString(body)
		return m.name(text)
	case 'P': // a prepare message contains the statement's name and its text
		name, rest := cString(body)
		text, _ := cString(rest)
		m.prepared[name] = m.name(text)
	case 'B': // a bind message contains the name of a portal and the statement's name
		_, rest := cString(body)
		name, _ := cString(rest)
		m.bound = m.prepared[name]
	case 'S': // sync, which commits
		what, m.bound = m.bound, ""
	}
	return what
}

func cString(b []byte) (text string, rest []byte) {
	before, rest, _ := bytes.Cut(b, []byte{0})
	return string(before), rest
}
