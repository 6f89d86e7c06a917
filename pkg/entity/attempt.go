package entity

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// ErrorClass says why an attempt did not succeed. An error class is stored and shown, and decides what happens to the
// message. The constants below are all error classes that exist.
type ErrorClass string

const (
	// NetworkTimeout, BrokerUnavailable and RateLimited are transient: a later attempt may succeed.
	NetworkTimeout    ErrorClass = "NETWORK_TIMEOUT"
	BrokerUnavailable ErrorClass = "BROKER_UNAVAILABLE"
	RateLimited       ErrorClass = "RATE_LIMITED"

	// BadRecord is permanent for the record: it is too large or invalid.
	BadRecord ErrorClass = "BAD_RECORD"

	// Unauthorized, UnknownTopic and LoopRefused mean that nothing may be sent to the target topic. With these error
	// classes no attempt is counted, and the status of the message is the same as before.
	Unauthorized ErrorClass = "UNAUTHORIZED"
	UnknownTopic ErrorClass = "UNKNOWN_TOPIC"
	LoopRefused  ErrorClass = "LOOP_REFUSED"

	// Undeclared and PointerRefused concern a single message, which stays unchanged. Undeclared: the original topic is
	// known only from the record's headers, and no declaration confirms it. PointerRefused: the dead letter only points
	// to the record that failed, and that record must not be read or is not stored yet.
	Undeclared     ErrorClass = "UNDECLARED"
	PointerRefused ErrorClass = "POINTER_REFUSED"

	// Envelope concerns a single message, which stays unchanged: its value looks like an envelope, and nobody accepted
	// that the whole envelope is sent.
	Envelope ErrorClass = "ENVELOPE"

	// AlreadyPublished: the record of the attempt was found in the target log. The attempt is counted as successful.
	AlreadyPublished ErrorClass = "ALREADY_PUBLISHED"

	// UnknownClass: the attempt could not be settled, or its error has no other class.
	UnknownClass ErrorClass = "UNKNOWN"
)

// OfMessage reports whether the class concerns a single message, so that other messages of its topic may succeed.
func (c ErrorClass) OfMessage() bool {
	return c == BadRecord || c == Undeclared || c == PointerRefused || c == Envelope
}

// Verdict says how an attempt ended. It decides the new status of the message.
type Verdict string

const (
	// Acknowledged: the broker acknowledged the record. The message changes from RETRYING to RESOLVED.
	Acknowledged Verdict = "acknowledged"
	// Skipped: no Kafka is configured. The message becomes RESOLVED although nothing was sent.
	Skipped Verdict = "skipped"
	// Failed: a transient error. The message becomes PENDING with a time for its next attempt, or DEAD when its
	// attempts are used up.
	Failed Verdict = "failed"
	// Rejected: the record can never be accepted. The message becomes DEAD.
	Rejected Verdict = "rejected"
	// Refused: the topic cannot accept the record now. The message becomes PENDING; the attempt does not count.
	Refused Verdict = "refused"
	// GivenBack: the process that claimed the message did not send the record. The message becomes PENDING; the attempt
	// does not count.
	GivenBack Verdict = "given_back"
	// InDoubt: it is not known whether the record was written. The message stays RETRYING until the attempt is settled.
	InDoubt Verdict = "in_doubt"
	// Rescued: the process of the attempt died, and the target log does not have its record. The message becomes
	// PENDING; the attempt does not count. The tenth rescue in a row makes the message DEAD, because the message itself
	// may crash the process.
	Rescued Verdict = "rescued"
	// Abandoned: the attempt could not be settled, and an operator ended it.
	Abandoned Verdict = "abandoned"
)

// Valid reports whether a Result may have this verdict. Every verdict is valid except Abandoned, which only an
// operator's action sets.
func (v Verdict) Valid() bool {
	return slices.Contains([]Verdict{Acknowledged, Skipped, Failed, Rejected, Refused, GivenBack, InDoubt, Rescued}, v)
}

// Attempt is one try to send a message, with its result. A message's history is the list of its attempts.
type Attempt struct {
	MessageID uuid.UUID
	Number    int       // number of the attempt on its message; a requeue does not reset it
	ID        uuid.UUID // id of the claim; sent as the header dlq-redrive-id
	// RetryCount is the message's retry count after this attempt was counted, even if the attempt was given back later.
	// If the record of the attempt comes back as a new message, the retry count of the new message starts from this
	// number.
	RetryCount int
	RedriveID  uuid.UUID // redrive that made the attempt; uuid.Nil for none
	Verdict    Verdict
	Actor      string
	StartedAt  time.Time
	EndedAt    time.Time
	From, To   Status
	Class      ErrorClass // error class of the attempt; when the attempt succeeded: "" or AlreadyPublished
	Error      string
	Topic      string
	TopicID    string // Kafka's id of the target topic's incarnation at the time of the attempt; "" when unknown
	Partition  int32
	Offset     int64 // offset of the sent record; -1 when it is not known
	// ConsumerGroup is the consumer group that failed on the message. ConsumerGroup is set only in attempts that
	// AttemptsOf returns; "" when the group is not known or the message no longer exists.
	ConsumerGroup string
	Edit          *Edit // how the sent record differed from the message; nil when it was sent unchanged
}
