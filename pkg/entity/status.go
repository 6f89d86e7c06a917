package entity

import "fmt"

// Status is the status of a message. The database, the API and the console use these four values; no other value
// exists.
type Status string

const (
	// Pending messages wait for a retry. A message becomes PENDING when it is ingested or requeued, and when its attempt
	// failed or was given back. A PENDING message changes its status when it is claimed, or when an operator marks it
	// dead.
	Pending Status = "PENDING"

	// Retrying messages are held by a claim: an attempt is in progress, or its process died and the claim must be
	// settled from the target log. A message becomes RETRYING only by a claim.
	Retrying Status = "RETRYING"

	// Resolved messages have a record that the broker acknowledged, or were resolved without Kafka. The status is
	// final.
	Resolved Status = "RESOLVED"

	// Dead messages have used up their attempts, have a record that can never be accepted, or were marked dead by an
	// operator. The status is final, but an operator may requeue the message.
	Dead Status = "DEAD"
)

// Statuses returns all statuses, in the order in which a message usually has them.
func Statuses() []Status { return []Status{Pending, Retrying, Resolved, Dead} }

// transitions is the complete state machine. The methods of Message and the conditions in SQL follow it.
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

// Final reports whether the status is RESOLVED or DEAD. A message with a final status may be archived; only a requeue
// of a DEAD message changes a final status.
func (s Status) Final() bool { return s == Resolved || s == Dead }

// String returns the status in the form that is stored and shown.
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
