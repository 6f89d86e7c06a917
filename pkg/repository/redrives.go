package repository

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Redrives stores redrives, so that any process may continue them, batch by batch. When the process that works on a
// batch dies, another process gets the batch as soon as the lease has ended.
type Redrives interface {
	// CreateRedrive selects the messages in one snapshot, oldest first or in the order of the given ids, and stores
	// the redrive and its batches of at most NewRedrive.BatchSize messages. Messages to which the action cannot be
	// applied are counted as skipped; if the selection has neither ids nor statuses, these are only RETRYING messages
	// and, for RedriveRetry, repeats and, for RedriveMap, messages with a known origin. If a redrive with this id
	// exists, CreateRedrive returns it in its present state. A redrive that selects no messages is finished at once.
	//
	// With KeepKeyOrder, a retry selects the messages in the order of their dead letters' timestamps, except that a message
	// comes after all messages with the same key, original topic and original partition that have lower original offsets.
	CreateRedrive(ctx context.Context, r NewRedrive) (entity.Redrive, error)

	// Redrive returns one redrive with its counts. For an unknown id, this and the other methods return a
	// *entity.RedriveNotFoundError.
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)

	// ActiveRedrives returns the ids of redrives that need work from a process, oldest first: active redrives, and
	// inactive redrives with a batch whose owner died before it saved the batch.
	ActiveRedrives(ctx context.Context) ([]uuid.UUID, error)

	// MoveRedrive changes a redrive's state; when its state does not allow the change, the error is a
	// *entity.RedriveStateError. In two cases it returns the redrive unchanged: when the new state is finished but a
	// batch is not done, and when its state does not allow the change but the same operation (see RedriveMove.Cause)
	// has made a change with the same Action. When a stopped redrive is resumed, its canary counts as passed, and its
	// shares of failures and returns start again from zero.
	MoveRedrive(ctx context.Context, id uuid.UUID, m RedriveMove) (entity.Redrive, error)

	// SaveWaiting records that a redrive waits, for outcomes or for a dependency that cannot be reached, and why; or that it
	// no longer waits.
	SaveWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error

	// LeaseBatch leases the next batch with waiting messages to owner, for as long as lease. It leaves out batches
	// whose RedriveBatch.Topic is in without, except those whose owner died. It returns nil when there is no such
	// batch now: no batch is left, other owners hold all remaining batches, the redrive is not active, its rate allows
	// no batch now, or it keeps the order of keys and an earlier batch of the topic is not done. In state canary only
	// the canary's batches are leased, and of an inactive redrive only batches whose lease has ended, with OnlyCatchUp
	// set.
	LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration, without ...string) (*RedriveBatch, error)

	// RenewLeases renews all leases of owner.
	RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error

	// SaveBatch stores results of a batch that owner holds, and ends its lease. The batch is done when all its items
	// have results; otherwise the next owner continues with the items that have none. SaveBatch returns false, and
	// stores nothing, when the batch is not leased to owner any more; an expired lease counts until another owner
	// leases the batch.
	SaveBatch(ctx context.Context, r BatchResults) (bool, error)
}

// Bounds bounds how many messages of a redrive are in a target topic while their outcomes are not known. It holds for
// all processes together.
type Bounds interface {
	// Admit allows the owner of a batch to send up to n of its messages to topic, and returns the number: less than n
	// when more would exceed the topic's bound, which is first until SaveBound changes it. It returns 0 when the lease
	// was lost, or the redrive is not active. SaveBatch gives back what was admitted and not sent.
	Admit(ctx context.Context, l Lease, topic string, n, first int) (int, error)

	// RedriveBounds counts the outcomes of a redrive's messages, and returns its bounds ordered by topic. An outcome
	// counts in TopicBound.Known once a call has found it that came at least settle ago: a consumer may commit a record
	// and write its dead letter at the same moment, and the ingester needs time to store that.
	RedriveBounds(ctx context.Context, id uuid.UUID, settle time.Duration) ([]entity.TopicBound, error)

	// RedriveSources returns dead-letter topics of a redrive's messages, at least one for each batch whose messages exist.
	RedriveSources(ctx context.Context, id uuid.UUID) ([]string, error)

	// SaveBound replaces Bound, Presumed, Counted, Looks and Lifted of a topic. It returns false when another caller has
	// changed Bound, Looks or Lifted since was was read.
	SaveBound(ctx context.Context, id uuid.UUID, was, now entity.TopicBound) (bool, error)

	// ContinueRedrive ends the wait for outcomes, for the rest of the redrive, in those topics that wait now: in state
	// running those that are full, in state canary all with an unknown outcome. A canary that was sent passes, unless
	// a message of it failed or came back. When nothing waits, the error is an *entity.NothingWaitsError, unless the
	// same operation has ended the wait before.
	ContinueRedrive(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error)
}

// MaxReturnedErrors is the maximum number of messages that ReturnedErrors reads.
const MaxReturnedErrors = 5000

// Selections contains the methods that every redrive needs except the retry of all messages of a topic. When a store
// has no Selections, its CreateRedrive accepts only that retry and returns a *NeedsDatabaseError for any other redrive.
type Selections interface {
	// PreviewRedrive returns what CreateRedrive would select, without storing anything. It counts messages with the
	// same properties together, the largest number first. Messages that the redrive would skip at once are counted
	// separately, with a Reason.
	PreviewRedrive(ctx context.Context, r NewRedrive) ([]SelectionCount, error)

	// Overlaps returns the redrives that have not ended and in which messages wait that r would select too, the oldest
	// redrive first.
	Overlaps(ctx context.Context, r NewRedrive) ([]entity.Overlap, error)

	// RedriveOverlaps returns, for an existing redrive, the other redrives in which messages wait that also wait in
	// this redrive.
	RedriveOverlaps(ctx context.Context, id uuid.UUID) ([]entity.Overlap, error)

	// ReturnedErrors groups the messages that came back from a redrive by their error group and topics, the largest
	// group first. It reads at most MaxReturnedErrors of these messages: those whose parents are the newest.
	ReturnedErrors(ctx context.Context, id uuid.UUID) ([]entity.ReturnedError, error)

	// Change applies the action RedriveRequeue, RedriveDead, RedriveDelete or RedriveMap to each message, as the method
	// for one message would, and returns the ids of the messages that it changed. Messages that are deleted, or in a state
	// that forbids the action, are left out.
	//
	// RedriveMap sets the original topic, with confidence operator, of messages that are PENDING or DEAD. It leaves out
	// messages whose original topic was read from a header of the record (see entity.FromHeader), unless OverHeader is
	// set. When it replaces a topic that was read from a header, it also clears partition and offset. A message that
	// already has that topic and confidence counts as changed, without an audit entry.
	Change(ctx context.Context, c Change, cause entity.AuditInfo) ([]uuid.UUID, error)

	// PerformedOn returns those of the given ids of messages or redrives that the operation has changed with the given
	// action.
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

	// Found contains the messages that a search engine outside of the store has found for those conditions of the
	// selection that need the search index. It is nil when the store itself has the search index. When the selection is
	// Archived, Found contains the archived messages of the selection, in order, and the store does not apply the filter.
	Found *[]uuid.UUID
}

// SelectionCount is the number of messages with the same reason, original topic, confidence and dead-letter topic.
type SelectionCount struct {
	Messages   int
	Reason     string // why the redrive would skip these messages; "" when it would select them
	Topic      string // original topic
	Confidence entity.Confidence
	Sample     uuid.UUID // id of one of the messages
}

// CountArchived counts the archived messages that a selection with these ids has found, as PreviewRedrive counts live
// messages. Every archived message can be restored. Those ids that are not among the entries are gone.
func CountArchived(ids []uuid.UUID, entries []ArchivedEntry) []SelectionCount {
	var groups []SelectionCount
	at := map[string]int{}                     // index in groups, by topic
	gone := make(map[uuid.UUID]bool, len(ids)) // of the ids only: a filter selects up to a million messages
	for _, id := range ids {
		gone[id] = true
	}
	for _, e := range entries {
		delete(gone, e.ID)
		i, ok := at[e.OriginalTopic]
		if !ok {
			i = len(groups)
			at[e.OriginalTopic] = i
			groups = append(groups, SelectionCount{Topic: e.OriginalTopic, Sample: e.ID})
		}
		groups[i].Messages++
	}
	for _, id := range slices.Backward(ids) {
		if gone[id] {
			return append(groups, SelectionCount{Messages: len(gone), Reason: SkippedGone, Sample: id})
		}
	}
	return groups
}

// Reasons for which a redrive skips messages.
const (
	SkippedTaken        = "taken"         // another attempt has claimed the message, or its status has changed
	SkippedGone         = "gone"          // the message was deleted or archived, or never existed; of a redrive of archived messages: it is not in the archive
	SkippedNotRetryable = "not_retryable" // the message's status does not allow the action
	SkippedOriginKnown  = "origin_known"  // a header of the message's record names the original topic
)

// RedriveQuery selects redrives.
type RedriveQuery struct {
	States []entity.RedriveState // only redrives in one of these states; empty for all
	Actor  string                // who created the redrive; "" for any
	Before Cursor                // only redrives after this cursor in the order; the zero Cursor for all
	Limit  int
}

// ItemQuery selects messages of a redrive.
type ItemQuery struct {
	From    int // number of the first item that is returned
	Limit   int
	Results []entity.ItemResult // only items with one of these results; empty for all
	Outcome entity.Outcome      // only items whose sent record has this outcome; "" for any
}

// RedriveMove is a change of a redrive's state.
type RedriveMove struct {
	To     entity.RedriveState
	From   []entity.RedriveState // the states from which the change is allowed; empty for all states from which entity.RedriveState allows it
	Action entity.Action
	Note   string
	Cause  entity.AuditInfo
	// PassCanary stores that the canary has succeeded.
	PassCanary bool
}

// RedriveBatch is a leased part of a redrive's selection.
type RedriveBatch struct {
	RedriveID uuid.UUID
	Number    int // number of the batch, from 0
	First     int // number of the batch's first item
	Items     []BatchItem
	Canary    bool
	// Topic is the original topic of all messages of the batch, "" when they are of several topics. Only the batches of a
	// bounded redrive of live messages have a Topic.
	Topic string
	// TakenOver: an earlier owner leased the batch and did not save it, so attempts may have been begun.
	TakenOver bool
	// OnlyCatchUp: the redrive is not active. The owner must begin no attempts, and must store the results of the attempts
	// that were begun.
	OnlyCatchUp bool
}

// BatchItem is one message of a batch.
type BatchItem struct {
	MessageID uuid.UUID
	Result    entity.ItemResult
}

// BatchResults are the results of some items of a batch. Items of the batch without a result here stay unchanged.
type BatchResults struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
	Items     []entity.RedriveItem // items that have a result now; their Number says which items of the batch they are
}

// Change is one action on several messages.
type Change struct {
	Action        entity.RedriveAction
	IDs           []uuid.UUID
	OriginalTopic string // the topic that RedriveMap sets
	OverHeader    bool   // RedriveMap also changes messages whose original topic was read from a header
	// Lease is the caller's lease on the batch to which the messages belong; the zero value when they belong to no
	// batch. Nothing is changed when another owner holds the batch now or the batch is done.
	Lease Lease
}

// Lease is one owner's lease on a batch of a redrive.
type Lease struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
}
