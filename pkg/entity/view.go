package entity

import (
	"time"

	"github.com/google/uuid"
)

// View is a saved filter of a list of messages. It gives no rights: its list shows what the reader may see.
type View struct {
	ID        uuid.UUID
	Name      string // unique among the owner's own views, and among all shared ones
	Owner     string // the principal who saved it first
	Shared    bool   // every principal sees it
	List      string // "messages" or "archive"
	Query     string // of the list, URL-encoded
	Version   int64  // increases with each change, from 1 on
	UpdatedAt time.Time
}

// ViewConflictError says that a view changed since the caller read it. Its kind is ErrConflict.
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
