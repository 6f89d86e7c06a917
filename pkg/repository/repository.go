// Package repository is the storage contract: what the rest of the system may
// rely on, whichever store serves it. Two stores keep it, memory and postgres,
// and repositorytest proves each promise on both. It holds no code of its own
// that stores anything.
package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Repository keeps dead letters. Every method is one atomic step: it happens
// wholly or not at all, and what it returns was true at one moment. All are
// safe for concurrent use. A store that cannot be reached answers
// entity.ErrUnavailable; ids that do not exist answer *entity.NotFoundError
// unless a method says otherwise. The store's own clock decides every expiry.
type Repository interface {
	Reader
	Attempts
	Ingest

	// Delete removes a message for good, its position stays consumed: the same
	// record is never stored again. RETRYING, expired or not, answers
	// *entity.ClaimedError: an attempt that nobody settled may still be in doubt.
	Delete(ctx context.Context, id uuid.UUID) error

	// Requeue moves DEAD to PENDING with no attempts used. Any other state is a
	// *entity.TransitionError.
	Requeue(ctx context.Context, id uuid.UUID) (entity.Message, error)

	// GiveUp moves PENDING, or RETRYING that is marked unsettleable, to DEAD; any
	// other RETRYING is *entity.ClaimedError, a final state *entity.TransitionError.
	// The attempt that ends so is appended to the history, with class UNKNOWN.
	GiveUp(ctx context.Context, id uuid.UUID, actor string) (entity.Message, error)

	// Ping answers nil when the store can be reached.
	Ping(ctx context.Context) error
}

// Reader answers questions and changes nothing.
type Reader interface {
	// List returns one page of the messages whose original topic or dead-letter
	// topic is named topic, newest first (created_at, then id, descending), and
	// how many there are in all. An unknown topic is an empty list. Values and
	// headers longer than ListValueLimit are not loaded, nor are those of messages
	// behind the first ListPageLimit bytes of the page.
	List(ctx context.Context, topic string, page Page) (List, error)

	// Get returns one message. A value longer than maxValue bytes is not loaded;
	// maxValue < 0 loads it whatever its size.
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

	// Select returns, oldest first (created_at, then id), the ids of all messages
	// of the topic (named as in List) that can be claimed now: PENDING with
	// attempts left. It is one snapshot: what arrives later is not in it.
	Select(ctx context.Context, topic string) ([]uuid.UUID, error)

	// Load returns the messages of ids, in the order of ids, with key, headers
	// and whole values, as far as their sizes stay within maxBytes, the first
	// always. Ids that no longer exist are left out. taken says how many of ids
	// were looked at; the caller goes on behind them.
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)

	// Counts returns how many messages there are by original topic and status.
	Counts(ctx context.Context) ([]Count, error)
}

// Attempts is the way of one republish: claim, then exactly one result.
type Attempts interface {
	// Claim takes messages for one attempt each: a PENDING message with attempts
	// left becomes RETRYING, its count goes up by one, and the intent (claim id,
	// target partition and its end offset) is stored with an expiry that far in
	// the future by the store's clock. The last publish error and its class are
	// cleared, so that a class seen under a claim is that attempt's. It returns the messages' new state for
	// those it took, without their bytes, in no particular order. A message in
	// another state, or gone, is left out, and so is one that another caller is
	// taking at this moment unless wait is set: then the call waits to see
	// whether that caller takes it. No message is ever taken twice.
	Claim(ctx context.Context, claims []Claim, expiry time.Duration, wait bool) ([]entity.Message, error)

	// Finish ends attempts. A result counts only when its message is RETRYING
	// under that very claim id: a late or repeated result changes nothing and is
	// left out of the answer. Each attempt that counts is appended to the
	// message's history. The store decides the status by Result.Verdict as
	// entity.Verdict says, in the same step as the history. Verdict InDoubt
	// A take-over beyond the limit that is refused or given back leads to DEAD: a
	// PENDING message always has an attempt left. Verdict InDoubt
	// records class and error, adds no history and leaves the claim as it is; with
	// class UNKNOWN on a claim that has expired it marks the message unsettleable:
	// Expired no longer returns it, and only a claim with TakeOver or GiveUp ends
	// it.
	Finish(ctx context.Context, results []Result) ([]Finished, error)

	// Expired returns, oldest first (created_at, then id), messages in RETRYING
	// whose claim has expired and which are not marked unsettleable, without their
	// bytes.
	Expired(ctx context.Context, q ExpiredQuery) ([]entity.Message, error)

	// History returns the attempts that were made on a message, oldest first;
	// empty when there were none or the message does not exist.
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)
}

// Ingest is how records come in: exactly one message for each (incarnation,
// partition, offset), whatever is redelivered, also after messages were deleted
// or archived. Positions move in the same step as the messages are stored.
type Ingest interface {
	// OpenTopics returns the store's numbers for dead-letter topics, in the order
	// of topics, and makes those that are new.
	OpenTopics(ctx context.Context, topics []Topic) ([]TopicRef, error)

	// OpenPosition returns the next offset to store for each partition, in the
	// order of starts; a partition without a position gets its start.
	OpenPosition(ctx context.Context, starts []Position) ([]Position, error)

	// Store appends a batch. A range counts only when the partition's position
	// is exactly its From (compare-and-swap): its messages are stored and the
	// position becomes its To. Ranges that do not match are left out with all
	// their messages, the others are stored. It returns the ranges that counted,
	// in no particular order. A batch has at most one range for a partition; every message belongs to a
	// range of the batch. CreatedAt and UpdatedAt are the store's own.
	//
	// A message with a Return whose attempt is one of that parent's (in its
	// history, or claiming it now), and went to the message's own original topic,
	// is the parent's child: see entity.Message.Descend. The parent's outcome
	// becomes returned in the same step, also when its attempt has no result yet.
	// Without that proof the Return is ignored.
	Store(ctx context.Context, batch Batch) ([]Partition, error)
}

// What List loads, in bytes: of a value, of the headers of a message, and of all
// values and headers of a page.
const (
	ListValueLimit = 64 << 10
	ListPageLimit  = 16 << 20
)

// RescueLimit is how many attempts in a row may be given back before the
// message is DEAD.
const RescueLimit = 10

// Page asks for a part of a list. Number counts from 1; both must be positive.
type Page struct{ Number, Size int }

// Offset is how many messages stand before the page.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }

// List is one page and the number of all messages that match.
type List struct {
	Messages []entity.Message
	Total    int64
}

// HasNext reports whether there are messages behind page p.
func (l List) HasNext(p Page) bool { return p.Offset()+int64(p.Size) < l.Total }

// Count is the number of messages of one original topic in one status.
type Count struct {
	OriginalTopic string
	Status        entity.Status
	Messages      int64
}

// Claim asks to take one message.
type Claim struct {
	MessageID uuid.UUID
	ID        uuid.UUID // new for each attempt
	Actor     string
	Topic     string
	TopicID   string
	Partition int32
	EndOffset int64

	// TakeOver also takes a RETRYING message that is marked unsettleable, even
	// when its attempts are used up: the caller accepts that its record may be in
	// the target log already. The attempt that ends so is appended to the history,
	// with class UNKNOWN.
	TakeOver bool
}

// ExpiredQuery says which expired claims are wanted.
type ExpiredQuery struct {
	ID    uuid.UUID // only this message; uuid.Nil for all
	After Place     // only what stands behind it; the zero Place for all
	Limit int       // at most so many
}

// Place is where a message stands in an order by created_at and id.
type Place struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Result ends one attempt.
type Result struct {
	MessageID uuid.UUID
	ClaimID   uuid.UUID
	Actor     string
	Verdict   entity.Verdict
	Class     entity.ErrorClass // "" for plain success
	Error     string            // ours, for operators; never a secret
	Partition int32             // where it was published
	Offset    int64             // -1 when not known
	RetryIn   time.Duration     // for Failed: when the next automatic attempt is due
}

// Finished is what became of a message by a Result.
type Finished struct {
	MessageID     uuid.UUID
	Status        entity.Status
	RetryCount    int
	MaxRetries    int
	NextAttemptAt time.Time
}

// Topic is a dead-letter topic as the cluster knows it: its name, and the id of
// its present life (a topic that is deleted and made again gets another).
type Topic struct{ Name, Incarnation string }

// TopicRef is the store's number of a topic's name and of its present life.
type TopicRef struct{ TopicID, Incarnation int32 }

// Partition is one partition of one life of a dead-letter topic.
type Partition struct{ Incarnation, Partition int32 }

// Position is the next offset to store of a partition.
type Position struct {
	Partition
	Next int64
}

// Range is the step that a batch takes in one partition: every offset from From
// up to, not including, To has been dealt with. It may hold no message (control
// records, gaps).
type Range struct {
	Partition
	From, To int64
}

// Batch is a set of ranges and the messages within them.
type Batch struct {
	Ranges   []Range
	Messages []entity.Message
}
