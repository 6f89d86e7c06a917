package entity

import (
	"time"

	"github.com/google/uuid"
)

// View is a saved filter of a list of messages. It grants no rights: each user sees only the messages that the user may
// see without the view.
type View struct {
	ID        uuid.UUID
	Name      string // unique among the owner's own views, and among all shared ones
	Owner     string // principal who first saved the view
	Shared    bool   // all principals see the view
	List      string // "messages" or "archive"
	Query     string // query of the list, URL-encoded
	Version   int64  // increases with each change; the first version is 1
	UpdatedAt time.Time
}

// ViewConflictError reports that a view has changed since the caller read it. Its kind is ErrConflict.
type ViewConflictError struct{ Name string }

func (e *ViewConflictError) Error() string {
	return "the view " + e.Name + " has changed since it was read; read it again"
}

// Is makes the error's kind ErrConflict.
func (e *ViewConflictError) Is(target error) bool { return target == ErrConflict }

// ViewNotFoundError names the view that does not exist. Its kind is ErrNotFound.
type ViewNotFoundError struct{ Name string }

func (e *ViewNotFoundError) Error() string { return "view not found: " + e.Name }

// Is makes the error's kind ErrNotFound.
func (e *ViewNotFoundError) Is(target error) bool { return target == ErrNotFound }
