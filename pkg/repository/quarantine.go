package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// QuarantineRest is how long a quarantined record waits for its next try.
const QuarantineRest = 10 * time.Minute

// Quarantine keeps the records that Store could not store as messages: one row for each
// (incarnation, partition, offset). Ids that are not there answer
// *entity.QuarantineNotFoundError.
type Quarantine interface {
	// Quarantined returns records, the latest first, without keys, values and headers
	// longer than ListValueLimit.
	Quarantined(ctx context.Context, q QuarantineQuery) ([]entity.Quarantined, error)

	// QuarantinedRecord returns one record as Quarantined does.
	QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error)

	// QuarantineCounts returns how many records of each dead-letter topic there are.
	QuarantineCounts(ctx context.Context) ([]QuarantineCount, error)

	// WakeQuarantined makes all records due.
	WakeQuarantined(ctx context.Context) error

	// RetryQuarantined makes a record due.
	RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Quarantined, error)

	// TakeQuarantined returns a record that is due, whole, and begins a try of it; nil
	// when none is. No other caller gets it before QuarantineRest is over.
	TakeQuarantined(ctx context.Context) (*entity.Quarantined, error)

	// Release stores a batch of the one message that a record makes, whose id and source
	// are the record's, as Store does, and ends its quarantine in the same step. When the message
	// is refused again, the record stays with the new error and the error is
	// entity.ErrRefused. A record that is not in quarantine any more stores nothing.
	Release(ctx context.Context, batch Batch) (Stored, error)

	// DeleteQuarantined removes a record for good.
	DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) error
}

// QuarantineQuery asks for quarantined records.
type QuarantineQuery struct {
	Topic   string                // dead-letter topic; "" for any
	Visible *entity.TopicPatterns // of dead-letter topics; nil: all
	Before  Place                 // by first try and id; zero: from the latest
	Limit   int
}

// QuarantineCount is how many records of a dead-letter topic are in quarantine.
type QuarantineCount struct {
	Topic   string
	Records int64
}
