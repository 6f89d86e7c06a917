package repository

import (
	"context"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Shares completes the dead letters of share groups: it stores the records to which they point. Ingest.Store adds each
// message with a Share to the queue of messages whose record is due to be read.
type Shares interface {
	// TakePointers returns at most limit messages whose record is due to be read. It prefers messages that were never
	// tried, and then those that have been due longest. It ends the list when the headers of its messages have maxBytes
	// bytes together. No other caller gets these messages for the duration lease; after that they are due again.
	TakePointers(ctx context.Context, limit int, maxBytes int64, lease time.Duration) ([]Pointer, error)

	// SaveCompletions stores what was read. A completed message gets the key, the value, the headers and the timestamp
	// of its record; the headers of the dead letter follow those of the record. If the message has a Return, it becomes
	// a child as described for Ingest.Store; the function declared has the meaning of Batch.Declared. The search index
	// and the column payload follow later. A message that was deleted, archived or completed meanwhile does not change.
	// The result contains the returns among the completed messages.
	SaveCompletions(ctx context.Context, done []Completion, declared func(*entity.Message) bool) ([]Arrival, error)

	// CountPointers counts the messages whose record is not stored yet, by original topic. The parameter removed
	// contains, for each topic, the time before which retention has removed all records; nil when no such time is
	// known.
	CountPointers(ctx context.Context, removed map[string]time.Time) ([]PointerCount, error)

	// ForgetPointers deletes what the queue contains about messages that no longer exist, at most limit entries, and
	// returns the number of deleted entries.
	ForgetPointers(ctx context.Context, limit int) (int, error)
}

// Pointer is a message whose record must be read from its original topic.
type Pointer struct {
	Message entity.Message // contains the Digest, but neither key nor value; Origin and Failure.ConsumerGroup identify the record
	Tries   int            // number of earlier tries to read the record that the pointer names
	// LastDeath is the timestamp of the latest dead letter that names the record: the stored one or a repeated one.
	LastDeath time.Time
	// ReasonAge is the time for which Message.Share.Reason has been the same; 0 when there is no reason.
	ReasonAge time.Duration
}

// Completion is the result of reading a message's record.
type Completion struct {
	Message entity.Message // the message as in Pointer, with the Return that the record's headers name
	State   entity.Completion
	Reason  string        // why the record is not stored; set for every State except Completed
	Again   time.Duration // time until the next try; 0 when the record is not tried again
	Untried bool          // no read was tried, so the number of tries does not change; never set for Completed
	// Record and Timestamp are those of the record that was read; they are set only for Completed.
	Record    entity.Record
	Timestamp time.Time
}

// PointerCount is the number of messages of a topic whose record is not stored.
type PointerCount struct {
	Topic string // original topic
	State entity.Completion
	Count int64
	// OldestDeath is the timestamp of the oldest of these dead letters; zero when none of them has a timestamp. It
	// ignores messages in the state CompletionRefused whose record retention has removed.
	OldestDeath time.Time
}
