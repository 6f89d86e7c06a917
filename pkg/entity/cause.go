package entity

import (
	"time"

	"github.com/google/uuid"
)

// Cause says who wanted a change, and why. It is kept in the audit trail beside
// the change itself.
type Cause struct {
	Actor     string // who; never empty
	Reason    string // their words; "" when they gave none
	RequestID string // of the HTTP request; "" when no request asked for it
	TraceID   string // of the request's trace, 32 hex digits; "" for none

	// Operation names the one piece of work that a request stands for, so that the
	// same request, sent again after a crash, finds what it had begun. It becomes
	// the id of the attempt or of the redrive that it starts. uuid.Nil: nobody will
	// ask again.
	Operation uuid.UUID
}

// By is a cause of which only the actor is known.
func By(actor string) Cause { return Cause{Actor: actor} }

// Actors that are not people.
const (
	ActorSettler = "settler" // ends attempts that their own process did not end
	ActorAuto    = "auto"    // automatic retry
	ActorIngest  = "ingest"  // stores what comes in
)

// Action names a change in the audit trail. The set is closed.
type Action string

// The changes of messages and of redrives.
const (
	ActionRetry   Action = "retry"   // an operator had an attempt started
	ActionAttempt Action = "attempt" // an attempt ended
	ActionRequeue Action = "requeue"
	ActionDead    Action = "dead" // by hand, or on arrival at the limit
	ActionDelete  Action = "delete"
	ActionMap     Action = "map"     // the original topic was set
	ActionRestore Action = "restore" // from the archive
	ActionUnmask  Action = "unmask"  // somebody looked at what is masked

	// ActionReadPointer: the record that a pointer stands for was read for a user.
	ActionReadPointer Action = "read_pointer"

	ActionCreate Action = "create" // a redrive; its moves are the others
	ActionPass   Action = "pass"   // its canary
	ActionPause  Action = "pause"
	ActionResume Action = "resume"
	ActionCancel Action = "cancel"
	ActionStop   Action = "stop"
	ActionFinish Action = "finish"

	ActionAnnotate Action = "annotate" // an error group's note, link or mute
	ActionReplace  Action = "replace"  // the topic mapping
)

// Kind says what a line of the audit trail is about.
type Kind string

// What changes.
const (
	KindMessage Kind = "message"
	KindRedrive Kind = "redrive"
	KindGroup   Kind = "group"   // error group
	KindMapping Kind = "mapping" // of topics; there is one, and it has no id
	// KindQuarantine is a record that could not be stored; LastError says where it is.
	KindQuarantine Kind = "quarantine"
	KindList       Kind = "list" // a search or an export; LastError says of what
)

// AuditEntry is one line of the audit trail: who did what, to what, when.
// Entries are never changed.
type AuditEntry struct {
	ID         int64 // counts up; a later entry of the same object has a higher one
	At         time.Time
	Action     Action
	Kind       Kind
	ObjectID   uuid.UUID
	From, To   string // states; "" where there was or is none
	RetryCount int    // of the message behind the change
	Class      ErrorClass
	LastError  string
	Topics     string // names of those that it is about, with commas between; "": it names none
	Cause      Cause
}
