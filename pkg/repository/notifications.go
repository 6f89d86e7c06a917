package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Notifications finds events in the stored changes and keeps notifications, which are events on their way to a
// sink. No event is lost while a process polls from time to time, also over a crash; a notification may be sent
// twice, with the same id and content.
type Notifications interface {
	// Events returns the events that were not kept yet. It changes nothing, unless no process has called it for
	// q.Patience: then all earlier events are skipped for good. An event is found once its transaction, and all that
	// began earlier, have ended.
	Events(ctx context.Context, q EventQuery) (Events, error)

	// KeepNotifications completes a call of Events: the events of k.Seen are not found again, and the notifications
	// are stored. An open notification for the same sink, kind and object absorbs a new one. It returns false, and
	// stores nothing, when another process was faster.
	KeepNotifications(ctx context.Context, k KeptNotifications) (bool, error)

	// ClaimNotification claims the notification that has been due longest, for c.Lease; from then on no event is
	// added to it. Between two claims for the same sink, whichever processes make them, at least c.Pace passes.
	ClaimNotification(ctx context.Context, c NotificationClaim) (n Notification, found bool, err error)

	// SettleNotification stores the result of a claim. A claim that no longer holds the notification changes nothing.
	SettleNotification(ctx context.Context, r NotificationResult) error

	// GiveUpNotifications ends up to limit notifications that are older than after and not claimed, and returns them.
	GiveUpNotifications(ctx context.Context, after time.Duration, limit int) ([]Notification, error)

	// WaitingNotifications counts the open notifications of each sink, ordered by the name of the sink.
	WaitingNotifications(ctx context.Context) ([]WaitingNotifications, error)
}

// EventKind is the kind of an event. The set is closed.
type EventKind string

// The kinds of events.
const (
	GroupNew        EventKind = "group_new"        // a new error group arrived
	GroupRegressed  EventKind = "group_regressed"  // a group came back after all its messages were resolved
	Spike           EventKind = "spike"            // far more messages of a topic arrived than usual
	LoopStopped     EventKind = "loop_stopped"     // a message came back too often and was stored DEAD
	MessageDead     EventKind = "message_dead"     // a message became DEAD in another way
	RedriveFinished EventKind = "redrive_finished" // a redrive has a result for every message
	RedriveStopped  EventKind = "redrive_stopped"  // a redrive stopped itself
)

// EventKinds lists every kind.
func EventKinds() []EventKind {
	return []EventKind{GroupNew, GroupRegressed, Spike, LoopStopped, MessageDead, RedriveFinished, RedriveStopped}
}

// EventQuery selects events. Limit applies to each of the queries that find events; each returns at least one event
// when there is any.
type EventQuery struct {
	Limit    int
	Patience time.Duration
	Spikes   *SpikeRule // nil: do not look for spikes
}

// SpikeRule defines a spike: in the last ten to fifteen minutes at least Minimum messages of a topic arrived, and
// more than Factor times the average of a quarter of an hour in the week before, or since the topic was first seen.
type SpikeRule struct {
	Factor  float64
	Minimum int64
}

// The times of the spike rule.
const (
	// SpikeRecent is the length of the recent time range, which begins with the step of FineArrivalsStep that
	// contains its start.
	SpikeRecent = 10 * time.Minute
	// SpikeUsual is the time range of the average. It excludes the present hour and the one before, in which the
	// spike may have begun.
	SpikeUsual = 7 * 24 * time.Hour
	// SpikeOver is how long a topic must have no spike until the next one is a new spike.
	SpikeOver = time.Hour
)

// Events are the events found at Now. Events before Since are not to be reported; they are returned only to be kept,
// so that they are not found again. Cursor is internal to the store.
type Events struct {
	List   []Event
	Now    time.Time
	Since  time.Time
	More   bool // there may be more
	Cursor string
}

// Event is one event.
type Event struct {
	Kind EventKind
	At   time.Time
	// Object is the id of the error group, the message or the redrive; uuid.Nil for a spike.
	Object uuid.UUID
	// Topics are the topics of the event: original topics or, for a message of unknown origin, its dead-letter topic.
	// Empty when they are unknown.
	Topics []string
	Muted  bool // the error group of the event is muted

	// Class and Title are set for GroupNew and GroupRegressed, and so is the time when the group last regressed, if
	// it ever did.
	Class, Title string
	RegressedAt  time.Time
	// Arrived and Usual are set for a Spike, for the time ranges of its rule. Again: the spike was found earlier and
	// continues.
	Arrived int64
	Usual   float64
	Again   bool
	Redrive RedriveEnd // set for RedriveFinished and RedriveStopped
}

// RedriveEnd is the progress of a redrive at its end. Note is empty when the redrive has been resumed since.
type RedriveEnd struct {
	Action                                        string
	Note                                          string
	Selected, Succeeded, Failed, InDoubt, Skipped int
}

// KeptNotifications are the notifications made of the events in Seen.
type KeptNotifications struct {
	Seen          Events
	Notifications []NewNotification
	// Window is how long a notification collects events before it is sent. Repeat is the minimum time between two
	// notifications on the same object for one sink; at most NotificationLife.
	Window, Repeat time.Duration
}

// NotificationLife is the minimum time for which a sent notification is remembered.
const NotificationLife = 24 * time.Hour

// MaxNotificationMessages is the maximum number of message ids in a notification.
const MaxNotificationMessages = 10

// NewNotification is a notification for a sink. Within one call, no two may have the same sink, kind and object.
type NewNotification struct {
	ID         uuid.UUID
	Sink       string
	Kind       EventKind
	Object     string // id of the group or the redrive, or name of the topic
	Topics     []string
	Events     int64
	First      time.Time // when the first of the events happened
	Last       time.Time
	MessageIDs []uuid.UUID // some of the messages; the first MaxNotificationMessages are stored
	Detail     []byte      // JSON; a later value replaces it
}

// Notification is a notification on its way to a sink.
type Notification struct {
	NewNotification
	CreatedAt time.Time
	Attempts  int // claims, including this one
	LastError string
}

// NotificationClaim asks for a notification. ID is new for every claim.
type NotificationClaim struct {
	Sink  string
	ID    uuid.UUID
	Lease time.Duration
	Pace  time.Duration
}

// NotificationResult ends a claim. Unless Sent, the notification is due again in RetryIn, and no notification is
// claimed for the sink during Pause.
type NotificationResult struct {
	Notification uuid.UUID
	Claim        uuid.UUID
	Sent         bool
	Error        string
	RetryIn      time.Duration
	Pause        time.Duration
}

// WaitingNotifications counts the open notifications of one sink. Overdue is how long ago the oldest of them should
// have been sent; zero when none is overdue.
type WaitingNotifications struct {
	Sink          string
	Notifications int64
	Overdue       time.Duration
}

// EndOf returns the progress of a redrive that entered state.
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
