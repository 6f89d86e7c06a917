package rest

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/search"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// slowly returns a store whose exports return the given number of messages, with a pause before each. After these
// messages, an export ends if whole is true, and otherwise waits until ctx ends.
func slowly(s *fake.Store, given int, pause time.Duration, whole bool) *hooked {
	store := hook(s)
	store.export = func(ctx context.Context, _ repository.ExportQuery, yield func(*entity.Message) error) error {
		m := message(idA)
		for range given {
			<-time.After(pause) // this pause is in the fake time of synctest
			if err := yield(&m); err != nil {
				return err
			}
		}
		if whole {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return store
}

// An export may take long, but it is cut off when the store returns no further message within the time limit of
// requests.
func TestExport_StoreThatSaysNothingMore(t *testing.T) {
	t.Parallel()
	for given, broken := range map[int]bool{0: false, 1: false, 1000: true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture()
			f.over(slowly(f.memory, given, 0, false)).open()
			began := time.Now()
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != broken { //nolint:errorlint // net/http compares by ==
					t.Errorf("%d given: panic %v, want the connection broken: %v", given, p, broken)
				}
				if took := time.Since(began); took != f.cfg.RequestTimeout {
					t.Errorf("%d given: took %s, want %s", given, took, f.cfg.RequestTimeout)
				}
			}()
			wantAnswer(t, f.do("GET", "/api/v1/export", ""), http.StatusServiceUnavailable, errorJSON(respond.CodeUnavailable, respond.UnavailableText, "[]"))
		})
	}
}

// The time limit of requests does not end an export that makes progress.
func TestExport_MayTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		w := f.over(slowly(f.memory, 10, 20*time.Second, true)).open().do("GET", "/api/v1/export", "")
		wantHeader(t, w.Result().Trailer, search.ExportMessages, "10")
		wantHeader(t, w.Result().Trailer, search.ExportComplete, "true")
	})
}
