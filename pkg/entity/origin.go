package entity

import "fmt"

// Declaration says what the operators of the system have declared about an
// original topic of the records in a dead-letter topic. Headers of a record claim
// an original topic; only a declaration gives the claim authority.
type Declaration int

const (
	// NotDeclared: no declaration is about the dead-letter topic.
	NotDeclared Declaration = iota
	// Declared: a declaration, a mapping or an operator names the original topic.
	Declared
	// Contradicted: declarations are about the dead-letter topic and none of them
	// names the original topic.
	Contradicted
)

// OriginStanding is the judgement on the original topic of one message, by the
// configuration and the mapping at the time of the judgement.
type OriginStanding struct {
	Declaration Declaration
	// Undeclared says why the origin is undeclared; "" when it is not. A message
	// with an undeclared origin is retried one at a time only.
	Undeclared string
}

// Declared reports whether a declaration, a mapping or an operator names the
// original topic.
func (s OriginStanding) Declared() bool { return s.Declaration == Declared }

// PointerRead is the entry of the audit trail for a read of the record that a
// pointer stands for, on behalf of a user. From is the dead-letter topic, To the
// topic, partition and offset that were read.
func PointerRead(m *Message, cause Cause) AuditEntry {
	to := m.OriginalTopic
	if m.Origin.Partition != nil && m.Origin.Offset != nil {
		to = fmt.Sprintf("%s, partition %d, offset %d", to, *m.Origin.Partition, *m.Origin.Offset)
	}
	return AuditEntry{
		Action: ActionReadPointer, Kind: KindMessage, ObjectID: m.ID, From: m.Source.Topic, To: to,
		RetryCount: m.RetryCount, Cause: cause,
	}
}
