package entity

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrPublish: the broker refused a record or did not answer.
var ErrPublish = errors.New("publish failed")

// Target is where a message would be republished, decided before any attempt
// starts. Either Err is nil and the rest is meant, or Err says why no attempt may
// start: a *RefusedError (the message stays as it is), or an error of kind
// ErrUnavailable (try later).
type Target struct {
	Topic     string
	TopicID   string // Kafka's, of the topic's present life; "" where there is none
	Partition int32
	EndOffset int64 // the partition's next offset, read before the claim
	// SentHash is RecordHash of what an edit makes of the record; 0 without an edit,
	// and where the bytes are not known beforehand.
	SentHash int64
	Err      error
}

// Outgoing is one claimed message on its way. Message has its bytes and the
// state that the claim gave it.
type Outgoing struct {
	Message Message
	Target  Target
	Edit    *Edit // nil: as it is
}

// Delivery is what the broker said to one Outgoing.
type Delivery struct {
	Verdict   Verdict
	Class     ErrorClass // "" for plain success
	Err       error      // nil for success; its text is shown to operators
	Partition int32
	Offset    int64 // -1 when not known
	// Throttle is for how long the broker wants to be left alone; 0 for not at all.
	Throttle time.Duration
}

// RetryValueLimit is the longest value that is read with a message before it is known
// whether the message can be retried.
const RetryValueLimit = 1<<20 - 1

// RetryOrder asks for one attempt on one message.
type RetryOrder struct {
	ID uuid.UUID
	// Message is the message, read a moment ago with a value up to RetryValueLimit; nil:
	// Retry reads it.
	Message *Message
	// AcceptDuplicate also takes a message whose earlier attempt can never be
	// settled; its record may then arrive twice.
	AcceptDuplicate bool
	// Edit is what to send in place of what; nil: as it is.
	Edit *Edit
	// Cause.Operation becomes the id of the attempt, when it is set.
	Cause Cause
	// Resumed: the same operation may have been begun before, by a process that did
	// not live to answer. What it began is the answer.
	Resumed bool
}

// RetryResult is what a single retry came to: always RESOLVED.
type RetryResult struct {
	ID        uuid.UUID
	Status    Status
	Published bool // false when no Kafka is configured: nothing was sent
	Topic     string
	Partition int32
	Offset    int64     // -1 when not known
	Attempt   uuid.UUID // whose id the record has in its header dlq-redrive-id
}

// PublishError is a retry whose attempt ended without success, and the state
// the message is in now. Its kind is ErrPublish.
type PublishError struct {
	ID      uuid.UUID
	Class   ErrorClass
	Status  Status
	RetryAt time.Time // when automatic retry, or the settling of a doubt, is due; zero when neither is
	Reason  string    // for operators
}

func (e *PublishError) Error() string { return "publish failed: " + string(e.Class) + ": " + e.Reason }

// Is makes the error's kind ErrPublish.
func (e *PublishError) Is(target error) bool { return target == ErrPublish }

// InterruptedError is the waiting for a redrive that was cut short, by a shutdown
// or because nothing can be reached. The redrive itself goes on when it can;
// Redrive is where it stood. Its kind is ErrUnavailable.
type InterruptedError struct {
	Redrive Redrive
	Err     error
}

func (e *InterruptedError) Error() string {
	return "redrive " + e.Redrive.ID.String() + " is not over: " + e.Err.Error()
}

// Is makes the error's kind ErrUnavailable.
func (e *InterruptedError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap gives the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }
