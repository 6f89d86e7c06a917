package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Ingest stores incoming records: exactly one message for each (incarnation, partition, offset), however often the
// record is delivered, even after the message was deleted or archived. Positions move in the same step as the messages
// are stored.
type Ingest interface {
	// OpenTopics returns the store's ids of dead-letter topics, in the order of topics, and assigns ids to new topics.
	OpenTopics(ctx context.Context, topics []Topic) ([]TopicRef, error)

	// OpenPosition returns the next offset to store for each partition, in the order of starts. A partition that has no
	// position yet gets the one in starts.
	OpenPosition(ctx context.Context, starts []Position) ([]Position, error)

	// Mark returns the last Mark that SaveMark stored for a partition, nil when none is stored.
	Mark(ctx context.Context, p Partition) (*Mark, error)

	// SaveMark stores the Mark of a record that is stored already. Where the broker gives topics no ids, the Mark shows
	// later whether the partition still has the same log. For a partition without a position nothing is stored.
	SaveMark(ctx context.Context, p Partition, m Mark) error

	// Store appends a batch. A range is stored only when the position of its partition is equal to its From
	// (compare-and-swap): then its messages are stored, and the position becomes its To. Any other range is left out
	// with all its messages. Store returns the ranges that it stored, in no particular order. A batch must contain at
	// most one range for each partition, and a range for every message. The store sets CreatedAt and UpdatedAt. A
	// message that the store refuses for good goes into Quarantine in the step that moves the position past this
	// message; the other messages are stored.
	//
	// A message with a Return becomes the child of the parent that the Return names (see entity.Message.Descend) if the
	// Return names an attempt on the parent (in its history, or its present claim) that went to the message's own
	// original topic. The parent's outcome becomes returned in the same step, even if the attempt has no result yet.
	// When there is no such attempt, the Return is ignored. The return is unconfirmed when the message arrives neither
	// in the parent's dead-letter topic nor in one that Batch.Declared accepts: then the parent's outcome and the
	// counts of the redrive do not change. The message still becomes the child of its parent, so that loops end, and is
	// marked as an unconfirmed return; see entity.Message.UnconfirmedReturn.
	//
	// A store with a database also recognises returns by their content, because frameworks may drop the headers of
	// dlq-manager: a message without a Return, whose key and value are not empty, becomes a child when an attempt sent
	// the same key and value to the message's original topic within the last Batch.ReturnWindow, was acknowledged or
	// has no result yet, and no record of that attempt has come back yet. Of several such attempts the store chooses
	// the latest for which the return is confirmed, otherwise the latest of all. Only one confirmed and one unconfirmed
	// message are ever matched to an attempt by content. Return and result may be stored in any order and at the same
	// time. When a result says that the attempt sent nothing, the outcome returned is removed from the parent; the
	// message stays its child.
	//
	// When a batch contains a message that the store refuses, a part of the batch may be stored although Store returns
	// an error: the partitions' positions show how far the batch was stored, and Stored describes the stored part. The
	// caller can store the rest of the batch from there.
	Store(ctx context.Context, batch Batch) (Stored, error)
}

// Topic is a dead-letter topic as the cluster knows it: its name, and the id of its present incarnation (a topic that
// is deleted and created again gets another id).
type Topic struct{ Name, Incarnation string }

// TopicRef contains the store's ids of the name of a topic and of its present incarnation.
type TopicRef struct{ TopicID, Incarnation int32 }

// Partition is one partition of one incarnation of a dead-letter topic.
type Partition struct{ Incarnation, Partition int32 }

// Position is the next offset to store for a partition.
type Position struct {
	Partition
	Next int64
}

// Mark identifies a record that was read: by its offset, and by the latest timestamp in milliseconds and the checksum
// of the record batch that contained it.
type Mark struct {
	Offset int64
	Time   int64
	CRC    uint32
}

// Range is the part of a batch that belongs to one partition: every offset from From up to, not including, To has been
// processed. A Range may contain no message, because the log may have control records or no records at these offsets.
type Range struct {
	Partition
	From, To int64
}

// Batch is a set of ranges and the messages within them.
type Batch struct {
	Ranges       []Range
	Messages     []entity.Message
	ReturnWindow time.Duration // see Ingest.Store; 0 to recognise returns by their headers only
	// Declared reports whether the message's dead-letter topic is declared for the message's original topic; when Declared
	// is nil, no topic is declared.
	Declared func(*entity.Message) bool
}

// Stored is what Store has stored of a batch.
type Stored struct {
	Ranges  []Partition // ranges that were stored, in no particular order
	Returns []Arrival   // the returns among the stored messages

	Quarantined []Refused // records that went into quarantine and are not stored as messages
}

// Refused is a record that was not stored as a message, and the SQLSTATE with which PostgreSQL refused it. The text of
// PostgreSQL's error is left out, because it may quote parts of the record that must be masked.
type Refused struct {
	Source   entity.Source
	SQLState string
}

// Arrival is a stored message that is a return.
type Arrival struct {
	MessageID, Parent, Root uuid.UUID
	Topic                   string // original topic
	RetryCount, MaxRetries  int
	Status                  entity.Status // DEAD when the message came back too often
	ByContent               bool          // whether the return was recognised by its key and value, and not by its headers
	Confirmed               bool          // whether the return is confirmed, so that the outcome of the message that was sent is now returned
}
