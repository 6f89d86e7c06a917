package redrive

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// hanging is a store whose machine still answers, and whose database does not.
type hanging struct{}

func hang[T any](ctx context.Context) (none T, err error) {
	<-ctx.Done()
	return none, ctx.Err()
}

func hangs(ctx context.Context) error {
	_, err := hang[int](ctx)
	return err
}

func (hanging) Get(ctx context.Context, _ uuid.UUID, _ int64) (entity.Message, error) {
	return hang[entity.Message](ctx)
}

func (hanging) Load(ctx context.Context, _ []uuid.UUID, _ int64) ([]entity.Message, int, error) {
	return nil, 0, hangs(ctx)
}

func (hanging) Due(ctx context.Context, _ repository.DueQuery) ([]uuid.UUID, repository.Place, error) {
	return nil, repository.Place{}, hangs(ctx)
}

func (hanging) Counts(ctx context.Context) ([]repository.Count, error) {
	return hang[[]repository.Count](ctx)
}

func (hanging) Stuck(ctx context.Context, _ time.Duration) (int64, error) { return hang[int64](ctx) }

func (hanging) Claim(ctx context.Context, _ []repository.Claim, _ repository.Claiming) ([]entity.Message, error) {
	return hang[[]entity.Message](ctx)
}

func (hanging) Claimable(ctx context.Context, _ []uuid.UUID) ([]uuid.UUID, error) {
	return hang[[]uuid.UUID](ctx)
}

func (hanging) Finish(ctx context.Context, _ []repository.Result, _ entity.Cause) ([]repository.Finished, error) {
	return hang[[]repository.Finished](ctx)
}

func (hanging) Expired(ctx context.Context, _ repository.ExpiredQuery) ([]entity.Message, error) {
	return hang[[]entity.Message](ctx)
}

func (hanging) History(ctx context.Context, _ uuid.UUID) ([]entity.Attempt, error) {
	return hang[[]entity.Attempt](ctx)
}

func (hanging) AttemptsOf(ctx context.Context, _ uuid.UUID, _ []uuid.UUID) ([]entity.Attempt, error) {
	return hang[[]entity.Attempt](ctx)
}

func (hanging) GiveUp(ctx context.Context, _ uuid.UUID, _ entity.Cause) (entity.Message, error) {
	return hang[entity.Message](ctx)
}

func (hanging) Delete(ctx context.Context, _ uuid.UUID, _ entity.Cause) error { return hangs(ctx) }

func (hanging) Change(ctx context.Context, _ repository.Change, _ entity.Cause) ([]uuid.UUID, error) {
	return hang[[]uuid.UUID](ctx)
}

func (hanging) PerformedOn(ctx context.Context, _ uuid.UUID, _ entity.Action, _ []uuid.UUID) ([]uuid.UUID, error) {
	return hang[[]uuid.UUID](ctx)
}

func (hanging) Record(ctx context.Context, _ entity.AuditEntry) error {
	_, err := hang[struct{}](ctx)
	return err
}

func (hanging) CreateRedrive(ctx context.Context, _ repository.NewRedrive) (entity.Redrive, error) {
	return hang[entity.Redrive](ctx)
}

func (hanging) Search(ctx context.Context, _ repository.SearchQuery) ([]entity.Message, error) {
	return hang[[]entity.Message](ctx)
}

func (hanging) Survey(ctx context.Context, _ repository.NewRedrive) ([]repository.SurveyGroup, error) {
	return hang[[]repository.SurveyGroup](ctx)
}

func (hanging) Redrive(ctx context.Context, _ uuid.UUID) (entity.Redrive, error) {
	return hang[entity.Redrive](ctx)
}

func (hanging) Redrives(ctx context.Context, _ repository.RedriveQuery) ([]entity.Redrive, error) {
	return hang[[]entity.Redrive](ctx)
}

func (hanging) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	return hang[[]uuid.UUID](ctx)
}

func (hanging) MoveRedrive(ctx context.Context, _ uuid.UUID, _ repository.RedriveMove) (entity.Redrive, error) {
	return hang[entity.Redrive](ctx)
}

func (hanging) NoteWaiting(ctx context.Context, _ uuid.UUID, _ bool, _ string) error {
	return hangs(ctx)
}

func (hanging) LeaseBatch(ctx context.Context, _, _ uuid.UUID, _ time.Duration) (*repository.RedriveBatch, error) {
	return hang[*repository.RedriveBatch](ctx)
}

func (hanging) RenewLeases(ctx context.Context, _ uuid.UUID, _ time.Duration) error {
	return hangs(ctx)
}

func (hanging) SaveBatch(ctx context.Context, _ repository.BatchResults) (bool, error) {
	return hang[bool](ctx)
}

func (hanging) RedriveItems(ctx context.Context, _ uuid.UUID, _ repository.ItemQuery) ([]entity.RedriveItem, error) {
	return hang[[]entity.RedriveItem](ctx)
}

func (hanging) RedriveOutcomes(ctx context.Context, _ uuid.UUID, _ bool) (entity.OutcomeCounts, error) {
	return hang[entity.OutcomeCounts](ctx)
}

func (hanging) WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error) {
	return hang[[]repository.TopicGroup](ctx)
}

func (hanging) ConfigureGroups(ctx context.Context, _ []repository.TopicGroup) error {
	return hangs(ctx)
}

func (hanging) NoteCommitted(ctx context.Context, _ []repository.Committed) error { return hangs(ctx) }

func TestNoCallOfTheStoreIsWaitedForForEver(t *testing.T) {
	t.Parallel()
	unbounded := map[string]bool{"CreateRedrive": true, "Survey": true} // their callers have deadlines
	store := reflect.TypeFor[Store]()
	for i := range store.NumMethod() {
		method := store.Method(i)
		t.Run(method.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				args := []reflect.Value{reflect.ValueOf(ctx)}
				for n := 1; n < method.Type.NumIn(); n++ {
					args = append(args, reflect.Zero(method.Type.In(n)))
				}
				began := time.Now()
				results := reflect.ValueOf(patient{hanging{}}).MethodByName(method.Name).Call(args)
				err, _ := results[len(results)-1].Interface().(error)
				took := time.Since(began)
				if unbounded[method.Name] {
					if took != time.Hour {
						t.Errorf("it took %s, want its caller's hour", took)
					}
				} else if took != storeTimeout || !errors.Is(err, entity.ErrUnavailable) {
					t.Errorf("it took %s and was %v, want unavailable after %s", took, err, storeTimeout)
				}
			})
		})
	}
}
