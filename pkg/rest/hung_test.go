package rest

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

func (h hungStore) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	<-h.release
	return h.Store.Search(context.WithoutCancel(ctx), q)
}

func (h hungStore) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	<-h.release
	return h.Store.GetArchived(context.WithoutCancel(ctx), id, maxValue)
}

func (h hungStore) Restore(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	<-h.release
	return h.Store.Restore(context.WithoutCancel(ctx), id, cause)
}

func (h hungStore) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	<-h.release
	return h.Store.TopicSummaries(context.WithoutCancel(ctx), q)
}

func (h hungStore) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	<-h.release
	return h.Store.ErrorGroups(context.WithoutCancel(ctx), q)
}

func (h hungStore) ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend) (entity.ErrorGroup, error) {
	<-h.release
	return h.Store.ErrorGroup(context.WithoutCancel(ctx), id, visible, trend)
}

func (h hungStore) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	<-h.release
	return h.Store.Arrivals(context.WithoutCancel(ctx), q)
}

func (h hungStore) Mapping(ctx context.Context) (entity.Mapping, error) {
	<-h.release
	return h.Store.Mapping(context.WithoutCancel(ctx))
}

// waitingStore gives some messages, and then waits until it is told to stop.
type waitingStore struct {
	*fake.Store
	given int
}

func (s waitingStore) Export(ctx context.Context, _ repository.ExportQuery, yield func(*entity.Message) error) error {
	m := message(idA)
	for range s.given {
		if err := yield(&m); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// An export may take as long as it takes, but a store that says nothing more is
// not waited for.
func TestExport_StoreThatSaysNothingMore(t *testing.T) {
	t.Parallel()
	for given, broken := range map[int]bool{0: false, 1: false, 1000: true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture()
			f.store = waitingStore{f.memory, given}
			f.open()
			began := time.Now()
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != broken { //nolint:errorlint // that very one
					t.Errorf("%d given: panic %v, want the connection broken: %v", given, p, broken)
				}
				if took := time.Since(began); took != f.cfg.RequestTimeout {
					t.Errorf("%d given: took %s, want %s", given, took, f.cfg.RequestTimeout)
				}
			}()
			wantAnswer(t, f.do("GET", "/api/v1/export", ""), http.StatusServiceUnavailable, errorJSON(codeUnavailable, unavailableText, "[]"))
		})
	}
}

// steadyStore gives a message every twenty seconds.
type steadyStore struct{ *fake.Store }

func (steadyStore) Export(_ context.Context, _ repository.ExportQuery, yield func(*entity.Message) error) error {
	m := message(idA)
	for range 10 {
		<-time.After(20 * time.Second) // of the bubble
		if err := yield(&m); err != nil {
			return err
		}
	}
	return nil
}

// An export that goes on is not ended by the time of a request.
func TestExport_MayTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.store = steadyStore{f.memory}
		w := f.open().do("GET", "/api/v1/export", "")
		wantHeader(t, w.Result().Trailer, exportMessages, "10")
		wantHeader(t, w.Result().Trailer, exportComplete, "true")
	})
}
