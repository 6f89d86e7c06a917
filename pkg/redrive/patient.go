package redrive

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// storeTimeout bounds every call of the store but CreateRedrive and Survey, which
// may look at millions of messages and are left to their caller's deadline; only
// requests make them. What no caller's deadline ends, a redrive, a settler or an
// automatic retry, would otherwise wait for ever for a database that hangs, and a
// drain would wait with it.
const storeTimeout = 30 * time.Second

// patient is a store that is not waited for longer than storeTimeout. A call
// that took longer is of kind entity.ErrUnavailable.
type patient struct{ Store }

func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	result, err := call(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = &unavailableError{err}
	}
	return result, err
}

func done(ctx context.Context, call func(context.Context) error) error {
	_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

func (p patient) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) (entity.Message, error) { return p.Store.Get(ctx, id, maxValue) })
}

func (p patient) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error) {
	messages, err = bounded(ctx, func(ctx context.Context) (found []entity.Message, err error) {
		found, taken, err = p.Store.Load(ctx, ids, maxBytes)
		return found, err
	})
	return messages, taken, err
}

func (p patient) Due(ctx context.Context, q repository.DueQuery) (ids []uuid.UUID, next repository.Place, err error) {
	ids, err = bounded(ctx, func(ctx context.Context) (found []uuid.UUID, err error) {
		found, next, err = p.Store.Due(ctx, q)
		return found, err
	})
	return ids, next, err
}

func (p patient) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Message, error) { return p.Store.Claim(ctx, claims, how) })
}

func (p patient) Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	return bounded(ctx, func(ctx context.Context) ([]uuid.UUID, error) { return p.Store.Claimable(ctx, ids) })
}

func (p patient) Finish(ctx context.Context, results []repository.Result, cause entity.Cause) ([]repository.Finished, error) {
	return bounded(ctx, func(ctx context.Context) ([]repository.Finished, error) { return p.Store.Finish(ctx, results, cause) })
}

func (p patient) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Message, error) { return p.Store.Expired(ctx, q) })
}

func (p patient) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Attempt, error) { return p.Store.History(ctx, id) })
}

func (p patient) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Attempt, error) { return p.Store.AttemptsOf(ctx, redrive, ids) })
}

func (p patient) GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) (entity.Message, error) { return p.Store.GiveUp(ctx, id, cause) })
}

func (p patient) Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error {
	return done(ctx, func(ctx context.Context) error { return p.Store.Delete(ctx, id, cause) })
}

func (p patient) Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error) {
	return bounded(ctx, func(ctx context.Context) ([]uuid.UUID, error) { return p.Store.Change(ctx, c, cause) })
}

func (p patient) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	return bounded(ctx, func(ctx context.Context) (entity.Redrive, error) { return p.Store.Redrive(ctx, id) })
}

func (p patient) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	return bounded(ctx, p.Store.ActiveRedrives)
}

func (p patient) MoveRedrive(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	return bounded(ctx, func(ctx context.Context) (entity.Redrive, error) { return p.Store.MoveRedrive(ctx, id, m) })
}

func (p patient) NoteWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error {
	return done(ctx, func(ctx context.Context) error { return p.Store.NoteWaiting(ctx, id, waiting, note) })
}

func (p patient) LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration) (*repository.RedriveBatch, error) {
	return bounded(ctx, func(ctx context.Context) (*repository.RedriveBatch, error) {
		return p.Store.LeaseBatch(ctx, id, owner, lease)
	})
}

func (p patient) RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error {
	return done(ctx, func(ctx context.Context) error { return p.Store.RenewLeases(ctx, owner, lease) })
}

func (p patient) SaveBatch(ctx context.Context, r repository.BatchResults) (bool, error) {
	return bounded(ctx, func(ctx context.Context) (bool, error) { return p.Store.SaveBatch(ctx, r) })
}

func (p patient) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.RedriveItem, error) { return p.Store.RedriveItems(ctx, id, q) })
}

func (p patient) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	return bounded(ctx, func(ctx context.Context) ([]uuid.UUID, error) {
		return p.Store.PerformedOn(ctx, operation, action, ids)
	})
}

func (p patient) Record(ctx context.Context, entry entity.AuditEntry) error {
	return done(ctx, func(ctx context.Context) error { return p.Store.Record(ctx, entry) })
}

func (p patient) Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Redrive, error) { return p.Store.Redrives(ctx, q) })
}

func (p patient) RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error) {
	return bounded(ctx, func(ctx context.Context) (entity.OutcomeCounts, error) {
		return p.Store.RedriveOutcomes(ctx, id, canary)
	})
}

func (p patient) Counts(ctx context.Context) ([]repository.Count, error) {
	return bounded(ctx, p.Store.Counts)
}

func (p patient) Stuck(ctx context.Context, age time.Duration) (int64, error) {
	return bounded(ctx, func(ctx context.Context) (int64, error) { return p.Store.Stuck(ctx, age) })
}

func (p patient) WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error) {
	return bounded(ctx, p.Store.WatchedGroups)
}

func (p patient) ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error {
	return done(ctx, func(ctx context.Context) error { return p.Store.ConfigureGroups(ctx, groups) })
}

func (p patient) NoteCommitted(ctx context.Context, offsets []repository.Committed) error {
	return done(ctx, func(ctx context.Context) error { return p.Store.NoteCommitted(ctx, offsets) })
}

func (p patient) Search(ctx context.Context, q repository.SearchQuery) ([]entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Message, error) { return p.Store.Search(ctx, q) })
}
