package repository

import (
	"time"

	"github.com/google/uuid"
)

// Cursor is a cursor: the position of a message in an order by created_at and id.
type Cursor struct {
	CreatedAt time.Time // or the other time by which the list is sorted
	ID        uuid.UUID
}
