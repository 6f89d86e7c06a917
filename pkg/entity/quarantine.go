package entity

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Quarantined is a record that the store refused to store as a message.
type Quarantined struct {
	ID       uuid.UUID // id that the message will have when it is stored
	Source   Source
	Record   Record
	SQLState string // PostgreSQL's error code of the refusal
	Error    string // the store's error message
	FirstTry time.Time
	LastTry  time.Time
	Tries    int
	RetryAt  time.Time // when the next try is due
}

// Place returns the record's position in Kafka: topic/partition/offset.
func (q *Quarantined) Place() string {
	return fmt.Sprintf("%s/%d/%d", q.Source.Topic, q.Source.Partition, q.Source.Offset)
}

// Message returns the record as a PENDING message without derived fields.
func (q *Quarantined) Message() Message {
	return Message{ID: q.ID, Source: q.Source, Record: q.Record, Status: Pending}
}

// QuarantineNotFoundError names the record that is not in quarantine. Its kind is ErrNotFound.
type QuarantineNotFoundError struct{ ID uuid.UUID }

func (e *QuarantineNotFoundError) Error() string {
	return "quarantined record not found: " + e.ID.String()
}

// Is makes the error's kind ErrNotFound.
func (e *QuarantineNotFoundError) Is(target error) bool { return target == ErrNotFound }
