package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Ingest stores incoming records: exactly one message for each (incarnation, partition, offset), however often it is
// redelivered, also after messages were deleted or archived. Positions move in the same step as the messages are
// stored.
type Ingest interface {
	// OpenTopics returns the store's numbers for dead-letter topics, in the order of topics, and assigns numbers to
	// new ones.
	OpenTopics(ctx context.Context, topics []Topic) ([]TopicRef, error)

	// OpenPosition returns the next offset to store for each partition, in the
	// order of starts; a partition without a position gets its start.
	OpenPosition(ctx context.Context, starts []Position) ([]Position, error)

	// Mark returns the last mark that NoteMark stored for a partition, nil when there is none.
	Mark(ctx context.Context, p Partition) (*Mark, error)

	// NoteMark stores the mark of a record below the position. Marks identify the log where its broker gives topics
	// no ids. For a partition without a position nothing is stored.
	NoteMark(ctx context.Context, p Partition, m Mark) error

	// A message that the store refuses for good goes into Quarantine in the step that
	// moves the position past it; the others are stored.
	//
	// Store appends a batch. A range counts only when the partition's position
	// is exactly its From (compare-and-swap): its messages are stored and the
	// position becomes its To. Ranges that do not match are left out with all
	// their messages, the others are stored. It returns the ranges that counted,
	// in no particular order. A batch has at most one range for a partition; every message belongs to a
	// range of the batch. CreatedAt and UpdatedAt are the store's own.
	//
	// A message with a Return whose attempt is one of that parent's (in its
	// history, or claiming it now), and went to the message's own original topic,
	// is the parent's child: see entity.Message.Descend. The parent's outcome
	// becomes returned in the same step, also when its attempt has no result yet.
	// Without that proof the Return is ignored. The outcome stays as it is, and so do
	// the counts of a redrive, when the return is not confirmed: when it arrives neither
	// in the parent's dead-letter topic nor in one that Batch.Declared declares. The
	// message is the child of its parent all the same, so that no line is endless, and is
	// marked; see entity.Message.UnconfirmedReturn.
	//
	// A store with a database knows returns by their content, too: a message without a
	// Return, whose key and value are not empty, is a child too
	// when an attempt of the last Batch.ReturnWindow that was acknowledged, or has no
	// result yet, sends the same key and value to its original topic and nothing has
	// come back for that attempt yet: frameworks may drop our headers. Of several the
	// latest is the parent, after those of which it is a confirmed return. One confirmed
	// and one unconfirmed message only are ever the return of an attempt in this way. Return and result may be stored in any order and at the same time. A result
	// that nothing was sent takes the outcome back; the message stays a child.
	//
	// Of a batch with a message that is refused, a part may be stored although there is an
	// error: the positions say up to where, and Stored what it was. The rest of the batch
	// can be stored from there.
	Store(ctx context.Context, batch Batch) (Stored, error)
}

// Topic is a dead-letter topic as the cluster knows it: its name, and the id of its present incarnation (a topic that
// is deleted and created again gets another id).
type Topic struct{ Name, Incarnation string }

// TopicRef has the store's numbers of a topic's name and of its present incarnation.
type TopicRef struct{ TopicID, Incarnation int32 }

// Partition is one partition of one incarnation of a dead-letter topic.
type Partition struct{ Incarnation, Partition int32 }

// Position is the next offset to store of a partition.
type Position struct {
	Partition
	Next int64
}

// Mark identifies a record that was read: its offset, and the latest timestamp in milliseconds and the checksum of
// its batch.
type Mark struct {
	Offset int64
	Time   int64
	CRC    uint32
}

// Range is the step of a batch in one partition: every offset from From up to, not including, To has been processed.
// It may hold no message (control records, gaps).
type Range struct {
	Partition
	From, To int64
}

// Batch is a set of ranges and the messages within them.
type Batch struct {
	Ranges       []Range
	Messages     []entity.Message
	ReturnWindow time.Duration // 0: returns are recognised by headers only
	// Declared reports whether the message's dead-letter topic is declared for its original topic; nil means that
	// none is.
	Declared func(*entity.Message) bool
}

// Stored is the result of storing a batch.
type Stored struct {
	Ranges  []Partition // ranges that counted, in no particular order
	Returns []Arrival   // the returns among the stored messages

	Quarantined []Refused // messages that went into quarantine instead
}

// Refused is a record that was not stored as a message, and the reason as PostgreSQL classifies it. The server's own
// message is not kept: it may quote the record, which may be masked.
type Refused struct {
	Source   entity.Source
	SQLState string
}

// Arrival is a returned message.
type Arrival struct {
	MessageID, Parent, Root uuid.UUID
	Topic                   string // original
	RetryCount, MaxRetries  int
	Status                  entity.Status // DEAD at the limit: a loop was stopped
	ByContent               bool          // recognised by key and value, not by headers
	Confirmed               bool          // it changed the parent's outcome
}
