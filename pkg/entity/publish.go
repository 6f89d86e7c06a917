package entity

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrPublish: the broker refused a record or did not answer.
var ErrPublish = errors.New("publish failed")

// Target is the partition to which a message would be republished, chosen before an attempt starts. When Err is not
// nil, no attempt may start and the other fields are not valid: a *RefusedError (the message stays unchanged), or an
// error of kind ErrUnavailable (try later).
type Target struct {
	Topic     string
	TopicID   string // Kafka's id of the topic's incarnation; "" when unknown
	Partition int32
	EndOffset int64 // the partition's next offset, read before the claim
	// SentHash is RecordHash of the edited record; 0 without an edit, and when the bytes are not known in advance.
	SentHash int64
	Err      error
}

// Outgoing is one claimed message to publish. Message includes its bytes and the claim.
type Outgoing struct {
	Message Message
	Target  Target
	Edit    *Edit // nil: send the record unchanged
	// Redirect is the target of the redirect of the message's original topic; "" for none. An edit's topic overrides it.
	Redirect string
}

// Delivery is the broker's answer to one Outgoing.
type Delivery struct {
	Verdict   Verdict
	Class     ErrorClass // "" for success
	Err       error      // nil for success; its text is shown to operators
	Partition int32
	Offset    int64 // -1 when not known
	// Throttle is how long the broker asks the client to pause; 0 for no pause.
	Throttle time.Duration
}

// RetryValueLimit is the size in bytes of the longest value that is read together with a message, before it is known
// whether the message can be retried.
const RetryValueLimit = 1<<20 - 1

// RetryOrder asks for one attempt on one message.
type RetryOrder struct {
	ID uuid.UUID
	// Message is the message, just read with values up to RetryValueLimit; nil: Retry reads it.
	Message *Message
	// AcceptDuplicate also takes a message whose earlier attempt can never be
	// settled; its record may then arrive twice.
	AcceptDuplicate bool
	// Edit overrides parts of the record when it is sent; nil sends it unchanged.
	Edit *Edit
	// Cause.Operation, if set, becomes the id of the attempt.
	Cause AuditInfo
	// Resumed: a process that died may have started an attempt of the same operation. If it has, the retry starts
	// no other attempt and returns the result of that one.
	Resumed bool
}

// RetryResult is the result of a successful single retry; Status is always RESOLVED.
type RetryResult struct {
	ID        uuid.UUID
	Status    Status
	Published bool // false when no Kafka is configured: nothing was sent
	Topic     string
	Partition int32
	Offset    int64     // -1 when not known
	Attempt   uuid.UUID // id that the record carries in its header dlq-redrive-id
}

// PublishError is a retry whose attempt failed, with the message's present status. Its kind is ErrPublish.
type PublishError struct {
	ID      uuid.UUID
	Class   ErrorClass
	Status  Status
	RetryAt time.Time // when automatic retry or settling is due; zero when neither is
	Reason  string    // for operators
}

func (e *PublishError) Error() string { return "publish failed: " + string(e.Class) + ": " + e.Reason }

// Is makes the error's kind ErrPublish.
func (e *PublishError) Is(target error) bool { return target == ErrPublish }

// InterruptedError says that waiting for a redrive ended early, because of a shutdown or because a dependency cannot
// be reached. The redrive itself continues when it can; Redrive is its last known state. Its kind is ErrUnavailable.
type InterruptedError struct {
	Redrive Redrive
	Err     error
}

func (e *InterruptedError) Error() string {
	return "redrive " + e.Redrive.ID.String() + " is not over: " + e.Err.Error()
}

// Is makes the error's kind ErrUnavailable.
func (e *InterruptedError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }
