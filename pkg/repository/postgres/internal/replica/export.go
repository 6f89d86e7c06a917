package replica

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// export is an export that one server begins and another one may continue.
type export struct {
	query   repository.ExportQuery
	yield   func(*entity.Message) error
	refused error // error that the function yield returned

	// The number of messages that were passed to yield so far, and the creation time and the id of the last of these
	// messages.
	yielded   int
	createdAt time.Time
	id        uuid.UUID
}

var errAllYielded = errors.New("all messages were yielded")

// run begins the export on the server from, or continues it there after the last message that was passed to yield. When
// yield fails, run stores the error in refused and returns nil.
func (e *export) run(ctx context.Context, from Readers) error {
	q, before := e.query, *e
	if e.yielded > 0 {
		q.Filter.CreatedBefore = e.createdAt.Add(time.Microsecond) // includes messages with the same creation time as the last yielded message
	}
	err := from.Export(ctx, q, func(m *entity.Message) error {
		if before.has(m) {
			return nil
		}
		if e.yielded == e.query.Limit {
			return errAllYielded
		}
		if reading := repository.ReadingOf(ctx); from.replica && !reading.TakeReplica() {
			return repository.ErrReadAgain
		}
		e.yielded, e.createdAt, e.id = e.yielded+1, m.CreatedAt, m.ID
		e.refused = e.yield(m)
		return e.refused
	})
	if e.refused == nil && !errors.Is(err, errAllYielded) {
		return err
	}
	return nil
}

// has reports whether the message m was passed to yield before. m must not be newer than the last message that was
// passed to yield. Exports are sorted by creation time and id, the newest first.
func (e *export) has(m *entity.Message) bool {
	return e.yielded > 0 && m.CreatedAt.Equal(e.createdAt) && bytes.Compare(m.ID[:], e.id[:]) >= 0
}
