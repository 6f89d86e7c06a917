package repository

import (
	"context"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Shares completes the dead letters of share groups: it stores the records to which they point. Ingest.Store adds a
// message with a Share to the queue.
type Shares interface {
	// TakePointers returns at most limit messages whose record is due to be read, the messages that wait longest first.
	// It ends with the message whose headers reach maxBytes. The messages belong to the caller for the time of lease;
	// then they are due again.
	TakePointers(ctx context.Context, limit int, maxBytes int64, lease time.Duration) ([]Pointer, error)

	// SaveCompletions stores what was read. A completed message gets the key, the value, the headers and the timestamp
	// of its record; its own headers follow. It becomes the child of the attempt that sent the record, as Ingest.Store
	// describes for a Return; declared is Batch.Declared. The search index and the column payload follow later.
	// A message that was deleted, archived or completed meanwhile does not change. The returns are those that counted.
	SaveCompletions(ctx context.Context, done []Completion, declared func(*entity.Message) bool) ([]Arrival, error)

	// CountPointers counts the messages whose record is not stored yet, by original topic. The parameter removed has, by
	// topic, the time before which retention has removed all records; nil for unknown.
	CountPointers(ctx context.Context, removed map[string]time.Time) ([]PointerCount, error)

	// ForgetPointers deletes at most limit rows of messages that no longer exist, and returns how many.
	ForgetPointers(ctx context.Context, limit int) (int, error)
}

// Pointer is a message whose record is in its original topic.
type Pointer struct {
	Message entity.Message // has the Digest, but neither key nor value; Origin and Failure.ConsumerGroup name the record
	Tries   int            // tries that ended before the present try
	// LastDeath is the timestamp of the latest dead letter that names the record: the message's or that of a repeat.
	LastDeath time.Time
	// ReasonAge is for how long Message.Share.Reason has been the reason; 0 for no reason.
	ReasonAge time.Duration
}

// Completion is the result of reading a message's record.
type Completion struct {
	Message entity.Message // the message as in Pointer, with the Return that the record's headers name
	State   entity.Completion
	Reason  string        // why the record is not stored; set for every State but Completed
	Again   time.Duration // time until the next try; 0: there is none
	Untried bool          // the record was not read, and this does not count as a try; not for Completed
	// Record and Timestamp are those of the record that was read; they are set only for Completed.
	Record    entity.Record
	Timestamp time.Time
}

// PointerCount is how many messages of a topic lack their record.
type PointerCount struct {
	Topic string // original topic
	State entity.Completion
	Count int64
	// OldestDeath is the timestamp of the oldest of these dead letters; zero where none has one. Refused ones whose
	// record was removed before do not count.
	OldestDeath time.Time
}
