package entity

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// AuditInfo says who made a change and why. The audit trail stores it with the change.
type AuditInfo struct {
	Actor     string // never empty
	Reason    string // in the actor's words; "" when none was given
	RequestID string // id of the HTTP request, which the client may choose; "" for changes without a request
	TraceID   string // trace id of the request, 32 hex digits; "" for none

	// Operation is the id that the attempt or the redrive of a request gets. When the client sends the request again after
	// a crash, the API finds by this id what the first request has started. Operation is uuid.Nil when the request will
	// not be sent again.
	Operation uuid.UUID

	// Call is an id that the server makes for each HTTP request; uuid.Nil for changes without a request.
	Call uuid.UUID
}

// By returns an AuditInfo in which only the actor is set.
func By(actor string) AuditInfo { return AuditInfo{Actor: actor} }

// Actors that are not people.
const (
	ActorSettler = "settler" // settles attempts whose own process did not end them
	ActorAuto    = "auto"    // automatic retry
	ActorIngest  = "ingest"  // stores incoming records

	ActorHeartbeat = "heartbeat" // deletes the messages of heartbeats
)

// ActorKind says whether a person or dlq-manager itself made a change.
type ActorKind string

// The kinds of actors.
const (
	ActorPerson  ActorKind = "person" // a principal
	ActorMachine ActorKind = "machine"
)

// Action names a change in the audit trail. The constants below are all actions that exist.
type Action string

// The changes of messages and of redrives.
const (
	ActionRetry   Action = "retry"   // an operator started an attempt
	ActionAttempt Action = "attempt" // an attempt ended
	ActionRequeue Action = "requeue"
	ActionDead    Action = "dead" // a message became DEAD: an operator marked it dead, or it arrived without attempts left
	ActionDelete  Action = "delete"
	ActionMap     Action = "map"     // the original topic was set
	ActionRestore Action = "restore" // a message was moved back from the archive
	ActionErase   Action = "erase"   // a message of the archive was deleted for good
	ActionUnmask  Action = "unmask"  // values were shown to a user without their masks

	// ActionReadPointer: the record that a pointer names was read for a user.
	ActionReadPointer Action = "read_pointer"
	// ActionAcceptEnvelope: a user retried a message whose value looks like an envelope, and accepted that it is sent.
	ActionAcceptEnvelope Action = "accept_envelope"

	ActionCreate Action = "create" // a redrive was created; the next actions change a redrive's state
	ActionPass   Action = "pass"   // the canary of the redrive passed
	ActionPause  Action = "pause"
	ActionResume Action = "resume"
	ActionCancel Action = "cancel"
	ActionStop   Action = "stop"
	// ActionContinue: an operator ended the redrive's wait for outcomes.
	ActionContinue Action = "continue"
	ActionFinish   Action = "finish"

	ActionAnnotate Action = "annotate" // the note, link or mute of an error group was changed
	ActionReplace  Action = "replace"  // the topic mapping was replaced
	ActionSave     Action = "save"     // a shared view was saved
	ActionRedirect Action = "redirect" // the redirect of an original topic was created or replaced
)

// Kind is the kind of object that an audit entry is about.
type Kind string

// The kinds of objects.
const (
	KindMessage Kind = "message"
	KindRedrive Kind = "redrive"
	KindGroup   Kind = "group"   // error group
	KindMapping Kind = "mapping" // the topic mapping; there is only one, so it has no id
	// KindQuarantine is a record in quarantine; LastError has its position.
	KindQuarantine Kind = "quarantine"
	KindList       Kind = "list"     // a search or an export; LastError has its query
	KindView       Kind = "view"     // a shared view; LastError has its name and query
	KindRedirect   Kind = "redirect" // redirect of an original topic, whose name is in Topics
)

// AuditEntry is one entry of the audit trail. Entries are never changed.
type AuditEntry struct {
	ID         int64 // a later entry of the same object has a higher id
	At         time.Time
	Action     Action
	Kind       Kind
	ObjectID   uuid.UUID
	From, To   string // statuses or states; "" for none
	RetryCount int    // retry count of the changed message
	Class      ErrorClass
	LastError  string
	Topics     string // topics to which the change applies, separated by commas; "" when the change names none
	Cause      AuditInfo

	// These fields are set only when the entry represents all entries of its request; see
	// repository.TrailQuery.ByRequest.
	Entries  int           // number of the request's entries, counted up to MaxRequestEntries + 1
	Redrive  RedriveAction // action of the redrive that the request created; "" when there is none or it was deleted
	Selected int           // number of messages that this redrive selected
}

// MaxRequestEntries is the number up to which the entries of a request are counted exactly.
const MaxRequestEntries = 1000

// ActorKind reports whether a person or dlq-manager itself made the change. Attempts, passed canaries, and the stops
// and ends of redrives are made by dlq-manager itself, although their cause names the person who started them.
func (e AuditEntry) ActorKind() ActorKind {
	machine := slices.Contains([]Action{ActionAttempt, ActionPass, ActionStop, ActionFinish}, e.Action) ||
		slices.Contains([]string{ActorSettler, ActorAuto, ActorIngest, ActorHeartbeat}, e.Cause.Actor)
	if machine {
		return ActorMachine
	}
	return ActorPerson
}
