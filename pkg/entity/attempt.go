package entity

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// ErrorClass says why a publish did not succeed. It is stored and shown, and
// decides what happens next; the set is closed.
type ErrorClass string

const (
	// NetworkTimeout, BrokerUnavailable and RateLimited are transient.
	NetworkTimeout    ErrorClass = "NETWORK_TIMEOUT"
	BrokerUnavailable ErrorClass = "BROKER_UNAVAILABLE"
	RateLimited       ErrorClass = "RATE_LIMITED"

	// BadRecord is permanent for the record: too large, or invalid.
	BadRecord ErrorClass = "BAD_RECORD"

	// Unauthorized, UnknownTopic and LoopRefused concern the topic; the message
	// stays as it was.
	Unauthorized ErrorClass = "UNAUTHORIZED"
	UnknownTopic ErrorClass = "UNKNOWN_TOPIC"
	LoopRefused  ErrorClass = "LOOP_REFUSED"

	// Undeclared and PointerRefused concern the message, which stays as it was: the
	// original topic is a claim that must not be followed here, or the record that a
	// pointer stands for must not be read.
	Undeclared     ErrorClass = "UNDECLARED"
	PointerRefused ErrorClass = "POINTER_REFUSED"

	// AlreadyPublished was found in the target log and counts as success.
	AlreadyPublished ErrorClass = "ALREADY_PUBLISHED"

	// UnknownClass: not settled, or not understood.
	UnknownClass ErrorClass = "UNKNOWN"
)

// OfMessage reports whether the class concerns one message, and says nothing about
// others of its topic.
func (c ErrorClass) OfMessage() bool {
	return c == BadRecord || c == Undeclared || c == PointerRefused
}

// Verdict is how an attempt ended, seen from the state machine. The store turns
// it into a status; see Result.
type Verdict string

const (
	// Acknowledged: the broker has the record. RETRYING to RESOLVED.
	Acknowledged Verdict = "acknowledged"
	// Skipped: no Kafka is configured; resolved without sending anything.
	Skipped Verdict = "skipped"
	// Failed: transient. To PENDING with the next attempt time, or to DEAD when
	// the attempts are used up.
	Failed Verdict = "failed"
	// Rejected: the record can never be accepted. To DEAD.
	Rejected Verdict = "rejected"
	// Refused: the topic cannot take it now. To PENDING, the attempt given back.
	Refused Verdict = "refused"
	// GivenBack: never sent, says the process that claimed it. To PENDING, the
	// attempt given back.
	GivenBack Verdict = "given_back"
	// InDoubt: nobody knows. Stays RETRYING until it is settled.
	InDoubt Verdict = "in_doubt"
	// Rescued: its process died, and the target log does not have its record. To
	// PENDING, the attempt given back; the tenth rescue in a row leads to DEAD, for
	// the message may be what kills the process.
	Rescued Verdict = "rescued"
	// Abandoned: nobody could tell, and an operator ended it.
	Abandoned Verdict = "abandoned"
)

// Valid reports whether a Result may have the verdict: all but Abandoned, which operators say.
func (v Verdict) Valid() bool {
	return slices.Contains([]Verdict{Acknowledged, Skipped, Failed, Rejected, Refused, GivenBack, InDoubt, Rescued}, v)
}

// Attempt is one republish of a message and how it ended; the rows of it are a
// message's history.
type Attempt struct {
	MessageID uuid.UUID
	Number    int       // counts up for ever, also over a requeue
	ID        uuid.UUID // the claim's id, sent as dlq-redrive-id
	// RetryCount is the message's count with this attempt, whether or not it was
	// given back later; a record of it that comes back goes on from there.
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
	TopicID    string // Kafka's, of the topic's life then; "" where there was none
	Partition  int32
	Offset     int64 // -1 when not known
	// ConsumerGroup is that of the message's failure, told for attempts of redrives
	// only; "" when nobody said so, or the message is gone.
	ConsumerGroup string
	Edit          *Edit // how its record differed from the message's; nil for not at all
}
