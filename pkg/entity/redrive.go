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
	Note      string // why the redrive is in this state, for operators; may be empty
	Cause     AuditInfo
	Selection Selection
	Options   RedriveOptions
	CreatedAt time.Time
	UpdatedAt time.Time // when the state last changed
	EndedAt   time.Time // zero until the redrive has ended

	Selected int // messages in the selection, including LeftOut
	LeftOut  int // messages of Selected that were skipped when the redrive was created; they are not among its items
	Counts   RedriveCounts
	// CanaryPassed: the messages of the canary were sent and succeeded, an operator did not wait for this, or no canary
	// was requested.
	CanaryPassed bool
	// Forgiven contains the counts that the redrive had when an operator last resumed it. The shares of failures and
	// returns are computed from how the counts have changed since the redrive was last resumed.
	Forgiven Tally
	// WaitingSince is the time since which no process can continue the redrive: a dependency cannot be reached, other
	// database sessions lock all remaining messages, or the canary's records are not consumed yet. It is zero while the
	// redrive makes progress.
	WaitingSince time.Time
	// Bounded: the redrive bounds how many of its sent messages have no known outcome. Bounds has one element for each
	// target topic to which it has sent, or may send, ordered by topic.
	Bounded bool
	Bounds  []TopicBound
}

// TopicBound bounds how many messages of a redrive are in a target topic while their outcomes are not known.
type TopicBound struct {
	Topic string // target topic
	Bound int
	// Admitted is the number of messages that processes have sent, or may send at any moment; without those that are in
	// doubt, and those that were deleted before their result was saved. Known counts those whose outcome is known for long
	// enough, Presumed those whose outcome cannot be known and that did not come back in time.
	Admitted, Known, Presumed int
	AdmittedAt                time.Time // when a message was last admitted
	Counted                   int       // Known + Presumed when Bound last changed
	Looks                     int       // how often messages were presumed
	Lifted                    BoundEnd  // why the topic is no longer bounded; "": it is
	// Groups are the consumer groups that have not consumed their messages yet; "" stands for messages whose consumer
	// group is not known. Only RedriveBounds sets it.
	Groups []string
}

// Unknown returns the number of messages whose outcome is not known.
func (b *TopicBound) Unknown() int { return max(0, b.Admitted-b.Known-b.Presumed) }

// Full reports whether no more messages may be sent until outcomes are known.
func (b *TopicBound) Full() bool { return b.Lifted == "" && b.Unknown() >= b.Bound }

// BoundEnd is the reason why a topic is no longer bounded.
type BoundEnd string

// The reasons why a topic is no longer bounded.
const (
	BoundContinued BoundEnd = "continued" // an operator has ended the wait
	BoundUnknown   BoundEnd = "not_known" // the outcomes cannot be known, and no message came back for a while
)

// Tally contains the counts from which the shares of failures and returns are computed.
type Tally struct{ Sent, Failed, Returned int }

// RedriveAction is the action that a redrive performs on each message.
type RedriveAction string

// The actions of redrives.
const (
	RedriveRetry   RedriveAction = "retry"   // makes one attempt on each message
	RedriveRequeue RedriveAction = "requeue" // requeues each message: changes its status from DEAD to PENDING
	RedriveDead    RedriveAction = "dead"    // marks each message dead: changes its status from PENDING to DEAD
	RedriveDelete  RedriveAction = "delete"  // deletes each message for good
	RedriveMap     RedriveAction = "map"     // sets the original topic of messages whose record does not name one
	RedriveRestore RedriveAction = "restore" // moves each message from the archive to the live table
)

// RedriveState is the state of a redrive.
type RedriveState string

const (
	// RedriveCanary: the redrive sends the first messages and waits for their outcome. A redrive with a canary starts
	// in this state.
	RedriveCanary RedriveState = "canary"
	// RedriveRunning: the redrive processes its messages.
	RedriveRunning RedriveState = "running"
	// RedrivePaused: the redrive waits until an operator resumes it.
	RedrivePaused RedriveState = "paused"
	// RedriveStopped: the redrive stopped itself, because its canary or too many of its messages failed or came
	// back. An operator may resume it.
	RedriveStopped RedriveState = "stopped"
	// RedriveCancelled: an operator ended the redrive. Messages that were still waiting stay unchanged. The state is
	// final.
	RedriveCancelled RedriveState = "cancelled"
	// RedriveFinished: the redrive has a result for every message. The state is final.
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

// RedriveStates returns all states, in the order in which a redrive usually has them.
func RedriveStates() []RedriveState {
	return []RedriveState{RedriveCanary, RedriveRunning, RedrivePaused, RedriveStopped, RedriveCancelled, RedriveFinished}
}

// CanMoveTo reports whether the state may change from s to next.
func (s RedriveState) CanMoveTo(next RedriveState) bool {
	return slices.Contains(redriveMoves[s], next)
}

// Active reports whether processes work on a redrive in this state.
func (s RedriveState) Active() bool { return s == RedriveCanary || s == RedriveRunning }

// Over reports whether the state is final, so that the redrive has ended.
func (s RedriveState) Over() bool { return s == RedriveCancelled || s == RedriveFinished }

// Selection selects messages: those with the given IDs, or all that match the filter. When both are set, it selects the
// messages with the IDs that match the filter.
type Selection struct {
	IDs []uuid.UUID // ids in the order in which the messages are processed; at most MaxSelectedIDs
	// Archived selects archived messages, in place of live ones. A redrive restores each of them before its action;
	// RedriveDelete erases it.
	Archived bool
	Filter
}

// ArchivedActions returns the actions of redrives that select archived messages. A restored message is PENDING, so it
// cannot be requeued.
func ArchivedActions() []RedriveAction {
	return []RedriveAction{RedriveRetry, RedriveRestore, RedriveDead, RedriveDelete}
}

// MaxSelectedIDs is the maximum number of Selection.IDs.
const MaxSelectedIDs = 10_000

// Empty reports whether the selection has no condition and would select all messages of the store. A redrive with an
// empty selection is refused.
func (s Selection) Empty() bool { return len(s.IDs) == 0 && !s.Narrow() }

// RedriveOptions control the speed and the safety checks of a redrive. All except Rate and OriginalTopic apply to
// retries only.
type RedriveOptions struct {
	Canary     int           // number of messages to send first; 0 for no canary
	CanaryWait time.Duration // how long to wait for returns, when no consumer group shows whether records were consumed
	Rate       float64       // messages a second, in all processes together; 0 for no limit

	// Shares of the sent messages, from 0 to 1. When a share is exceeded, the redrive stops itself; a share of 0 is never
	// checked. The shares are not checked until MinSample messages were sent.
	MaxFailureShare float64
	MaxReturnShare  float64
	MinSample       int // with MaxReturnShare also the first bound of each target topic; see TopicBound

	// KeepKeyOrder sends messages of the same original topic and key one after the other. When a message does not succeed,
	// later messages of the same topic and key are not sent; but a message refused for its undeclared origin stops none.
	// Messages with a null or empty key have no order, nor have pointers.
	KeepKeyOrder bool
	// Requeue makes the redrive also retry DEAD messages, whose attempts are reset to 0.
	Requeue bool
	// AcceptEnvelope also sends messages whose value looks like an envelope, as they are.
	AcceptEnvelope bool

	// OriginalTopic is the topic that RedriveMap sets. A redrive with this action has no other options than OriginalTopic
	// and Rate.
	OriginalTopic string
	// Patch is a JSON Patch (RFC 6902) that is applied to each message's payload before it is sent; nil for none. A
	// message to which the patch cannot be applied is skipped.
	Patch []byte
	// KeepsMasked leaves out messages in which the patch would read or change something that masks hide. It is set for
	// those who may not see it.
	KeepsMasked bool
	// Schema says with which schema a payload is encoded after it was patched, if the payload has a schema; "" means
	// SameSchema.
	Schema SchemaChoice
}

// Bounded reports whether a new redrive with these options bounds its messages without a known outcome. A share of 1 is
// never exceeded, so it bounds nothing.
func (o RedriveOptions) Bounded() bool { return o.MaxReturnShare > 0 && o.MaxReturnShare < 1 }

// Defaults of MinSample and CanaryWait.
const (
	DefaultMinSample  = 20
	DefaultCanaryWait = time.Minute
)

// RedriveCounts count a redrive's messages by result. Redrive.Selected is the sum of Succeeded, Failed, InDoubt,
// Skipped and Waiting.
type RedriveCounts struct {
	Succeeded int // messages that became RESOLVED; for actions other than retry: messages that were changed
	Failed    int // messages whose attempt failed, so that they became PENDING again or DEAD
	Dead      int // messages that became DEAD because their attempt failed; Failed includes them
	InDoubt   int // messages that are RETRYING until their attempt is settled
	Skipped   int // messages that were left unchanged, for example because they were refused, claimed by others or deleted
	Waiting   int // messages without a result, including UnderWay
	UnderWay  int // messages in progress in a process, or left by a process that died
	Returned  int // sent messages whose record came back as another message
	// Reasons counts skipped messages by reason, and failed messages by error class.
	Reasons map[string]int
}

// Sent returns the number of messages for which an attempt was made.
func (c RedriveCounts) Sent() int { return c.Succeeded + c.Failed + c.InDoubt }

// NotSent returns the number of messages that the redrive had not taken when it ended; 0 while it has not ended.
func (r Redrive) NotSent() int {
	if !r.State.Over() {
		return 0
	}
	return r.Counts.Waiting - r.Counts.UnderWay
}

// ItemResult is the result of a redrive for one message.
type ItemResult string

// The results of a redrive for a message; "" means that the message has no result yet.
const (
	ItemWaiting   ItemResult = ""
	ItemSucceeded ItemResult = "succeeded"
	ItemFailed    ItemResult = "failed"
	ItemDead      ItemResult = "dead"
	ItemInDoubt   ItemResult = "in_doubt"
	ItemSkipped   ItemResult = "skipped"
)

// ItemResults returns all results. The index of a result in this list is the number that stores keep for it.
func ItemResults() []ItemResult {
	return []ItemResult{ItemWaiting, ItemSucceeded, ItemFailed, ItemDead, ItemInDoubt, ItemSkipped}
}

// RedriveItem is one message of a redrive and its result.
type RedriveItem struct {
	Number    int // index of the message in the redrive's selection; the first message has 0
	MessageID uuid.UUID
	Result    ItemResult
	Reason    string // error class, or why the message was skipped
	Topic     string // topic to which the record was sent; "" when it was not sent
	TopicID   string
	Partition int32
	Offset    int64  // -1 when not known
	Group     string // consumer group whose offset shows the outcome; "" when not known

	Outcome Outcome // outcome of the record, computed when the item is read; "" when nothing was sent
}

// OutcomeCounts counts the records that a redrive sent by their outcome.
type OutcomeCounts struct{ Published, Consumed, Returned int }

// Preview describes what a redrive would do, before it is created. Selected is the sum of Sendable and of the counts in
// Reasons.
type Preview struct {
	Selected int
	Sendable int
	// Reasons counts the messages that would not be sent, by error class or reason.
	Reasons map[string]int
	Groups  []PreviewGroup
	// Messages are some messages that the redrive would process, without their values.
	Messages []PreviewMessage
	// Samples show the payloads of some messages before and after the redrive's patch, if there is one. Check counts the
	// messages on which the patch was tried, and those on which it failed.
	Samples  []PatchSample
	Check    PatchCheck
	Overlaps []Overlap // other unfinished redrives with some of the same messages; nil when they are not known
}

// PatchCheck counts the messages on which a patch was tried for a preview.
type PatchCheck struct {
	Checked  int
	Failed   int            // messages to which the patch cannot be applied; Checked includes them
	Complete bool           // the patch was tried on all messages of the selection that can be sent now
	Failures []PatchFailure // the most frequent reasons why the patch cannot be applied to messages
}

// PatchFailure is a reason why a patch cannot be applied to messages. The reason contains no part of a payload.
type PatchFailure struct {
	Reason   string
	Messages int
	Example  uuid.UUID
}

// Overlap describes another redrive that has not ended and selects some of the messages that a given redrive selects.
// Messages is the number of those messages that the other redrive has not processed yet. A message that both redrives
// select is processed by the redrive that takes it first; the other redrive skips it.
type Overlap struct {
	ID        uuid.UUID
	Action    RedriveAction
	State     RedriveState
	Actor     string
	CreatedAt time.Time
	Messages  int
}

// ReturnedError is an error with which messages of a redrive came back. Topic and DLQTopic are those of the messages. A
// user who may see both topics may see the error.
type ReturnedError struct {
	Group    uuid.UUID // error group; uuid.Nil when it is unknown, or when the messages were deleted or archived
	Class    string
	Title    string
	Topic    string
	DLQTopic string
	Messages int
}

// PreviewMessage is a message that a redrive would process. Target is the topic to which it would be sent; "" when the
// redrive sends nothing.
type PreviewMessage struct {
	Message Message
	Target  string
}

// PreviewGroup counts messages of one topic: either those that would be sent, or those that would not be sent for one
// and the same reason.
type PreviewGroup struct {
	Topic    string // original topic
	Target   string // topic to which the messages would be sent; "" when the redrive sends nothing, or this is not known
	Messages int
	Class    string // error class or reason; "" when the messages would be sent
	Reason   string // a sentence for operators
	Missing  bool   // the target topic of these messages does not exist
	// ReplayRemoves are the headers that the replay of one of the messages loses; nil when nothing is sent.
	ReplayRemoves []string
}
