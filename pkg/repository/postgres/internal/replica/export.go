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
	refused error // error of yield

	// What was yielded: the number of messages, and the last one.
	yielded   int
	createdAt time.Time
	id        uuid.UUID
}

var errAllYielded = errors.New("all messages were yielded")

// run exports the messages that follow the last one that was yielded. It returns no error of yield.
func (e *export) run(ctx context.Context, from Readers) error {
	q, before := e.query, *e
	if e.yielded > 0 {
		q.Filter.CreatedBefore = e.createdAt.Add(time.Microsecond) // messages of the same time follow, too
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

// has reports whether m was yielded. Exports are sorted by creation time and id, the newest first.
func (e *export) has(m *entity.Message) bool {
	return e.yielded > 0 && m.CreatedAt.Equal(e.createdAt) && bytes.Compare(m.ID[:], e.id[:]) >= 0
}
