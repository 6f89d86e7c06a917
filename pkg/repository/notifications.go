package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Notifications finds events in the data that the other methods have stored. It stores a notification of them for each
// sink, which is a receiver such as a webhook or Slack, until the notification is sent. As long as some process calls
// Events and KeepNotifications from time to time, no event is lost, even when a process crashes; but a notification may
// then be sent twice, with the same id and content.
type Notifications interface {
	// Events returns the events that no call of KeepNotifications has completed yet. It changes nothing, except when no
	// process has completed a call for the time q.Patience: then all events before this call are skipped for good. An
	// event is found only after its transaction, and all transactions that began earlier, have ended.
	Events(ctx context.Context, q EventQuery) (Events, error)

	// KeepNotifications completes a call of Events: the events of k.Seen are not found again, and the notifications are
	// stored. A new notification is merged into one that is still open for the same sink, kind and object.
	// KeepNotifications returns false, and stores nothing, when another process has completed these events first.
	KeepNotifications(ctx context.Context, k KeptNotifications) (bool, error)

	// ClaimNotification claims the notification of c.Sink that has been due for the longest time, for the time c.Lease.
	// After that no event is added to this notification. Between two claims for the same sink, by any processes, at
	// least the time c.Pace passes.
	ClaimNotification(ctx context.Context, c NotificationClaim) (n Notification, found bool, err error)

	// SettleNotification stores the result of a claim. It changes nothing when the claim has expired and another claim
	// has taken the notification.
	SettleNotification(ctx context.Context, r NotificationResult) error

	// GiveUpNotifications marks at most limit notifications as never to be sent, and returns them: those that are older
	// than the time after and are not claimed.
	GiveUpNotifications(ctx context.Context, after time.Duration, limit int) ([]Notification, error)

	// WaitingNotifications counts, for each sink, the notifications that are neither sent nor given up, ordered by the
	// name of the sink.
	WaitingNotifications(ctx context.Context) ([]WaitingNotifications, error)
}

// EventKind is the kind of an event. No other kinds exist.
type EventKind string

// The kinds of events.
const (
	GroupNew        EventKind = "group_new"        // a new error group arrived
	GroupRegressed  EventKind = "group_regressed"  // a message of a group arrived after all its messages were resolved
	Spike           EventKind = "spike"            // far more messages of a topic arrived than usual
	LoopStopped     EventKind = "loop_stopped"     // a message came back too often and was stored DEAD
	MessageDead     EventKind = "message_dead"     // a message became DEAD in another way
	RedriveFinished EventKind = "redrive_finished" // a redrive has a result for every message
	RedriveStopped  EventKind = "redrive_stopped"  // a redrive stopped by itself, without an operator's request
)

// EventKinds lists every kind.
func EventKinds() []EventKind {
	return []EventKind{GroupNew, GroupRegressed, Spike, LoopStopped, MessageDead, RedriveFinished, RedriveStopped}
}

// EventQuery selects events. Limit is the maximum number of audit entries, and of error groups, that are read to find
// events; spikes are not limited.
type EventQuery struct {
	Limit    int
	Patience time.Duration
	Spikes   *SpikeRule // nil when spikes are not wanted
}

// SpikeRule defines a spike: in the last ten to fifteen minutes at least Minimum messages of a topic arrived, and
// more than Factor times the average of a quarter of an hour in the week before, or since the topic was first seen.
type SpikeRule struct {
	Factor  float64
	Minimum int64
}

// The times of the spike rule.
const (
	// SpikeRecent is the length of the time range whose arrivals are compared with the average. It begins at the
	// beginning of a step of FineArrivalsStep, so it may be up to one step longer.
	SpikeRecent = 10 * time.Minute
	// SpikeUsual is the length of the time range for which the average is computed. It excludes the present hour and
	// the hour before, in which the spike may have begun.
	SpikeUsual = 7 * 24 * time.Hour
	// SpikeOver is the time after which a spike has ended: when a topic had no spike for this time, the next spike is a
	// new one.
	SpikeOver = time.Hour
)

// Events are the events found at Now. Events that happened before Since must not be reported. They are returned because
// the caller must pass them to KeepNotifications, so that they are not found again. Cursor is internal to the store.
type Events struct {
	List   []Event
	Now    time.Time
	Since  time.Time
	More   bool // whether there may be more events than were returned
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
	Muted  bool // whether the error group of the event is muted

	// Class and Title are set for GroupNew and GroupRegressed, and so is the time when the group last regressed, if
	// it ever did.
	Class, Title string
	RegressedAt  time.Time
	// Arrived and Usual are set for a Spike: the messages that arrived lately, and the average of the rule. Again is
	// true when an earlier event has reported the same spike, which still goes on.
	Arrived int64
	Usual   float64
	Again   bool
	Redrive RedriveEnd // set for RedriveFinished and RedriveStopped
}

// RedriveEnd is the progress of a redrive at its end. Note is "" when the redrive was resumed later. Topic is the topic
// to which the redrive's filter is limited; "" for none. Partial is set when the receiver may not know the counts.
type RedriveEnd struct {
	Partial                                       bool
	Action, Topic                                 string
	Note                                          string
	Selected, Succeeded, Failed, InDoubt, Skipped int
}

// KeptNotifications are the notifications about the events in Seen.
type KeptNotifications struct {
	Seen          Events
	Notifications []NewNotification
	// Window is the time for which a notification collects events before it is sent. Repeat is the minimum time between
	// two notifications on the same object for one sink; it is at most NotificationLife.
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
	First      time.Time // time of the first of the events that the notification reports
	Last       time.Time
	MessageIDs []uuid.UUID // ids of some of the messages; the first MaxNotificationMessages are stored
	Detail     []byte      // JSON; when another notification is merged into this one, its detail replaces this
}

// Notification is a notification on its way to a sink.
type Notification struct {
	NewNotification
	CreatedAt time.Time
	Attempts  int // number of times that the notification was claimed to be sent, including the present claim
	LastError string
}

// NotificationClaim asks for one due notification of a sink. ID is new for every claim.
type NotificationClaim struct {
	Sink  string
	ID    uuid.UUID
	Lease time.Duration
	Pace  time.Duration
}

// NotificationResult ends a claim. When Sent is false, the notification is due again after RetryIn, and no notification
// of the sink is claimed during Pause.
type NotificationResult struct {
	Notification uuid.UUID
	Claim        uuid.UUID
	Sent         bool
	Error        string
	RetryIn      time.Duration
	Pause        time.Duration
}

// WaitingNotifications counts the notifications of one sink that are neither sent nor given up. Overdue says how late
// the oldest of them is; zero when none is late.
type WaitingNotifications struct {
	Sink          string
	Notifications int64
	Overdue       time.Duration
}

// EndOf returns the progress of a redrive that has just changed to the given state.
func EndOf(r entity.Redrive, state entity.RedriveState) RedriveEnd {
	end := RedriveEnd{
		Action: string(r.Action), Topic: r.Selection.Topic, Selected: r.Selected, Succeeded: r.Counts.Succeeded, Failed: r.Counts.Failed,
		InDoubt: r.Counts.InDoubt, Skipped: r.Counts.Skipped,
	}
	if r.State == state {
		end.Note = r.Note
	}
	return end
}
