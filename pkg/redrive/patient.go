package redrive

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// storeTimeout bounds every call of the store. What no caller's deadline ends,
// a redrive or a settler, would otherwise wait for ever for a database that
// hangs, and a drain would wait with it.
const storeTimeout = 30 * time.Second

// patient is a store that is not waited for longer than storeTimeout. A call
// that took longer is of kind entity.ErrUnavailable.
type patient struct{ store Store }

func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	result, err := call(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = &unavailableError{err}
	}
	return result, err
}

func (p patient) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) (entity.Message, error) { return p.store.Get(ctx, id, maxValue) })
}

func (p patient) Select(ctx context.Context, topic string) ([]uuid.UUID, error) {
	return bounded(ctx, func(ctx context.Context) ([]uuid.UUID, error) { return p.store.Select(ctx, topic) })
}

func (p patient) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error) {
	messages, err = bounded(ctx, func(ctx context.Context) (found []entity.Message, err error) {
		found, taken, err = p.store.Load(ctx, ids, maxBytes)
		return found, err
	})
	return messages, taken, err
}

func (p patient) Claim(ctx context.Context, claims []repository.Claim, expiry time.Duration, wait bool) ([]entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Message, error) { return p.store.Claim(ctx, claims, expiry, wait) })
}

func (p patient) Finish(ctx context.Context, results []repository.Result) ([]repository.Finished, error) {
	return bounded(ctx, func(ctx context.Context) ([]repository.Finished, error) { return p.store.Finish(ctx, results) })
}

func (p patient) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) ([]entity.Message, error) { return p.store.Expired(ctx, q) })
}

func (p patient) GiveUp(ctx context.Context, id uuid.UUID, actor string) (entity.Message, error) {
	return bounded(ctx, func(ctx context.Context) (entity.Message, error) { return p.store.GiveUp(ctx, id, actor) })
}

func (p patient) Delete(ctx context.Context, id uuid.UUID) error {
	_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.store.Delete(ctx, id) })
	return err
}
