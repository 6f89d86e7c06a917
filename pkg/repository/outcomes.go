package repository

import (
	"context"
)

// Outcomes say what became of records that were sent. A message's outcome is
// consumed when the offset that its consumer group committed has passed its
// record; it is derived when the message is read and never goes back.
type Outcomes interface {
	// NoteGroups remembers that consumer groups failed on records of topics; their
	// committed offsets tell what became of what is sent there.
	NoteGroups(ctx context.Context, groups []TopicGroup) error

	// WatchedGroups returns the consumer groups and topics that have messages which
	// were sent.
	WatchedGroups(ctx context.Context) ([]TopicGroup, error)

	// ConfigureGroups says which group tells of topics whose messages name none, in
	// place of what was said before.
	ConfigureGroups(ctx context.Context, groups []TopicGroup) error

	// NoteCommitted stores committed offsets. An offset that is lower than the one
	// known for the same life of a topic changes nothing.
	NoteCommitted(ctx context.Context, offsets []Committed) error
}

// MaxTopicGroups is how many consumer groups are noted for a topic: the names are text of
// records, which anyone may write.
const MaxTopicGroups = 100

// TopicGroup is a consumer group of a topic.
type TopicGroup struct{ Topic, Group string }

// Committed is the offset that a group has committed for a partition: the next
// one it will read.
type Committed struct {
	TopicGroup
	TopicID   string // Kafka's, of the topic's present life
	Partition int32
	Offset    int64
}
