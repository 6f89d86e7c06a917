package repository

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// RecentGroups counts what somebody may want to look at.
type RecentGroups interface {
	// CountRecentGroups returns how many error groups came first, and how many came back
	// after all of theirs was resolved, within that time before now; muted groups and
	// those of except are left out. A group that did both is in both.
	CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (RecentCount, error)
}

// RecentCount is how many error groups came, and came back.
type RecentCount struct{ New, Regressed int64 }
