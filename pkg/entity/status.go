package entity

import "fmt"

// Status says where a message stands. The four values are what the database,
// the API and the console show; no other value exists.
type Status string

const (
	// Pending waits for a retry. Ingest and requeue enter it, and so does an
	// attempt that failed or was given back; a claim or an operator's "dead"
	// leaves it.
	Pending Status = "PENDING"

	// Retrying is held by a claim: an attempt is under way, or its process died
	// and the claim waits to be settled from the target log. Only a claim enters
	// it.
	Retrying Status = "RETRYING"

	// Resolved was acknowledged by the broker of its original topic. Final.
	Resolved Status = "RESOLVED"

	// Dead is given up: the attempts are used up, the record can never be
	// accepted, or an operator said so. Final, but an operator may requeue it.
	Dead Status = "DEAD"
)

// Statuses lists every status in the order of a message's life.
func Statuses() []Status { return []Status{Pending, Retrying, Resolved, Dead} }

// transitions is the whole state machine; methods and SQL guards follow it.
var transitions = map[Status][]Status{
	Pending:  {Retrying, Dead},
	Retrying: {Resolved, Pending, Dead},
	Resolved: {},
	Dead:     {Pending},
}

// CanMoveTo reports whether the state machine has an arrow from s to next.
func (s Status) CanMoveTo(next Status) bool {
	for _, to := range transitions[s] {
		if to == next {
			return true
		}
	}
	return false
}

// Final reports whether the message is done with: it may be archived, and only
// a requeue by hand leads out.
func (s Status) Final() bool { return s == Resolved || s == Dead }

// String returns the status as it is stored and shown.
func (s Status) String() string { return string(s) }

// ParseStatus reads a status exactly as String prints it. Anything else is a
// FieldError.
func ParseStatus(text string) (Status, error) {
	for _, s := range Statuses() {
		if string(s) == text {
			return s, nil
		}
	}
	return "", &FieldError{Field: "status", Reason: fmt.Sprintf("unknown status %q", text)}
}
