package entity

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Redrive applies one action to many messages. It is stored, so any process can continue it. Its selection is fixed
// when it is created.
type Redrive struct {
	ID        uuid.UUID
	Action    RedriveAction
	State     RedriveState
	Note      string // why it is in this state, for operators; may be empty
	Cause     AuditInfo
	Selection Selection
	Options   RedriveOptions
	CreatedAt time.Time
	UpdatedAt time.Time // of the last change of state
	EndedAt   time.Time // zero while it is not over

	Selected int // messages in the selection, including LeftOut
	LeftOut  int // of them: skipped at its creation, and not among its items
	Counts   RedriveCounts
	// CanaryPassed: the first messages were sent and succeeded, or no canary was requested.
	CanaryPassed bool
	// Forgiven holds the counts at the time when an operator last resumed the redrive. The shares of failures and
	// returns ignore what was counted before.
	Forgiven Tally
	// WaitingSince is the time since which no process could continue: a dependency could not be reached, other database
	// sessions lock all remaining messages, or the canary is not consumed. It is zero while the redrive makes progress.
	WaitingSince time.Time
}

// Tally holds the counts from which the shares of failures and returns are computed.
type Tally struct{ Sent, Failed, Returned int }

// RedriveAction is the action of a redrive on each message.
type RedriveAction string

// The actions.
const (
	RedriveRetry   RedriveAction = "retry"   // one attempt each
	RedriveRequeue RedriveAction = "requeue" // DEAD to PENDING
	RedriveDead    RedriveAction = "dead"    // PENDING to DEAD
	RedriveDelete  RedriveAction = "delete"  // deleted for good
	RedriveMap     RedriveAction = "map"     // sets the original topic where the record does not name one
)

// RedriveState is the state of a redrive.
type RedriveState string

const (
	// RedriveCanary sends the first messages and waits for their outcome. A redrive with a canary starts in it.
	RedriveCanary RedriveState = "canary"
	// RedriveRunning processes the selection.
	RedriveRunning RedriveState = "running"
	// RedrivePaused waits for an operator's resume.
	RedrivePaused RedriveState = "paused"
	// RedriveStopped: the redrive stopped itself, because its canary or too many of its messages failed or came
	// back. An operator may resume it.
	RedriveStopped RedriveState = "stopped"
	// RedriveCancelled was ended by an operator. Messages that were still waiting stay unchanged. Final.
	RedriveCancelled RedriveState = "cancelled"
	// RedriveFinished has a result for every message. Final.
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

// CanMoveTo reports whether the state may change from s to next.
func (s RedriveState) CanMoveTo(next RedriveState) bool {
	return slices.Contains(redriveMoves[s], next)
}

// Active reports whether processes work on a redrive in this state.
func (s RedriveState) Active() bool { return s == RedriveCanary || s == RedriveRunning }

// Over reports whether the state is final.
func (s RedriveState) Over() bool { return s == RedriveCancelled || s == RedriveFinished }

// Selection selects messages: the given IDs, or all that match the filter. With both, it selects the IDs that match
// the filter.
type Selection struct {
	IDs []uuid.UUID // in processing order; at most MaxSelectedIDs
	Filter
}

// MaxSelectedIDs bounds Selection.IDs.
const MaxSelectedIDs = 10_000

// Empty reports whether the selection has no condition, so that it would select the whole store. Such a selection is
// refused.
func (s Selection) Empty() bool { return len(s.IDs) == 0 && !s.Narrow() }

// RedriveOptions control the speed and the safety checks of a redrive. All except Rate and OriginalTopic apply to
// retries only.
type RedriveOptions struct {
	Canary     int           // messages to send first; 0 for none
	CanaryWait time.Duration // how long to wait for returns when no consumer group shows the canary's outcome
	Rate       float64       // messages a second over all processes; 0: no limit

	// Shares of the sent messages, 0 to 1, above which the redrive stops itself; 0 for never. They are not checked
	// before MinSample messages were sent.
	MaxFailureShare float64
	MaxReturnShare  float64
	MinSample       int

	// KeepKeyOrder sends messages of the same topic and key one after the other, and none after one that did not
	// succeed.
	KeepKeyOrder bool
	// Requeue also retries DEAD messages, with their attempts reset to 0.
	Requeue bool

	// OriginalTopic is the topic that RedriveMap sets; its only other option is Rate.
	OriginalTopic string
	// Patch is a JSON Patch (RFC 6902) that is applied to each message's payload before it is sent; nil for none. A
	// message to which it cannot be applied is skipped.
	Patch []byte
	// Schema is the schema with which patched payloads are encoded, where they have one; "" is SameSchema.
	Schema SchemaChoice
}

// Defaults of MinSample and CanaryWait.
const (
	DefaultMinSample  = 20
	DefaultCanaryWait = time.Minute
)

// RedriveCounts count a redrive's messages by result. Redrive.Selected is the sum of Succeeded, Failed, InDoubt,
// Skipped and Waiting.
type RedriveCounts struct {
	Succeeded int // RESOLVED; or changed, for the other actions
	Failed    int // back to PENDING, or DEAD
	Dead      int // of Failed: now DEAD
	InDoubt   int // RETRYING until settled
	Skipped   int // refused, held by another attempt, in another state, or deleted
	Waiting   int // without a result; UnderWay of them
	UnderWay  int // in progress in a process, or left by a process that died
	Returned  int // sent messages that came back as another message
	// Reasons counts skipped messages by reason and failed ones by error class.
	Reasons map[string]int
}

// Sent returns the number of messages with an attempt.
func (c RedriveCounts) Sent() int { return c.Succeeded + c.Failed + c.InDoubt }

// ItemResult is the result of a redrive for one message.
type ItemResult string

// The results; the empty one means that the message has none yet.
const (
	ItemWaiting   ItemResult = ""
	ItemSucceeded ItemResult = "succeeded"
	ItemFailed    ItemResult = "failed"
	ItemDead      ItemResult = "dead"
	ItemInDoubt   ItemResult = "in_doubt"
	ItemSkipped   ItemResult = "skipped"
)

// ItemResults lists the results; their indexes are the numbers that stores keep.
func ItemResults() []ItemResult {
	return []ItemResult{ItemWaiting, ItemSucceeded, ItemFailed, ItemDead, ItemInDoubt, ItemSkipped}
}

// RedriveItem is one message of a redrive and its result.
type RedriveItem struct {
	Number    int // index in the selection, from 0
	MessageID uuid.UUID
	Result    ItemResult
	Reason    string // error class, or why it was skipped
	Topic     string // to which it was sent; "" when it was not sent
	TopicID   string
	Partition int32
	Offset    int64  // -1 when not known
	Group     string // the consumer group whose offset shows the outcome; "" when not known

	Outcome Outcome // of its record, derived on read; "" when nothing was sent
}

// OutcomeCounts count the records that a redrive sent by outcome.
type OutcomeCounts struct{ Published, Consumed, Returned int }

// Preview is the expected result of a redrive, before it is created. Selected is the sum of Sendable and of Reasons.
type Preview struct {
	Selected int
	Sendable int
	// Reasons counts the messages that would not be sent, by error class or reason.
	Reasons map[string]int
	Groups  []PreviewGroup
	// Samples show the patch, if there is one, applied to some of the messages; Check counts those it fits.
	Samples  []PatchSample
	Check    PatchCheck
	Overlaps []Overlap // nil: not known
}

// PatchCheck counts the messages to which a patch was applied for a preview.
type PatchCheck struct {
	Checked  int
	Failed   int            // of Checked: the patch does not fit
	Complete bool           // all messages of the selection were checked
	Failures []PatchFailure // the most common reasons
}

// PatchFailure is a reason why a patch does not fit. The reason contains nothing of a payload.
type PatchFailure struct {
	Reason   string
	Messages int
	Example  uuid.UUID
}

// Overlap is another redrive that is not over, and the number of messages that wait in it too. Each of them goes to the
// redrive that takes it first; the other skips it.
type Overlap struct {
	ID        uuid.UUID
	Action    RedriveAction
	State     RedriveState
	Actor     string
	CreatedAt time.Time
	Messages  int
}

// ReturnedError is an error with which messages of a redrive came back. Topic and DLQTopic are those of the messages,
// and decide who may see it.
type ReturnedError struct {
	Group    uuid.UUID // error group; uuid.Nil when it is unknown, or the messages were deleted or archived
	Class    string
	Title    string
	Topic    string
	DLQTopic string
	Messages int
}

// PreviewGroup counts messages of a topic that would be sent, or would not be sent for the same reason.
type PreviewGroup struct {
	Topic    string // original
	Messages int
	Class    string // error class or reason; "" when they would be sent
	Reason   string // a sentence for operators
	Missing  bool   // the topic to which they would be sent does not exist
}
