package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Redrives are durable: any process may carry one on, batch by batch, and what
// one left behind goes to another when its lease is over.
type Redrives interface {
	// CreateRedrive fixes the selection in one snapshot, oldest first or in the order of
	// the ids, and stores the redrive in batches of at most NewRedrive.BatchSize. Messages
	// that the action cannot take now are counted as skipped. If the id exists, that
	// redrive is returned as it is now. An empty selection is finished at once.
	CreateRedrive(ctx context.Context, r NewRedrive) (entity.Redrive, error)

	// Redrive returns one redrive with its counts; *entity.RedriveNotFoundError when
	// there is none, here and below.
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)

	// ActiveRedrives returns the ids of those that processes have something to do
	// for, oldest first: the active ones, and others of which a process died with a
	// batch.
	ActiveRedrives(ctx context.Context) ([]uuid.UUID, error)

	// MoveRedrive changes a redrive's state; a move that its state does not have is a
	// *entity.RedriveStateError. It returns the redrive unchanged when it is to finish and
	// a batch is not done, and when the same operation (RedriveMove.Cause) made the same
	// move, by its Action, before. A resume from stopped passes the canary and resets the
	// shares of failures and returns.
	MoveRedrive(ctx context.Context, id uuid.UUID, m RedriveMove) (entity.Redrive, error)

	// NoteWaiting notes that nothing can be reached, or that it can again.
	NoteWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error

	// LeaseBatch hands the next batch with waiting messages to owner, for as long as lease;
	// nil when there is none now: none is left, others have the rest, the redrive is not
	// active, its rate forbids it, or it keeps the order of keys and an earlier batch is
	// not done. In state canary only the canary's batches are handed out, and of an
	// inactive redrive only batches whose lease is over, with OnlyCatchUp.
	LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration) (*RedriveBatch, error)

	// RenewLeases prolongs all leases of owner.
	RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error

	// SaveBatch stores results of a batch that owner holds, and ends its lease. The
	// batch is done when no item waits; else the next lease has the rest. false:
	// the lease was lost meanwhile and nothing was stored.
	SaveBatch(ctx context.Context, r BatchResults) (bool, error)
}

// Selections make a redrive more than a retry of the messages of a topic. CreateRedrive
// of a store without them takes that alone, and answers *NeedsDatabaseError to any other.
type Selections interface {
	// Survey says what CreateRedrive would select, in groups of messages of which
	// the same is true, the largest first, without storing anything. Messages that
	// would be skipped at once are groups with a Reason.
	Survey(ctx context.Context, r NewRedrive) ([]SurveyGroup, error)

	// Change does to each message what action says, RedriveRequeue, RedriveDead,
	// RedriveDelete or RedriveMap, as the methods for one message would, and returns
	// those it changed. The others, in a state that forbids it or gone, are left out.
	//
	// RedriveMap sets the original topic, with confidence operator, of messages that
	// are PENDING or DEAD and whose own header did not name it (see
	// entity.FromHeader), unless OverHeader is set. Where it replaces the topic that a
	// header named, partition and offset are forgotten with it. One that has that topic and confidence already counts as
	// changed, without an entry in the audit trail.
	Change(ctx context.Context, c Change, cause entity.Cause) ([]uuid.UUID, error)

	// PerformedOn returns those of ids on which an operation has made a change of
	// that action.
	PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error)

	// Redrives returns redrives, the newest first (created_at, then id).
	Redrives(ctx context.Context, q RedriveQuery) ([]entity.Redrive, error)

	// RedriveItems returns messages of a redrive with what came of them, in order,
	// from number from on.
	RedriveItems(ctx context.Context, id uuid.UUID, q ItemQuery) ([]entity.RedriveItem, error)

	// RedriveOutcomes counts what became of the records that a redrive sent;
	// canary: of its canary's only.
	RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error)
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

// SurveyGroup is a number of messages of which the same is true, of one dead-letter
// topic.
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
	SkippedOriginKnown  = "origin_known"  // the record's own header names its original topic
)

// RedriveQuery asks for redrives.
type RedriveQuery struct {
	States []entity.RedriveState // empty: all
	Actor  string                // who made them; "": anybody
	Before Place                 // only what stands behind it in the order; the zero Place for all
	Limit  int
}

// ItemQuery asks for messages of a redrive.
type ItemQuery struct {
	From    int // number
	Limit   int
	Results []entity.ItemResult // empty: all
	Outcome entity.Outcome      // of the records that were sent; "": all
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
	// OnlyCatchUp: the redrive is not active; say what became of it, and do no more.
	OnlyCatchUp bool
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
