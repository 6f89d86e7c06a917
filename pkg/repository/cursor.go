package repository

import (
	"time"

	"github.com/google/uuid"
)

// Cursor is the position of an entry in a list that is sorted by a time, usually created_at, and then by id.
type Cursor struct {
	CreatedAt time.Time // created_at of the entry at the cursor, or the other time by which the list is sorted
	ID        uuid.UUID
}
