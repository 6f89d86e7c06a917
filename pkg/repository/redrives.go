package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Redrives are durable: any process may continue one, batch by batch, and an unfinished batch of one process goes to
// another when its lease is over.
type Redrives interface {
	// CreateRedrive fixes the selection in one snapshot, oldest first or in the order of
	// the ids, and stores the redrive in batches of at most NewRedrive.BatchSize. Messages
	// that the action cannot take now are counted as skipped. If the id exists, that
	// redrive is returned in its present state. An empty selection is finished at once.
	CreateRedrive(ctx context.Context, r NewRedrive) (entity.Redrive, error)

	// Redrive returns one redrive with its counts; *entity.RedriveNotFoundError when
	// there is none, here and below.
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)

	// ActiveRedrives returns the ids of redrives that need work from a process, oldest first: active redrives, and
	// inactive ones with a batch whose owner died before it saved the batch.
	ActiveRedrives(ctx context.Context) ([]uuid.UUID, error)

	// MoveRedrive changes a redrive's state; a move that its state does not allow is a *entity.RedriveStateError. It
	// returns the redrive unchanged when the move is to finish and a batch is not done, and when the same operation
	// (RedriveMove.Cause) has already made the same move, by its Action. A resume from stopped passes the canary and
	// resets the shares of failures and returns.
	MoveRedrive(ctx context.Context, id uuid.UUID, m RedriveMove) (entity.Redrive, error)

	// SaveWaiting records that a redrive waits for a dependency that cannot be reached, or that it no longer waits.
	SaveWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error

	// LeaseBatch leases the next batch with waiting messages to owner, for as long as lease; nil when there is none
	// now: no batch is left, others hold the rest, the redrive is not active, its rate forbids it, or it keeps the
	// order of keys and an earlier batch is not done. In state canary only the canary's batches are leased, and of an
	// inactive redrive only batches whose lease is over, with OnlyCatchUp.
	LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration) (*RedriveBatch, error)

	// RenewLeases renews all leases of owner.
	RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error

	// SaveBatch stores results of a batch that owner holds, and ends its lease. The batch is done when no item waits;
	// else the next lease has the rest. It returns false when the lease was lost meanwhile and nothing was stored.
	SaveBatch(ctx context.Context, r BatchResults) (bool, error)
}

// MaxReturnedErrors limits the messages that ReturnedErrors reads.
const MaxReturnedErrors = 5000

// Selections are the redrives other than a retry of the messages of a topic. CreateRedrive of a store without them
// accepts only that retry and returns *NeedsDatabaseError for any other.
type Selections interface {
	// PreviewRedrive previews what CreateRedrive would select, without storing anything: groups of messages with the same
	// properties, the largest first. Messages that would be skipped at once are groups with a Reason.
	PreviewRedrive(ctx context.Context, r NewRedrive) ([]SelectionCount, error)

	// Overlaps returns the other redrives that are not over and in which messages wait that r would select, the oldest
	// first.
	Overlaps(ctx context.Context, r NewRedrive) ([]entity.Overlap, error)

	// RedriveOverlaps does the same for the waiting messages of a redrive.
	RedriveOverlaps(ctx context.Context, id uuid.UUID) ([]entity.Overlap, error)

	// ReturnedErrors groups the messages that came back from a redrive by their error group and topics, the largest
	// group first. It reads at most MaxReturnedErrors messages: those of the newest messages that were sent.
	ReturnedErrors(ctx context.Context, id uuid.UUID) ([]entity.ReturnedError, error)

	// Change applies the action RedriveRequeue, RedriveDead, RedriveDelete or RedriveMap to each message, as the
	// method for one message would, and returns those it changed. Messages that are deleted, or in a state that
	// forbids the action, are left out.
	//
	// RedriveMap sets the original topic, with confidence operator, of messages that are PENDING or DEAD and whose
	// own header did not name it (see entity.FromHeader), unless OverHeader is set. Where it replaces a topic that a
	// header named, partition and offset are cleared too. A message that already has that topic and confidence counts
	// as changed, without an audit entry.
	Change(ctx context.Context, c Change, cause entity.AuditInfo) ([]uuid.UUID, error)

	// PerformedOn returns those of ids on which the operation has performed that action.
	PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error)

	// Redrives returns redrives, the newest first (created_at, then id).
	Redrives(ctx context.Context, q RedriveQuery) ([]entity.Redrive, error)

	// RedriveItems returns messages of a redrive with their results, in order, from number q.From on.
	RedriveItems(ctx context.Context, id uuid.UUID, q ItemQuery) ([]entity.RedriveItem, error)

	// RedriveOutcomes counts the outcomes of the records that a redrive sent; with canary, only of the canary's
	// records.
	RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error)
}

// NewRedrive describes a redrive to create.
type NewRedrive struct {
	ID        uuid.UUID
	Action    entity.RedriveAction
	Selection entity.Selection
	Options   entity.RedriveOptions
	Cause     entity.AuditInfo
	BatchSize int
}

// SelectionCount is a number of messages of one dead-letter topic with the same properties.
type SelectionCount struct {
	Messages   int
	Reason     string // why they would be skipped at once; "" when they would be selected
	Topic      string // original
	Confidence entity.Confidence
	Sample     uuid.UUID // id of one of the messages
}

// Reasons for which a redrive skips messages.
const (
	SkippedTaken        = "taken"         // another attempt has claimed it, or it left its state meanwhile
	SkippedGone         = "gone"          // deleted or archived meanwhile, or never existed
	SkippedNotRetryable = "not_retryable" // in a state that the action does not accept
	SkippedOriginKnown  = "origin_known"  // the record's own header names its original topic
)

// RedriveQuery selects redrives.
type RedriveQuery struct {
	States []entity.RedriveState // empty: all
	Actor  string                // who created them; "": any
	Before Cursor                // only redrives after it in the order; the zero Cursor for all
	Limit  int
}

// ItemQuery selects messages of a redrive.
type ItemQuery struct {
	From    int // number of the first item
	Limit   int
	Results []entity.ItemResult // empty: all
	Outcome entity.Outcome      // of the records that were sent; "": all
}

// RedriveMove is a change of a redrive's state.
type RedriveMove struct {
	To     entity.RedriveState
	From   []entity.RedriveState // allowed only from these; empty: from every state that allows the move
	Action entity.Action
	Note   string
	Cause  entity.AuditInfo
	// PassCanary records that the canary has succeeded.
	PassCanary bool
}

// RedriveBatch is a leased part of a redrive's selection.
type RedriveBatch struct {
	RedriveID uuid.UUID
	Number    int // number of the batch, from 0
	First     int // number of its first item
	Items     []BatchItem
	Canary    bool
	// TakenOver: an earlier owner stored no result of the batch and may have begun it.
	TakenOver bool
	// OnlyCatchUp: the redrive is not active; only store the results of attempts that were begun.
	OnlyCatchUp bool
}

// BatchItem is one message of a batch.
type BatchItem struct {
	MessageID uuid.UUID
	Result    entity.ItemResult
}

// BatchResults are the results of a batch's items. Items without a result do not change.
type BatchResults struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
	Items     []entity.RedriveItem // items that have a result now; Number identifies them
}

// Change is one action on several messages.
type Change struct {
	Action        entity.RedriveAction
	IDs           []uuid.UUID
	OriginalTopic string // for RedriveMap
	OverHeader    bool   // for RedriveMap: also when the record's own header names the topic
	// Lease is the batch that the messages are from; its zero value is none. If another owner holds the batch by now,
	// or it is done, nothing is changed.
	Lease Lease
}

// Lease is one owner's lease on a batch of a redrive.
type Lease struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
}
