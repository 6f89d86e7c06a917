package entity

import "fmt"

// Declaration says whether operators have declared a dead-letter topic for an original topic. The headers of a record
// can only name an original topic; a declaration confirms it.
type Declaration int

const (
	// NotDeclared: the dead-letter topic is in no declaration.
	NotDeclared Declaration = iota
	// Declared: a declaration, the mapping or an operator names this original topic.
	Declared
	// Contradicted: the dead-letter topic is in declarations, but none of them names this original topic.
	Contradicted
)

// OriginStanding says how the configuration and the mapping assess the original topic of a message at the time of the
// check.
type OriginStanding struct {
	Declaration Declaration
	// Undeclared says why the original topic is undeclared; "" when it is not. Messages with an undeclared origin can
	// only be retried one at a time.
	Undeclared string
}

// Declared reports whether a declaration, the mapping or an operator names the original topic.
func (s OriginStanding) Declared() bool { return s.Declaration == Declared }

// EnvelopeAccepted returns the audit entry for a user who sends a message to the target topic although its value looks
// like an envelope. From is the dead-letter topic.
func EnvelopeAccepted(m *Message, target string, cause AuditInfo) AuditEntry {
	return AuditEntry{
		Action: ActionAcceptEnvelope, Kind: KindMessage, ObjectID: m.ID, From: m.Source.Topic, To: target,
		RetryCount: m.RetryCount, Cause: cause,
	}
}

// PointerRead returns the audit entry for a user who has read the record to which a message points. From is the
// dead-letter topic; To is the topic, the partition and the offset of the record that was read.
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
