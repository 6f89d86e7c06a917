package repository

import (
	"time"

	"github.com/google/uuid"
)

// Cursor is the position of a message in a list that is sorted by created_at and id.
type Cursor struct {
	CreatedAt time.Time // or the other time by which the list is sorted
	ID        uuid.UUID
}
