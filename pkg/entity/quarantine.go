package entity

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Quarantined is a record that the store refused to keep as a message.
type Quarantined struct {
	ID       uuid.UUID // the message's, once it is one
	Source   Source
	Record   Record
	SQLState string // why, as PostgreSQL classifies it
	Error    string // why, in the store's words
	FirstTry time.Time
	LastTry  time.Time
	Tries    int
	RetryAt  time.Time // when it is tried again
}

// Place is where the record stands in Kafka: topic/partition/offset.
func (q *Quarantined) Place() string {
	return fmt.Sprintf("%s/%d/%d", q.Source.Topic, q.Source.Partition, q.Source.Offset)
}

// Message is the record as a message that nothing more is known of.
func (q *Quarantined) Message() Message {
	return Message{ID: q.ID, Source: q.Source, Record: q.Record, Status: Pending}
}

// QuarantineNotFoundError names the record that is not in quarantine. Its kind is
// ErrNotFound.
type QuarantineNotFoundError struct{ ID uuid.UUID }

func (e *QuarantineNotFoundError) Error() string {
	return "quarantined record not found: " + e.ID.String()
}

// Is makes the error's kind ErrNotFound.
func (e *QuarantineNotFoundError) Is(target error) bool { return target == ErrNotFound }
