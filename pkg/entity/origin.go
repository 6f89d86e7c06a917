package entity

import "fmt"

// Declaration says whether operators have declared an original topic for a dead-letter topic. A record's headers
// only name an original topic; a declaration confirms it.
type Declaration int

const (
	// NotDeclared: no declaration covers the dead-letter topic.
	NotDeclared Declaration = iota
	// Declared: a declaration, a mapping or an operator names the original topic.
	Declared
	// Contradicted: declarations cover the dead-letter topic, and none of them names the original topic.
	Contradicted
)

// OriginStanding is the assessment of one message's original topic by the configuration and the mapping at the time
// of the check.
type OriginStanding struct {
	Declaration Declaration
	// Undeclared says why the origin is undeclared; "" when it is not. A message
	// with an undeclared origin is retried one at a time only.
	Undeclared string
}

// Declared reports whether a declaration, a mapping or an operator names the original topic.
func (s OriginStanding) Declared() bool { return s.Declaration == Declared }

// PointerRead returns the audit entry for a user's read of the record that a pointer names. From is the dead-letter
// topic, To the topic, partition and offset that were read.
func PointerRead(m *Message, cause AuditInfo) AuditEntry {
	to := m.OriginalTopic
	if m.Origin.Partition != nil && m.Origin.Offset != nil {
		to = fmt.Sprintf("%s, partition %d, offset %d", to, *m.Origin.Partition, *m.Origin.Offset)
	}
	return AuditEntry{
		Action: ActionReadPointer, Kind: KindMessage, ObjectID: m.ID, From: m.Source.Topic, To: to,
		RetryCount: m.RetryCount, Cause: cause,
	}
}
