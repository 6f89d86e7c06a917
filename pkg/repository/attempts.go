package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Attempts stores each republish of a message as a claim followed by exactly one result.
type Attempts interface {
	// Claim claims messages for one attempt each: a PENDING message with attempts left becomes RETRYING, its retry
	// count goes up by one, the intent (claim id, target partition and its end offset) is stored with an expiry by the
	// store's clock, and the last publish error and class are cleared. It returns the new state of the claimed
	// messages, without key, headers and value, in no particular order. Messages in another state (but see
	// Claim.TakeOver), deleted messages, and messages with another topic than Claim.OriginalTopic are left out of the
	// answer, and so are messages that another session has locked, unless Claiming.Wait is set. No message is claimed
	// twice. When a claim with the same id was stored already, its message is returned again, because the first answer
	// may have been lost.
	Claim(ctx context.Context, claims []Claim, how Claiming) ([]entity.Message, error)

	// Claimable returns those of the messages that an attempt could claim: PENDING with attempts left. Claimable does
	// not wait for locks. When it returns a message that Claim left out, another session had locked the message, or
	// Claim.OriginalTopic was no longer its original topic.
	Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error)

	// Finish ends attempts. A result counts only when its message is RETRYING under that claim id: a result that comes
	// late or is repeated changes nothing and is left out of the answer. An attempt that counts is appended to the
	// history in the same step; entity.Verdict defines the status that follows. When a claim with TakeOver exceeded the
	// retry limit, and its result is refused, given back or rescued, the message becomes DEAD, because a PENDING
	// message must have an attempt left. A message that becomes PENDING is due for automatic retry after
	// Result.RetryIn.
	//
	// For a result with the verdict InDoubt, Finish stores class and error, adds nothing to the history and keeps the
	// claim. When the class is UNKNOWN and the claim has expired, Finish also marks the message unsettleable: Expired
	// no longer returns the message. Then a later result of the claim, a claim with TakeOver or a call of MarkDead ends
	// the claim.
	Finish(ctx context.Context, results []Result, cause entity.AuditInfo) ([]Finished, error)

	// Expired returns the RETRYING messages whose claim has expired and which are not marked unsettleable. They are in
	// the order of created_at and then id, and without key, headers and value.
	Expired(ctx context.Context, q ExpiredQuery) ([]entity.Message, error)

	// Due returns up to q.Limit ids of messages, oldest first, that automatic retry may claim now: PENDING messages
	// with attempts left whose original topic is one of q.Topics, and which were never attempted or whose next attempt
	// is due. It leaves out messages whose two topics are a pair in q.Except (but see DueQuery.Except), and messages of
	// share groups whose record is not stored. The scan for messages that were never attempted starts after q.After;
	// next is the cursor for the next call, the zero Cursor at the end.
	Due(ctx context.Context, q DueQuery) (ids []uuid.UUID, next Cursor, err error)

	// Stuck returns the number of messages that have been RETRYING for longer than age.
	Stuck(ctx context.Context, age time.Duration) (int64, error)

	// History returns the attempts on a message, oldest first, with their edits. An edit does not contain the value
	// that a redrive's patch made. The result is empty when there were no attempts or the message does not exist.
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)

	// AttemptsOf returns for each of the messages the last attempt that the redrive made, if there is one. The attempts
	// contain the consumer group that failed on the message, but not their edits. An attempt that is still claimed has
	// verdict InDoubt and To RETRYING.
	AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error)
}

// RescueLimit is the number of attempts in a row that end as rescues after which the message becomes DEAD.
const RescueLimit = 10

// Claim is the request to claim one message.
type Claim struct {
	MessageID uuid.UUID
	ID        uuid.UUID // new for each attempt
	RedriveID uuid.UUID // redrive that makes the attempt; uuid.Nil for none
	Topic     string
	TopicID   string
	Partition int32
	EndOffset int64

	// OriginalTopic is the original topic that the message had when the caller chose Topic. Claim leaves out a message
	// whose original topic has changed since then. "" claims the message whatever its original topic is.
	OriginalTopic string

	// TakeOver also claims a RETRYING message that is marked unsettleable, even when its attempts are used up: the
	// caller accepts that the message's record may be in the target log already. The claim that TakeOver replaces is
	// appended as an attempt to the history, with class UNKNOWN.
	TakeOver bool

	// Edit is stored with the attempt; nil when the record is sent unchanged.
	Edit *entity.Edit
	// SentHash is the entity.RecordHash of the record that is sent under an Edit. It identifies the record when it
	// comes back without the headers of dlq-manager.
	SentHash int64
}

// Claiming contains the options of a call of Claim.
type Claiming struct {
	Expiry time.Duration // time from a claim's beginning until it expires
	Wait   bool          // wait while another session locks a message; then check the state in which that session leaves the message
	Cause  entity.AuditInfo
	// Audit appends an audit entry for each claim. Redrives do not set it: for a redrive, the audit trail contains the
	// redrive itself and the end of each attempt.
	Audit bool
	// Brief makes the answer smaller, for a caller that has just loaded the messages: each returned message has only
	// ID, Status, RetryCount, MaxRetries, UpdatedAt, LastRetryAt and Claim.
	Brief bool
}

// DueQuery selects messages for automatic retry.
type DueQuery struct {
	Topics []string // original topics
	After  Cursor   // see Attempts.Due
	Limit  int
	// Except leaves out the messages of these pairs of topics, unless an operator has set the message's original topic.
	Except []TopicPair
}

// TopicPair is an original topic together with a dead-letter topic that contains messages of it.
type TopicPair struct{ Original, DLQ string }

// ExpiredQuery selects expired claims.
type ExpiredQuery struct {
	ID    uuid.UUID // only the expired claim of the message with this id; uuid.Nil for all messages
	After Cursor    // only expired claims of messages after this cursor in the order of the list; the zero Cursor for all
	Limit int       // maximum number of messages
}

// Result is the result of one attempt; Finish stores it and ends the attempt.
type Result struct {
	MessageID uuid.UUID
	ClaimID   uuid.UUID
	Verdict   entity.Verdict
	Class     entity.ErrorClass // error class of the attempt; "" when the attempt succeeded
	Error     string            // the error in words for operators; dlq-manager has written this text, so it contains no secrets
	Partition int32             // partition to which the record was published
	Offset    int64             // offset of the published record; -1 when it is not known
	RetryIn   time.Duration     // delay until the next automatic attempt, used only if the result makes the message PENDING
}

// Finished is the state of a message after a Result.
type Finished struct {
	MessageID     uuid.UUID
	Status        entity.Status
	RetryCount    int
	MaxRetries    int
	NextAttemptAt time.Time
}
