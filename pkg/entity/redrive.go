package entity

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Redrive is one thing done to many messages: a durable object that any process
// carries on. Its selection is fixed when it is made.
type Redrive struct {
	ID        uuid.UUID
	Action    RedriveAction
	State     RedriveState
	Note      string // why it is in this state, for operators; may be empty
	Cause     Cause
	Selection Selection
	Options   RedriveOptions
	CreatedAt time.Time
	UpdatedAt time.Time // of the last change of state
	EndedAt   time.Time // zero while it is not over

	Selected int // messages in the selection, those that were left out included
	LeftOut  int // of them: skipped when it was made, and not among its items
	Counts   RedriveCounts
	// Canary: the first messages have been sent and came to a good end, or nobody
	// asked for any.
	CanaryPassed bool
	// Forgiven is what the shares of failures and returns no longer count, since an
	// operator resumed it.
	Forgiven Tally
	// WaitingSince is since when no process could go on because nothing could be
	// reached; zero while it goes on.
	WaitingSince time.Time
}

// Tally is what the shares of failures and returns are made of.
type Tally struct{ Sent, Failed, Returned int }

// RedriveAction is what a redrive does to each message.
type RedriveAction string

// The actions.
const (
	RedriveRetry   RedriveAction = "retry"   // one attempt each
	RedriveRequeue RedriveAction = "requeue" // DEAD to PENDING
	RedriveDead    RedriveAction = "dead"    // PENDING to DEAD
	RedriveDelete  RedriveAction = "delete"  // gone for good
	RedriveMap     RedriveAction = "map"     // sets the original topic where none was named by the record
)

// RedriveState says where a redrive stands.
type RedriveState string

const (
	// RedriveCanary sends the first messages and waits for what becomes of them.
	// Creation enters it when a canary is asked for.
	RedriveCanary RedriveState = "canary"
	// RedriveRunning goes through the selection.
	RedriveRunning RedriveState = "running"
	// RedrivePaused waits for an operator's resume.
	RedrivePaused RedriveState = "paused"
	// RedriveStopped stopped itself: too much failed or came back, or the canary
	// did. An operator may resume it.
	RedriveStopped RedriveState = "stopped"
	// RedriveCancelled was ended by an operator. What had not been taken stays as
	// it is. Final.
	RedriveCancelled RedriveState = "cancelled"
	// RedriveFinished has an answer for every message. Final.
	RedriveFinished RedriveState = "finished"
)

var redriveMoves = map[RedriveState][]RedriveState{
	RedriveCanary:    {RedriveRunning, RedrivePaused, RedriveStopped, RedriveCancelled, RedriveFinished},
	RedriveRunning:   {RedrivePaused, RedriveStopped, RedriveCancelled, RedriveFinished},
	RedrivePaused:    {RedriveCanary, RedriveRunning, RedriveCancelled},
	RedriveStopped:   {RedriveRunning, RedriveCancelled},
	RedriveCancelled: {},
	RedriveFinished:  {},
}

// RedriveStates lists every state in the order of a redrive's life.
func RedriveStates() []RedriveState {
	return []RedriveState{RedriveCanary, RedriveRunning, RedrivePaused, RedriveStopped, RedriveCancelled, RedriveFinished}
}

// CanMoveTo reports whether there is an arrow from s to next.
func (s RedriveState) CanMoveTo(next RedriveState) bool {
	return slices.Contains(redriveMoves[s], next)
}

// Active reports whether processes work on it.
func (s RedriveState) Active() bool { return s == RedriveCanary || s == RedriveRunning }

// Over reports whether nothing will happen any more.
func (s RedriveState) Over() bool { return s == RedriveCancelled || s == RedriveFinished }

// Selection says which messages are meant: either IDs, or all that match the
// filter, which also narrows IDs.
type Selection struct {
	IDs []uuid.UUID // in the order in which they are to be taken; at most MaxSelectedIDs
	Filter
}

// MaxSelectedIDs bounds Selection.IDs.
const MaxSelectedIDs = 10_000

// Empty reports whether nothing narrows the selection: the whole store would be
// meant, and nobody means that.
func (s Selection) Empty() bool { return len(s.IDs) == 0 && !s.Narrow() }

// RedriveOptions say how carefully a redrive goes on. They bind retries only,
// but for Rate.
type RedriveOptions struct {
	Canary     int           // messages to send first; 0 for none
	CanaryWait time.Duration // how long a canary without evidence must not come back
	Rate       float64       // messages a second over all processes; 0: as fast as it goes

	// A share of what was sent, 0 to 1, above which the redrive stops itself; 0
	// for never. It is not asked before MinSample were sent.
	MaxFailureShare float64
	MaxReturnShare  float64
	MinSample       int

	// KeepKeyOrder sends messages of the same topic and key one after the other,
	// and none behind one that did not succeed.
	KeepKeyOrder bool
	// Requeue also takes DEAD messages, their attempts back to 0.
	Requeue bool

	// OriginalTopic is what RedriveMap sets; the only option of it beside Rate.
	OriginalTopic string
	// Patch is a JSON Patch (RFC 6902) that each message's payload goes through
	// before it is sent; nil for none. A message that it does not fit is skipped.
	Patch []byte
}

// DefaultMinSample and DefaultCanaryWait hold where nobody says otherwise.
const (
	DefaultMinSample  = 20
	DefaultCanaryWait = time.Minute
)

// RedriveCounts say how far a redrive came. Selected is the sum of Succeeded,
// Failed, InDoubt, Skipped and Waiting.
type RedriveCounts struct {
	Succeeded int // RESOLVED; or changed, for the other actions
	Failed    int // back to PENDING, or DEAD
	Dead      int // of Failed: given up
	InDoubt   int // RETRYING until settled
	Skipped   int // refused, taken by somebody else, in another state, or gone meanwhile
	Waiting   int // without a result; UnderWay of them
	UnderWay  int // in some process's hands, or left by one that died
	Returned  int // of those that were sent: came back as another message
	// Reasons counts skipped messages by reason and failed ones by error class.
	Reasons map[string]int
}

// Sent is how many messages an attempt was made on.
func (c RedriveCounts) Sent() int { return c.Succeeded + c.Failed + c.InDoubt }

// ItemResult is what a redrive did to one message.
type ItemResult string

// The results; the empty one means that its turn has not come.
const (
	ItemWaiting   ItemResult = ""
	ItemSucceeded ItemResult = "succeeded"
	ItemFailed    ItemResult = "failed"
	ItemDead      ItemResult = "dead"
	ItemInDoubt   ItemResult = "in_doubt"
	ItemSkipped   ItemResult = "skipped"
)

// ItemResults lists the results; their places are the numbers that stores keep.
func ItemResults() []ItemResult {
	return []ItemResult{ItemWaiting, ItemSucceeded, ItemFailed, ItemDead, ItemInDoubt, ItemSkipped}
}

// RedriveItem is one message of a redrive and what came of it.
type RedriveItem struct {
	Number    int // place in the selection, from 0
	MessageID uuid.UUID
	Result    ItemResult
	Reason    string // error class, or why it was skipped
	Topic     string // where it was sent; "" when it was not
	TopicID   string
	Partition int32
	Offset    int64  // -1 when not known
	Group     string // the consumer group whose offset will say more; "" when nobody knows

	Outcome Outcome // of its record, derived when it is read; "" when nothing was sent
}

// OutcomeCounts say what became of the records that a redrive sent.
type OutcomeCounts struct{ Published, Consumed, Returned int }

// Preview says what a redrive would do, before it is made. Selected is the sum
// of Sendable and of Reasons.
type Preview struct {
	Selected int
	Sendable int
	// Reasons counts what would not go, by error class or reason.
	Reasons map[string]int
	Groups  []PreviewGroup
	// Samples show what the patch, if there is one, makes of some of the messages.
	Samples []PatchSample
}

// PreviewGroup is a number of messages that would go, or not go, for the same
// reason.
type PreviewGroup struct {
	Topic    string // original
	Messages int
	Class    string // error class or reason; "" when they would go
	Reason   string // a sentence for operators
}
