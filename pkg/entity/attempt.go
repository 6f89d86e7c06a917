package entity

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// ErrorClass is the reason why a publish did not succeed. It is stored, shown and decides the next step; the set is
// closed.
type ErrorClass string

const (
	// NetworkTimeout, BrokerUnavailable and RateLimited are transient.
	NetworkTimeout    ErrorClass = "NETWORK_TIMEOUT"
	BrokerUnavailable ErrorClass = "BROKER_UNAVAILABLE"
	RateLimited       ErrorClass = "RATE_LIMITED"

	// BadRecord is permanent for the record: too large, or invalid.
	BadRecord ErrorClass = "BAD_RECORD"

	// Unauthorized, UnknownTopic and LoopRefused concern the topic; the message stays unchanged.
	Unauthorized ErrorClass = "UNAUTHORIZED"
	UnknownTopic ErrorClass = "UNKNOWN_TOPIC"
	LoopRefused  ErrorClass = "LOOP_REFUSED"

	// Undeclared and PointerRefused concern the message, which stays unchanged: only the record's headers name the
	// original topic and no declaration confirms it, or the record that a pointer names must not be read.
	Undeclared     ErrorClass = "UNDECLARED"
	PointerRefused ErrorClass = "POINTER_REFUSED"

	// AlreadyPublished: the attempt's record was found in the target log, which counts as success.
	AlreadyPublished ErrorClass = "ALREADY_PUBLISHED"

	// UnknownClass: the attempt is not settled, or its error has no other class.
	UnknownClass ErrorClass = "UNKNOWN"
)

// OfMessage reports whether the class concerns a single message, so that other messages of its topic may succeed.
func (c ErrorClass) OfMessage() bool {
	return c == BadRecord || c == Undeclared || c == PointerRefused
}

// Verdict is the end of an attempt as the state machine reads it. The store derives the new status from it.
type Verdict string

const (
	// Acknowledged: the broker acknowledged the record. RETRYING to RESOLVED.
	Acknowledged Verdict = "acknowledged"
	// Skipped: no Kafka is configured; resolved without sending anything.
	Skipped Verdict = "skipped"
	// Failed: a transient error. To PENDING with the next attempt time, or to DEAD when the attempts are used up.
	Failed Verdict = "failed"
	// Rejected: the record can never be accepted. To DEAD.
	Rejected Verdict = "rejected"
	// Refused: the topic cannot accept the record now. To PENDING; the attempt does not count.
	Refused Verdict = "refused"
	// GivenBack: the process that claimed the message did not send the record. To PENDING; the attempt does not count.
	GivenBack Verdict = "given_back"
	// InDoubt: it is not known whether the record was written. Stays RETRYING until the attempt is settled.
	InDoubt Verdict = "in_doubt"
	// Rescued: the attempt's process died, and the target log does not have its record. To PENDING; the attempt does
	// not count. The tenth rescue in a row leads to DEAD, because the message itself may crash the process.
	Rescued Verdict = "rescued"
	// Abandoned: the attempt could not be settled, and an operator ended it.
	Abandoned Verdict = "abandoned"
)

// Valid reports whether a Result may have the verdict: all except Abandoned, which only an operator sets.
func (v Verdict) Valid() bool {
	return slices.Contains([]Verdict{Acknowledged, Skipped, Failed, Rejected, Refused, GivenBack, InDoubt, Rescued}, v)
}

// Attempt is one try to send a message, with its result. A message's history is the list of its attempts.
type Attempt struct {
	MessageID uuid.UUID
	Number    int       // only increases; a requeue does not reset it
	ID        uuid.UUID // the claim's id, sent as dlq-redrive-id
	// RetryCount is the message's count including this attempt, also if the attempt was given back later. If the
	// record comes back as a new message, that message continues from this count.
	RetryCount int
	RedriveID  uuid.UUID // of the redrive that made it; uuid.Nil for none
	Verdict    Verdict
	Actor      string
	StartedAt  time.Time
	EndedAt    time.Time
	From, To   Status
	Class      ErrorClass // "" for success
	Error      string
	Topic      string
	TopicID    string // Kafka's id of the topic's incarnation at that time; "" when unknown
	Partition  int32
	Offset     int64 // -1 when not known
	// ConsumerGroup is the consumer group that failed on the message. It is set for attempts of redrives only; ""
	// when it is not known or the message no longer exists.
	ConsumerGroup string
	Edit          *Edit // how the sent record differed from the message; nil: unchanged
}
