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
	Err       error
}

// Outgoing is one claimed message on its way. Message has its bytes and the
// state that the claim gave it.
type Outgoing struct {
	Message Message
	Target  Target
}

// Delivery is what the broker said to one Outgoing.
type Delivery struct {
	Verdict   Verdict
	Class     ErrorClass // "" for plain success
	Err       error      // nil for success; its text is shown to operators
	Partition int32
	Offset    int64 // -1 when not known
}

// RetryResult is what a single retry came to: always RESOLVED.
type RetryResult struct {
	ID        uuid.UUID
	Status    Status
	Published bool // false when no Kafka is configured: nothing was sent
	Topic     string
	Partition int32
	Offset    int64 // -1 when not known
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

// RedriveReport counts what a retry of many came to. Selected is the sum of the
// other counts, unless the run was interrupted.
type RedriveReport struct {
	ID       uuid.UUID
	Topic    string
	Selected int // in the snapshot that the run began with
	Resolved int
	Failed   int // back to PENDING, or given up; Dead of them
	Dead     int
	InDoubt  int // RETRYING until settled
	Skipped  int // refused, taken by somebody else, or gone meanwhile
	// Reasons counts skipped messages by reason and failed ones by error class.
	Reasons map[string]int
}

// InterruptedError is a redrive that a shutdown or a lost dependency cut short.
// What it did is in Report; nothing is half done. Its kind is ErrUnavailable.
type InterruptedError struct {
	Report RedriveReport
	Err    error
}

func (e *InterruptedError) Error() string {
	return "redrive " + e.Report.ID.String() + " was interrupted: " + e.Err.Error()
}

// Is makes the error's kind ErrUnavailable.
func (e *InterruptedError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap gives the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }
