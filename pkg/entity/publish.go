package entity

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrPublish: the broker refused a record or did not answer.
var ErrPublish = errors.New("publish failed")

// Target is the partition to which a message would be sent; it is chosen before an attempt starts. When Err is not nil,
// no attempt may start, and only Topic and Partition (-1 if it was not chosen) have a meaning. Err is either a
// *RefusedError, which leaves the message unchanged, or an error of the kind ErrUnavailable, after which the caller can
// try again later.
type Target struct {
	Topic     string
	TopicID   string // Kafka's id of the topic's incarnation; "" when unknown
	Partition int32
	EndOffset int64 // end offset of the partition, read before the claim
	// SentHash is the RecordHash of the edited record. It is 0 when there is no edit, or when the bytes are not known
	// before the record is sent.
	SentHash int64
	Envelope bool // the value that would be sent looks like an envelope
	// MaxBytes is the size of the largest batch that the topic accepts, and Compression the codec for records that are
	// larger uncompressed, "" for none. MaxBytes is 0 when the topic's settings are not known.
	MaxBytes    int
	Compression string
	Err         error
}

// Outgoing is a message that is to be sent. Message contains the record's bytes and, once it is claimed, the claim.
type Outgoing struct {
	Message Message
	Target  Target
	Edit    *Edit // nil when the record is sent unchanged
	// Redirect is the topic to which the message's original topic is redirected; "" for none. A topic in Edit has
	// precedence over Redirect.
	Redirect string
	// AcceptEnvelope sends a value as it is although it looks like an envelope.
	AcceptEnvelope bool
}

// Delivery is the result of sending an Outgoing, or of searching for the record of a claim.
type Delivery struct {
	Verdict   Verdict
	Class     ErrorClass // error class of the attempt; when the attempt succeeded: "" or AlreadyPublished
	Err       error      // error of the attempt, whose text operators see; nil when the attempt succeeded
	Partition int32
	Offset    int64 // offset of the sent record; -1 when it is not known
	// Throttle is the time for which the broker asks the client to pause; 0 for no pause.
	Throttle time.Duration
	// OfValue: the message was Refused because its value may not be read from its topic. The target was not asked.
	OfValue bool
}

// RetryValueLimit is the maximum length in bytes of a value that a retry reads together with its message. A longer
// value is read later, because it is not known yet whether the message can be retried.
const RetryValueLimit = 1<<20 - 1

// RetryOrder requests one attempt on one message.
type RetryOrder struct {
	ID uuid.UUID
	// Message is the message, which the caller has just read with values up to RetryValueLimit. When it is nil, Retry
	// reads the message.
	Message *Message
	// AcceptDuplicate also sends a message whose earlier attempt cannot be settled. With AcceptDuplicate, the record of
	// the message may arrive twice.
	AcceptDuplicate bool
	// AcceptEnvelope also sends a message whose value looks like an envelope, as it is.
	AcceptEnvelope bool
	// Edit changes parts of the record when it is sent; nil sends the record unchanged.
	Edit *Edit
	// Cause says who requested the retry. If Cause.Operation is set, it becomes the id of the attempt.
	Cause AuditInfo
	// Resumed: a process that died may have started an attempt for the same operation. If the operation already has an
	// attempt, Retry starts no other attempt and returns the result of the existing one.
	Resumed bool
}

// RetryResult is the result of a single retry that succeeded. Status is always RESOLVED.
type RetryResult struct {
	ID        uuid.UUID
	Status    Status
	Published bool // false when no Kafka is configured, so that nothing was sent
	Topic     string
	Partition int32
	Offset    int64     // offset of the sent record; -1 when it is not known
	Attempt   uuid.UUID // id that the record carries in its header dlq-redrive-id
}

// PublishError reports that the attempt of a retry failed, with the present status of the message. Its kind is
// ErrPublish.
type PublishError struct {
	ID      uuid.UUID
	Class   ErrorClass
	Status  Status
	RetryAt time.Time // when the message is due for automatic retry or for settling; zero when neither will happen
	Reason  string    // why the attempt failed, in words for operators
}

func (e *PublishError) Error() string { return "publish failed: " + string(e.Class) + ": " + e.Reason }

// Is makes the error's kind ErrPublish.
func (e *PublishError) Is(target error) bool { return target == ErrPublish }

// InterruptedError reports that a caller stopped waiting for a redrive before its end, because of a shutdown, because a
// dependency cannot be reached, or because the redrive was paused or stopped. Otherwise the redrive continues as soon
// as it can. Redrive is the last state that the caller read. Its kind is ErrUnavailable.
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
