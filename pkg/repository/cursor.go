package repository

import (
	"time"

	"github.com/google/uuid"
)

// Cursor is the position of a message in a list that is sorted by created_at and id.
type Cursor struct {
	CreatedAt time.Time // created_at of the message at the cursor, or the other time by which the list is sorted
	ID        uuid.UUID
}
