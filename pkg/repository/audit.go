package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Audit is the trail of all changes.
type Audit interface {
	// Trail returns entries, the newest first.
	Trail(ctx context.Context, q TrailQuery) ([]entity.AuditEntry, error)
}

// Operations are the changes that were made, by their entity.Cause.Operation.
type Operations interface {
	// Performed reports whether a change with that operation was made.
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)

	// Record makes an operation of something that changes nothing and must be known
	// all the same: an entry of the audit trail. ID and At are the store's own. A cause with an operation is
	// recorded once for each action and object.
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// TrailQuery asks for entries of the audit trail. Fields that are set must all
// hold.
type TrailQuery struct {
	ObjectID  uuid.UUID
	Kind      entity.Kind
	Actor     string
	Action    entity.Action
	RequestID string
	After     time.Time // inclusive
	Before    int64     // only entries with a lower id; 0: all
	// Visible leaves out entries that name topics of which none matches; nil: none is
	// left out.
	Visible *entity.TopicPatterns
	Limit   int
}
