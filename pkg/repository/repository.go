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
//
// Every change of a message's status but its arrival, and every change of a
// redrive's state, is appended to the audit trail in the same step, with the
// cause that the caller gave.
type Repository interface {
	Reader
	Attempts
	Ingest
	Redrives
	Outcomes
	Keys
	Audit

	// Delete removes a message for good, its position stays consumed: the same
	// record is never stored again. RETRYING, expired or not, answers
	// *entity.ClaimedError: an attempt that nobody settled may still be in doubt.
	Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error

	// Requeue moves DEAD to PENDING with no attempts used; the next automatic
	// attempt is due at once. Any other state is a *entity.TransitionError.
	Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// GiveUp moves PENDING, or RETRYING that is marked unsettleable, to DEAD; any
	// other RETRYING is *entity.ClaimedError, a final state *entity.TransitionError.
	// The attempt that ends so is appended to the history, with class UNKNOWN.
	GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// Change does to each message what action says, RedriveRequeue, RedriveDead or
	// RedriveDelete, as the methods for one message would, and returns those it
	// changed. The others, in a state that forbids it or gone, are left out.
	Change(ctx context.Context, action entity.RedriveAction, ids []uuid.UUID, cause entity.Cause) ([]uuid.UUID, error)

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
	// target partition and its end offset) is stored with an expiry by the store's
	// clock. The last publish error and its class are cleared, so that a class seen
	// under a claim is that attempt's. It returns the messages' new state for those
	// it took, without their bytes, in no particular order. A message in another
	// state, or gone, is left out, and so is one that another caller is taking at
	// this moment unless how.Wait is set. No message is ever taken twice. A claim
	// that was made already, under the same id, is returned as it was made: the
	// answer to it may have been lost.
	Claim(ctx context.Context, claims []Claim, how Claiming) ([]entity.Message, error)

	// Finish ends attempts. A result counts only when its message is RETRYING
	// under that very claim id: a late or repeated result changes nothing and is
	// left out of the answer. Each attempt that counts is appended to the
	// message's history. The store decides the status by Result.Verdict as
	// entity.Verdict says, in the same step as the history. A take-over beyond the
	// limit that is refused, given back or rescued leads to DEAD: a PENDING message
	// always has an attempt left. A message whose attempt was given back, rescued
	// or refused is due for the next automatic attempt after Result.RetryIn.
	//
	// Verdict InDoubt records class and error, adds no history and leaves the claim
	// as it is; with class UNKNOWN on a claim that has expired it marks the message
	// unsettleable: Expired no longer returns it, and only a claim with TakeOver or
	// GiveUp ends it.
	Finish(ctx context.Context, results []Result, cause entity.Cause) ([]Finished, error)

	// Expired returns, oldest first (created_at, then id), messages in RETRYING
	// whose claim has expired and which are not marked unsettleable, without their
	// bytes.
	Expired(ctx context.Context, q ExpiredQuery) ([]entity.Message, error)

	// Due returns up to limit ids of messages, oldest first, that automatic retry
	// may take now: PENDING, attempts left, of one of the original topics, and never
	// attempted or with a next attempt time that has come. Those that were never
	// attempted are looked for behind q.After only; next is where to go on, the zero
	// Place when the end was reached.
	Due(ctx context.Context, q DueQuery) (ids []uuid.UUID, next Place, err error)

	// Stuck returns how many messages were RETRYING for longer than age.
	Stuck(ctx context.Context, age time.Duration) (int64, error)

	// History returns the attempts that were made on a message, oldest first;
	// empty when there were none or the message does not exist.
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)

	// AttemptsOf returns the last attempt that a redrive made on each of the
	// messages, for those on which it made one; an attempt that is still a claim has
	// verdict InDoubt and To RETRYING.
	AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error)
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
	//
	// A message without a Return, whose key and value are not empty, is a child too
	// when an acknowledged attempt of the last Batch.ReturnWindow sent the same key
	// and value to its original topic and nothing has come back for that attempt
	// yet: frameworks may drop our headers. Of several the latest is the parent.
	// One message only is ever the return of an attempt in this way.
	Store(ctx context.Context, batch Batch) (Stored, error)

	// NoteGroups remembers that consumer groups failed on records of topics; their
	// committed offsets tell what became of what is sent there.
	NoteGroups(ctx context.Context, groups []TopicGroup) error
}

// Redrives are durable: any process may carry one on, batch by batch, and what
// one left behind goes to another when its lease is over.
type Redrives interface {
	// CreateRedrive fixes the selection, in one snapshot, oldest first or in the
	// order of the ids, and stores the redrive in batches of at most
	// NewRedrive.BatchSize. Messages that match but that the action cannot take now
	// are counted as skipped at once. An id that exists already is not an error: the
	// redrive that has it is returned as it is now. With an empty selection of
	// messages it is finished when it is made.
	CreateRedrive(ctx context.Context, r NewRedrive) (entity.Redrive, error)

	// Survey says what CreateRedrive would select, in groups of messages of which
	// the same is true, the largest first, without storing anything. Messages that
	// would be skipped at once are groups with a Reason.
	Survey(ctx context.Context, r NewRedrive) ([]SurveyGroup, error)

	// Redrive returns one redrive with its counts; *entity.RedriveNotFoundError when
	// there is none, here and below.
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)

	// Redrives returns redrives, the newest first (created_at, then id).
	Redrives(ctx context.Context, q RedriveQuery) ([]entity.Redrive, error)

	// ActiveRedrives returns the ids of those that processes work on, oldest first.
	ActiveRedrives(ctx context.Context) ([]uuid.UUID, error)

	// MoveRedrive changes a redrive's state; a move that its state does not have is
	// a *entity.RedriveStateError. To finished it moves only when every batch is
	// done, else it changes nothing and returns the redrive as it is. A resume from
	// stopped passes the canary and lets the shares of failures and returns count
	// anew.
	MoveRedrive(ctx context.Context, id uuid.UUID, m RedriveMove) (entity.Redrive, error)

	// NoteWaiting notes that nothing can be reached, or that it can again.
	NoteWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error

	// LeaseBatch hands the next batch that has messages waiting to owner, for as
	// long as lease; nil when there is none to be had now: none is left, others
	// have the rest, the redrive is not active, its rate forbids it, or it keeps
	// the order of keys and an earlier batch is not done. In state canary only the
	// canary's batches are handed out.
	LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration) (*RedriveBatch, error)

	// RenewLeases prolongs all leases of owner.
	RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error

	// SaveBatch stores results of a batch that owner holds, and ends its lease. The
	// batch is done when no item waits; else the next lease has the rest. false:
	// the lease was lost meanwhile and nothing was stored.
	SaveBatch(ctx context.Context, r BatchResults) (bool, error)

	// RedriveItems returns messages of a redrive with what came of them, in order,
	// from number from on.
	RedriveItems(ctx context.Context, id uuid.UUID, q ItemQuery) ([]entity.RedriveItem, error)

	// RedriveOutcomes counts what became of the records that a redrive sent;
	// canary: of its canary's only.
	RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error)
}

// Outcomes say what became of records that were sent. A message's outcome is
// consumed when the offset that its consumer group committed has passed its
// record; it is derived when the message is read and never goes back.
type Outcomes interface {
	// WatchedGroups returns the consumer groups and topics that have messages which
	// were sent.
	WatchedGroups(ctx context.Context) ([]TopicGroup, error)

	// ConfigureGroups says which group tells of topics whose messages name none, in
	// place of what was said before.
	ConfigureGroups(ctx context.Context, groups []TopicGroup) error

	// NoteCommitted stores committed offsets. An offset that is lower than the one
	// known for the same life of a topic changes nothing.
	NoteCommitted(ctx context.Context, offsets []Committed) error
}

// Keys make a request that is sent again find what it did the first time.
type Keys interface {
	// OpenKey begins the work of a key, or tells what is known of it.
	OpenKey(ctx context.Context, k Key, lease time.Duration) (KeyState, error)

	// HoldKey prolongs the lease of a key at work.
	HoldKey(ctx context.Context, k Key, lease time.Duration) error

	// CloseKey stores the answer of a key at work; further answers change nothing.
	CloseKey(ctx context.Context, k Key, answer Answer) error

	// DropKey forgets a key at work: nothing was begun, and the same key may be
	// used again.
	DropKey(ctx context.Context, k Key) error
}

// Audit is the trail of all changes.
type Audit interface {
	// Trail returns entries, the newest first.
	Trail(ctx context.Context, q TrailQuery) ([]entity.AuditEntry, error)

	// Performed reports whether a change with that operation was made.
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)
}

// What List loads, in bytes: of a value, of the headers of a message, and of all
// values and headers of a page.
const (
	ListValueLimit = 64 << 10
	ListPageLimit  = 16 << 20
)

// RescueLimit is how many attempts in a row may end as rescues before the message
// is DEAD.
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
	RedriveID uuid.UUID // uuid.Nil for none
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

// Claiming says how messages are claimed.
type Claiming struct {
	Expiry time.Duration // how long each claim lasts
	Wait   bool          // for another caller who is taking a message at this moment, to see whether that one takes it
	Cause  entity.Cause
	// Audit appends an entry for each claim. Claims of redrives go without: the
	// redrive and the end of the attempt are in the trail.
	Audit bool
}

// DueQuery asks for messages for automatic retry.
type DueQuery struct {
	Topics []string // original topics
	After  Place    // see Attempts.Due
	Limit  int
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
	Ranges       []Range
	Messages     []entity.Message
	ReturnWindow time.Duration // 0: returns are known by headers only
}

// Stored is what became of a batch.
type Stored struct {
	Ranges  []Partition // that counted, in no particular order
	Returns []Arrival   // messages of those that are returns
}

// Arrival is a message that came back.
type Arrival struct {
	MessageID, Parent, Root uuid.UUID
	Topic                   string // original
	RetryCount, MaxRetries  int
	Status                  entity.Status // DEAD at the limit: a loop was stopped
	ByContent               bool          // known by key and value, not by headers
}

// TopicGroup is a consumer group of a topic.
type TopicGroup struct{ Topic, Group string }

// Committed is the offset that a group has committed for a partition: the next
// one it will read.
type Committed struct {
	TopicGroup
	TopicID   string // Kafka's, of the topic's present life
	Partition int32
	Offset    int64
}

// NewRedrive is a redrive that is to be made.
type NewRedrive struct {
	ID        uuid.UUID
	Action    entity.RedriveAction
	Selection entity.Selection
	Options   entity.RedriveOptions
	Cause     entity.Cause
	BatchSize int
}

// SurveyGroup is a number of messages of which the same is true.
type SurveyGroup struct {
	Messages   int
	Reason     string // why they would be skipped at once; "" when they would be taken
	Topic      string // original
	Confidence entity.Confidence
	Sample     uuid.UUID // one of them
}

// Reasons for messages that a redrive leaves out.
const (
	SkippedTaken        = "taken"         // another attempt has it, or it left its state meanwhile
	SkippedGone         = "gone"          // deleted or archived meanwhile, or never there
	SkippedNotRetryable = "not_retryable" // in a state that the action does not take
)

// RedriveQuery asks for redrives.
type RedriveQuery struct {
	States []entity.RedriveState // empty: all
	Before Place                 // only what stands behind it in the order; the zero Place for all
	Limit  int
}

// ItemQuery asks for messages of a redrive.
type ItemQuery struct {
	From    int // number
	Limit   int
	Results []entity.ItemResult // empty: all
}

// RedriveMove is a change of a redrive's state.
type RedriveMove struct {
	To     entity.RedriveState
	From   []entity.RedriveState // only from these; empty: from all that have the arrow
	Action entity.Action
	Note   string
	Cause  entity.Cause
	// PassCanary notes that the canary came to a good end.
	PassCanary bool
}

// RedriveBatch is a part of a redrive's selection in somebody's hands.
type RedriveBatch struct {
	RedriveID uuid.UUID
	Number    int // of the batch, from 0
	First     int // number of its first item
	Items     []BatchItem
	Canary    bool
	// TakenOver: an earlier owner never said what became of it, and may have begun.
	TakenOver bool
}

// BatchItem is one message of a batch.
type BatchItem struct {
	MessageID uuid.UUID
	Result    entity.ItemResult
}

// BatchResults are what came of a batch's items. Items without a result stay as
// they are.
type BatchResults struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
	Items     []entity.RedriveItem // those with a result now; Number says which
}

// Key is an Idempotency-Key with what it stands for.
type Key struct {
	Principal string
	Key       string
	Request   [32]byte  // digest of method, path and body
	Operation uuid.UUID // a new one; the store answers with that of the first request
	Owner     uuid.UUID // of this request's lease
}

// KeyState is what is known of a key.
type KeyState struct {
	Phase     KeyPhase
	Operation uuid.UUID // of the work; see entity.Cause
	Answer    Answer    // for KeyDone
}

// KeyPhase says what to do with a request that has a key.
type KeyPhase int

const (
	// KeyNew: the key is the caller's, who begins the work.
	KeyNew KeyPhase = iota + 1
	// KeyAbandoned: the key is the caller's; an earlier owner has begun the work and
	// did not answer within its lease.
	KeyAbandoned
	// KeyAtWork: another caller is at work on it.
	KeyAtWork
	// KeyDone: the answer is known.
	KeyDone
	// KeyOther: the key was used with another request.
	KeyOther
)

// Answer is what a request was answered with.
type Answer struct {
	Status   int
	Location string // header; "" for none
	Body     []byte
}

// KeyLife is how long a key is remembered.
const KeyLife = 24 * time.Hour

// TrailQuery asks for entries of the audit trail. Fields that are set must all
// hold.
type TrailQuery struct {
	ObjectID  uuid.UUID
	Kind      entity.Kind
	Actor     string
	Action    entity.Action
	RequestID string
	After     time.Time // inclusive
	Before    int64     // only entries with a lower id; 0: all
	Limit     int
}
