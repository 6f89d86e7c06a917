package tier

import (
	"context"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Limits of one step of an export, which loads the next messages from objects. When the ids of messages are random, each
// step reads all objects whose times overlap, whatever the number of its messages. So the steps are as long as
// their memory allows.
const (
	firstStep   = 100
	longestStep = 20_000
	stepBytes   = 16 << 20
)

// Export implements repository.Searcher. It exports the messages in the database with their state at one moment. It
// also exports all messages that were in objects at that moment, except those that were restored or erased since, and
// may include messages that moved to an object later.
func (a *Archive) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	if !q.Archived {
		return a.db.Export(ctx, q, yield)
	}
	if err := searchable("", q.Filter, repository.Sort{}); err != nil {
		return err
	}
	if q.Limit < 1 {
		return nil
	}
	e := &export{archive: a, list: newListing(q.Filter), left: q.Limit, yield: yield, limits: repository.ShownLimits{
		Value: q.MaxValue, Key: -1, Headers: -1,
	}}
	e.list.limit = firstStep
	err := a.db.Export(ctx, q, func(m *entity.Message) error {
		same, err := e.until(ctx, m)
		if err != nil || e.left == 0 {
			return err
		}
		e.left--
		if err := yield(m); err != nil {
			return err
		}
		if same { // the message moved to an object during the export, and must not be exported twice
			e.loaded = e.loaded[1:]
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = e.until(ctx, nil)
	return err
}

// export inserts the messages of objects into an export of the database, in the order of the list.
type export struct {
	archive *Archive
	list    *listing
	limits  repository.ShownLimits
	yield   func(*entity.Message) error
	left    int // how many more messages may be exported

	loaded []entity.Message // the next messages of objects, which were read and not exported yet
	ended  bool             // objects contain no further messages after those in the field loaded
}

// until exports the messages of objects that come before m, or all of them when m is nil. same reports whether the next
// message of the objects is m itself.
func (e *export) until(ctx context.Context, m *entity.Message) (same bool, err error) {
	for e.left > 0 {
		if len(e.loaded) == 0 {
			if err := e.load(ctx); err != nil {
				return false, err
			}
			if len(e.loaded) == 0 {
				return false, nil
			}
		}
		next := &e.loaded[0]
		if m != nil {
			if c := e.list.compareMessages(next, m); c >= 0 {
				return c == 0, nil
			}
		}
		e.left--
		if err := e.yield(next); err != nil {
			return false, err
		}
		e.loaded = e.loaded[1:]
	}
	return false, nil
}

func (e *export) load(ctx context.Context) (err error) {
	if e.ended {
		return nil
	}
	e.loaded = nil // frees the memory of the step before
	if e.loaded, err = e.archive.list(ctx, e.list, e.limits); err != nil {
		return fmt.Errorf("export messages of objects: %w", err)
	}
	if e.ended = len(e.loaded) < e.list.limit; len(e.loaded) > 0 {
		last := &e.loaded[len(e.loaded)-1]
		e.list.after = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		e.list.limit = e.nextStep()
	}
	return nil
}

// nextStep returns how many messages the next step loads: as many as fit into stepBytes if they are as large as those
// of the last step, but at most longestStep, and at most four times as many as the last step.
func (e *export) nextStep() int {
	var size int64
	for i := range e.loaded {
		size += repository.SizeInMemory(&e.loaded[i])
	}
	fitting := stepBytes * int64(len(e.loaded)) / max(1, size)
	return int(min(max(1, fitting), longestStep, 4*int64(len(e.loaded))))
}
