package entity

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// The kinds of errors that callers distinguish. With errors.Is, every error of the library matches one of these kinds,
// unless it reports an unexpected fault.
var (
	// ErrNotFound: the named object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never succeed in this form.
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the object exists, but its present state forbids the request.
	ErrConflict = errors.New("conflict")
	// ErrChanged: the object has another version than the one that the request expects.
	ErrChanged = errors.New("changed since it was read")
	// ErrUnavailable: a dependency did not answer; the same request may succeed later.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused: the store refuses the data for good. Another try fails too, unless the store itself is changed.
	ErrRefused = errors.New("refused")
	// ErrContended: in every try, other sessions had changed or locked the same rows. Nothing was changed; the same
	// request may succeed later.
	ErrContended = errors.New("contended")
)

// NotFoundError names the message that does not exist. Its kind is ErrNotFound.
type NotFoundError struct{ ID uuid.UUID }

func (e *NotFoundError) Error() string { return "dlq message not found: " + e.ID.String() }

// Is makes the error's kind ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// FieldError names the input that is wrong, and the reason. Its kind is ErrInvalid.
type FieldError struct {
	Field  string // name of the input as the caller wrote it: a query parameter, a body field, a column
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Is makes the error's kind ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// TransitionError reports a change of status that the state machine does not allow. Its kind is ErrConflict.
type TransitionError struct{ From, To Status }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("message cannot move from %s to %s", e.From, e.To)
}

// Is makes the error's kind ErrConflict.
func (e *TransitionError) Is(target error) bool { return target == ErrConflict }

// NotRetryableError reports that no attempt can start, because of the message's status or because its attempts are used
// up. Its kind is ErrConflict.
type NotRetryableError struct {
	Status                 Status
	RetryCount, MaxRetries int
}

func (e *NotRetryableError) Error() string {
	return fmt.Sprintf("message is not retryable: status=%s, retry_count=%d/%d", e.Status, e.RetryCount, e.MaxRetries)
}

// Is makes the error's kind ErrConflict.
func (e *NotRetryableError) Is(target error) bool { return target == ErrConflict }

// ClaimedError reports that an attempt holds the message, which cannot be changed until the attempt has ended or was
// settled. Its kind is ErrConflict.
type ClaimedError struct {
	ID uuid.UUID

	// Unsettled: the attempt is over, but the target log cannot show whether its record was written. Only an operator
	// can end this state of the message.
	Unsettled bool
}

func (e *ClaimedError) Error() string {
	if e.Unsettled {
		return "message " + e.ID.String() + ": its last attempt cannot be settled: mark it dead, or retry it with accept_duplicate"
	}
	return "message is claimed by a running retry: " + e.ID.String()
}

// Is makes the error's kind ErrConflict.
func (e *ClaimedError) Is(target error) bool { return target == ErrConflict }

// RefusedError reports that a message cannot be sent. The refusal came before an attempt was counted, so the message is
// unchanged. Its kind is ErrConflict.
type RefusedError struct {
	Class   ErrorClass // why nothing was sent, such as LoopRefused or Undeclared
	Reason  string     // the reason for operators, one sentence
	Missing bool       // the target topic does not exist
	OfValue bool       // the value cannot be read from its topic; this says nothing about the target
}

func (e *RefusedError) Error() string { return e.Reason }

// OfMessage reports whether the refusal concerns a single message, so that other messages for its target may be sent.
func (e *RefusedError) OfMessage() bool { return e.OfValue || e.Class.OfMessage() }

// Is makes the error's kind ErrConflict.
func (e *RefusedError) Is(target error) bool { return target == ErrConflict }

// RedriveStateError reports a change that the redrive's state does not allow. Its kind is ErrConflict.
type RedriveStateError struct {
	ID       uuid.UUID
	From, To RedriveState
}

func (e *RedriveStateError) Error() string {
	return fmt.Sprintf("redrive %s is %s and cannot become %s", e.ID, e.From, e.To)
}

// Is makes the error's kind ErrConflict.
func (e *RedriveStateError) Is(target error) bool { return target == ErrConflict }

// NothingWaitsError reports that a redrive does not wait for outcomes. Its kind is ErrConflict.
type NothingWaitsError struct {
	ID    uuid.UUID
	State RedriveState
}

func (e *NothingWaitsError) Error() string {
	return fmt.Sprintf("redrive %s is %s and does not wait for outcomes", e.ID, e.State)
}

// Is makes the error's kind ErrConflict.
func (e *NothingWaitsError) Is(target error) bool { return target == ErrConflict }

// RedriveNotFoundError names the redrive that does not exist. Its kind is ErrNotFound.
type RedriveNotFoundError struct{ ID uuid.UUID }

func (e *RedriveNotFoundError) Error() string { return "redrive not found: " + e.ID.String() }

// Is makes the error's kind ErrNotFound.
func (e *RedriveNotFoundError) Is(target error) bool { return target == ErrNotFound }

// ChangedError reports that an object has another version than the request expects. Its kind is ErrChanged.
type ChangedError struct {
	What    string
	Version int64 // present version of the object; 0 when it does not exist
}

func (e *ChangedError) Error() string {
	if e.Version == 0 {
		return e.What + " does not exist any more; read it again"
	}
	return e.What + " has changed since it was read; read it again"
}

// Is makes the error's kind ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }
