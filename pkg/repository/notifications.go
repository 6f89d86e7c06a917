package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Notifications are events, which the store finds in what it keeps of every change, and
// notices, which are events on their way to a sink. Nothing that happens while a process
// asks from time to time is lost, also over a crash; a notice may be sent twice, with the
// same id and content.
type Notifications interface {
	// Events returns what happened and was not kept yet. It changes nothing, unless no
	// process asked for q.Patience: then everything before this moment is left out for
	// good. An event is found once its transaction, and all that began before, is over.
	Events(ctx context.Context, q EventQuery) (Events, error)

	// KeepNotices ends what Events began: the events of k.Seen are not found again,
	// and the notices are kept. An open notice for the same sink about the same takes
	// up a new one. It answers false, and keeps nothing, when somebody else was faster.
	KeepNotices(ctx context.Context, k KeptNotices) (bool, error)

	// ClaimNotice takes the notice that has been due longest, for c.Lease; nothing is
	// added to it from then on. None is taken before c.Pace has passed since the last
	// for that sink was, by any process.
	ClaimNotice(ctx context.Context, c NoticeClaim) (n Notice, found bool, err error)

	// SettleNotice says what became of a notice. A claim that is not the notice's any
	// more changes nothing.
	SettleNotice(ctx context.Context, r NoticeResult) error

	// GiveUpNotices ends up to limit notices that were kept longer than after ago and
	// that nobody has in hand, and returns them.
	GiveUpNotices(ctx context.Context, after time.Duration, limit int) ([]Notice, error)

	// WaitingNotices says by sink what is not ended, in the order of their names.
	WaitingNotices(ctx context.Context) ([]WaitingNotices, error)
}

// EventKind says what happened. The set is closed.
type EventKind string

// What people are told of.
const (
	GroupNew        EventKind = "group_new"        // an error group came that was not known
	GroupRegressed  EventKind = "group_regressed"  // one came back after all of it were resolved
	Spike           EventKind = "spike"            // far more came of a topic than usual
	LoopStopped     EventKind = "loop_stopped"     // a message came back too often and was stored DEAD
	MessageDead     EventKind = "message_dead"     // a message became DEAD in any other way
	RedriveFinished EventKind = "redrive_finished" // a redrive has an answer for every message
	RedriveStopped  EventKind = "redrive_stopped"  // one stopped itself
)

// EventKinds lists every kind.
func EventKinds() []EventKind {
	return []EventKind{GroupNew, GroupRegressed, Spike, LoopStopped, MessageDead, RedriveFinished, RedriveStopped}
}

// EventQuery asks for events. Limit is of each way in which they are found; at least
// one of each is returned where there is any.
type EventQuery struct {
	Limit    int
	Patience time.Duration
	Spikes   *SpikeRule // nil: none are looked for
}

// SpikeRule says when what came of a topic in the last ten to fifteen minutes is far
// more than usual: at least Minimum, and more than Factor times what came in a quarter
// of an hour on the average of the week before, or since the topic was first seen.
type SpikeRule struct {
	Factor  float64
	Minimum int64
}

// The times that spikes are told apart by.
const (
	// SpikeRecent reaches back to the step of FineArrivalsStep that holds this moment
	// ago.
	SpikeRecent = 10 * time.Minute
	// SpikeUsual is how far the average goes back. It leaves out the present hour and
	// the one before, in which the spike may have begun.
	SpikeUsual = 7 * 24 * time.Hour
	// SpikeOver is for how long a topic must be quiet until its next spike is another
	// one.
	SpikeOver = time.Hour
)

// Events are what was found at Now. What happened before Since is nobody's news, and
// is here only to be kept, so that it is not found again. Place is the store's own.
type Events struct {
	List  []Event
	Now   time.Time
	Since time.Time
	More  bool // there may be more
	Place string
}

// Event is one thing that happened.
type Event struct {
	Kind EventKind
	At   time.Time
	// Object is the group, the message or the redrive; uuid.Nil for a spike.
	Object uuid.UUID
	// Topics are those that it is about: original topics or, of a message of unknown
	// origin, its dead-letter topic. None when nobody knows.
	Topics []string
	Muted  bool // nobody wants to be told of the group that it is about

	// Class and Title are of GroupNew and GroupRegressed, and when the group came back
	// last, if it ever did.
	Class, Title string
	RegressedAt  time.Time
	// Arrived and Usual are of a Spike, in the time that its rule speaks of. Again: it
	// was found before and is not over.
	Arrived int64
	Usual   float64
	Again   bool
	Redrive RedriveEnd // of RedriveFinished and RedriveStopped
}

// RedriveEnd is how far a redrive came. Note is empty when it has gone on since.
type RedriveEnd struct {
	Action                                        string
	Note                                          string
	Selected, Succeeded, Failed, InDoubt, Skipped int
}

// KeptNotices are made of the events of Seen.
type KeptNotices struct {
	Seen    Events
	Notices []NewNotice
	// Window is how long a notice waits for more of the same. Repeat is the least time
	// between two about the same, for one sink; at most NoticeLife.
	Window, Repeat time.Duration
}

// NoticeLife is for how long it is kept at least that a notice was sent.
const NoticeLife = 24 * time.Hour

// MaxNoticeMessages is how many messages a notice names.
const MaxNoticeMessages = 10

// NewNotice is what is to be said to a sink. Of one call, no two may be for the same
// sink, of the same kind and about the same object.
type NewNotice struct {
	ID         uuid.UUID
	Sink       string
	Kind       EventKind
	Object     string // id of the group or the redrive, or name of the topic
	Topics     []string
	Events     int64
	First      time.Time // when the first of the events happened
	Last       time.Time
	MessageIDs []uuid.UUID // some of them; at most MaxNoticeMessages are kept, the first
	Detail     []byte      // JSON; a later one takes its place
}

// Notice is a notice on its way.
type Notice struct {
	NewNotice
	CreatedAt time.Time
	Attempts  int // claims, this one included
	LastError string
}

// NoticeClaim asks for a notice. ID is new for every claim.
type NoticeClaim struct {
	Sink  string
	ID    uuid.UUID
	Lease time.Duration
	Pace  time.Duration
}

// NoticeResult ends a claim. Unless Sent, the notice is due again in RetryIn, and
// nothing is taken for the sink for Pause.
type NoticeResult struct {
	Notice  uuid.UUID
	Claim   uuid.UUID
	Sent    bool
	Error   string
	RetryIn time.Duration
	Pause   time.Duration
}

// WaitingNotices are the notices of one sink that are not ended. Overdue is since when
// the oldest should have been sent, as of Now; zero when none should.
type WaitingNotices struct {
	Sink    string
	Notices int64
	Overdue time.Duration
}

// EndOf is how far a redrive came that entered state.
func EndOf(r entity.Redrive, state entity.RedriveState) RedriveEnd {
	end := RedriveEnd{
		Action: string(r.Action), Selected: r.Selected, Succeeded: r.Counts.Succeeded, Failed: r.Counts.Failed,
		InDoubt: r.Counts.InDoubt, Skipped: r.Counts.Skipped,
	}
	if r.State == state {
		end.Note = r.Note
	}
	return end
}
