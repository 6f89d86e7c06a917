package entity

import "fmt"

// Status is the status of a message. The database, the API and the console use these four values; no other value
// exists.
type Status string

const (
	// Pending waits for a retry. Ingest, a requeue, and an attempt that failed or was given back lead to it; a claim
	// or an operator's "dead" leads out.
	Pending Status = "PENDING"

	// Retrying is held by a claim: an attempt is in progress, or its process died and the claim waits to be settled
	// from the target log. Only a claim leads to it.
	Retrying Status = "RETRYING"

	// Resolved: the broker acknowledged the record. Final.
	Resolved Status = "RESOLVED"

	// Dead: the attempts are used up, the record can never be accepted, or an operator set it. Final, but an operator
	// may requeue it.
	Dead Status = "DEAD"
)

// Statuses lists every status in the order of a message's life.
func Statuses() []Status { return []Status{Pending, Retrying, Resolved, Dead} }

// transitions is the complete state machine; methods and SQL guards follow it.
var transitions = map[Status][]Status{
	Pending:  {Retrying, Dead},
	Retrying: {Resolved, Pending, Dead},
	Resolved: {},
	Dead:     {Pending},
}

// CanMoveTo reports whether the state machine allows a change from s to next.
func (s Status) CanMoveTo(next Status) bool {
	for _, to := range transitions[s] {
		if to == next {
			return true
		}
	}
	return false
}

// Final reports whether the status is RESOLVED or DEAD: the message may be archived, and only a requeue of a DEAD
// message leads out.
func (s Status) Final() bool { return s == Resolved || s == Dead }

// String returns the status as it is stored and shown.
func (s Status) String() string { return string(s) }

// ParseStatus reads a status exactly as String prints it. Anything else is a FieldError.
func ParseStatus(text string) (Status, error) {
	for _, s := range Statuses() {
		if string(s) == text {
			return s, nil
		}
	}
	return "", &FieldError{Field: "status", Reason: fmt.Sprintf("unknown status %q", text)}
}
