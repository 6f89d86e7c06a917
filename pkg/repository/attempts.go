package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Attempts is the way of one republish: claim, then exactly one result.
type Attempts interface {
	// Claim takes messages for one attempt each: a PENDING message with attempts left
	// becomes RETRYING, its count goes up by one, the intent (claim id, target partition
	// and its end offset) is stored with an expiry by the store's clock, and the last
	// publish error and class are cleared. It returns the new state of those it took,
	// without their bytes, in no order. A message in another state, or gone, is left out,
	// and so is one that another session locks, unless how.Wait is set. No message is taken
	// twice. A claim that was made before, under the same id, is returned: the answer to it
	// may have been lost.
	Claim(ctx context.Context, claims []Claim, how Claiming) ([]entity.Message, error)

	// Claimable returns those of the messages that an attempt could take: PENDING with
	// attempts left. It waits for no lock: of a message that a claim left out it says
	// whether another session merely locks the row.
	Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error)

	// Finish ends attempts. A result counts only when its message is RETRYING under that
	// claim id: a late or repeated result changes nothing and is left out of the answer. An
	// attempt that counts is appended to the history in the same step; entity.Verdict says
	// which status follows. A take-over beyond the limit that is refused, given back or
	// rescued leads to DEAD: a PENDING message always has an attempt left. After given
	// back, rescued or refused the next automatic attempt is due after Result.RetryIn.
	//
	// Verdict InDoubt records class and error, adds no history and leaves the claim; with
	// class UNKNOWN on an expired claim it marks the message unsettleable: Expired no
	// longer returns it, and only a claim with TakeOver or GiveUp ends it.
	Finish(ctx context.Context, results []Result, cause entity.Cause) ([]Finished, error)

	// Expired returns, oldest first (created_at, then id), messages in RETRYING
	// whose claim has expired and which are not marked unsettleable, without their
	// bytes.
	Expired(ctx context.Context, q ExpiredQuery) ([]entity.Message, error)

	// Due returns up to limit ids of messages, oldest first, that automatic retry may take
	// now: PENDING, attempts left, of one of the original topics, and either never
	// attempted or due. Never attempted ones are looked for after q.After; next is where to
	// go on, the zero Place at the end.
	Due(ctx context.Context, q DueQuery) (ids []uuid.UUID, next Place, err error)

	// Stuck returns how many messages were RETRYING for longer than age.
	Stuck(ctx context.Context, age time.Duration) (int64, error)

	// History returns the attempts that were made on a message, oldest first, with
	// the edits of those that had one, which are whole but for the value of a redrive's patch;
	// empty when there were none or the message does not exist.
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)

	// AttemptsOf returns the last attempt that a redrive made on each of the messages, if
	// any, without edits, with the consumer group that failed; an attempt that is still a
	// claim has verdict InDoubt and To RETRYING.
	AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error)
}

// RescueLimit is how many attempts in a row may end as rescues before the message
// is DEAD.
const RescueLimit = 10

// Claim asks to take one message.
type Claim struct {
	MessageID uuid.UUID
	ID        uuid.UUID // new for each attempt
	RedriveID uuid.UUID // uuid.Nil for none
	Topic     string
	TopicID   string
	Partition int32
	EndOffset int64

	// OriginalTopic is where the message belonged when Topic was chosen: one that was
	// mapped since is left out. "" takes it wherever it belongs.
	OriginalTopic string

	// TakeOver also takes a RETRYING message that is marked unsettleable, even
	// when its attempts are used up: the caller accepts that its record may be in
	// the target log already. The attempt that ends so is appended to the history,
	// with class UNKNOWN.
	TakeOver bool

	// Edit is stored with the attempt; nil when the record goes as it is.
	Edit *entity.Edit
	// SentHash is entity.RecordHash of what is sent under an Edit: by it the record
	// is known when it comes back without our headers.
	SentHash int64
}

// Claiming says how messages are claimed.
type Claiming struct {
	Expiry time.Duration // how long each claim lasts
	Wait   bool          // for a session that locks a message, to see in which state it leaves it
	Cause  entity.Cause
	// Audit appends an entry for each claim. Claims of redrives go without: the
	// redrive and the end of the attempt are in the trail.
	Audit bool
	// Brief leaves out of the answer what the caller knows who loaded the messages a
	// moment before: of each it has only ID, Status, RetryCount, MaxRetries, UpdatedAt,
	// LastRetryAt and Claim.
	Brief bool
}

// DueQuery asks for messages for automatic retry.
type DueQuery struct {
	Topics []string // original topics
	After  Place    // see Attempts.Due
	Limit  int
	// Except leaves out the messages of these topics but for those whose original
	// topic an operator set.
	Except []TopicPair
}

// TopicPair is an original topic and the dead-letter topic of messages that have it.
type TopicPair struct{ Original, DLQ string }

// ExpiredQuery says which expired claims are wanted.
type ExpiredQuery struct {
	ID    uuid.UUID // only this message; uuid.Nil for all
	After Place     // only what stands behind it; the zero Place for all
	Limit int       // at most so many
}

// Result ends one attempt.
type Result struct {
	MessageID uuid.UUID
	ClaimID   uuid.UUID
	Verdict   entity.Verdict
	Class     entity.ErrorClass // "" for plain success
	Error     string            // ours, for operators; never a secret
	Partition int32             // where it was published
	Offset    int64             // -1 when not known
	RetryIn   time.Duration     // when the next automatic attempt is due, if the message is PENDING then
}

// Finished is what became of a message by a Result.
type Finished struct {
	MessageID     uuid.UUID
	Status        entity.Status
	RetryCount    int
	MaxRetries    int
	NextAttemptAt time.Time
}
