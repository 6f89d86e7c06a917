package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// hungStore does not answer until it is released, whatever its context says.
type hungStore struct {
	*fake.Store
	release chan struct{}
}

func (h hungStore) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	<-h.release
	return h.Store.List(context.WithoutCancel(ctx), topic, page)
}

func (h hungStore) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	<-h.release
	return h.Store.Get(context.WithoutCancel(ctx), id, maxValue)
}

func (h hungStore) Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	<-h.release
	return h.Store.Requeue(context.WithoutCancel(ctx), id, cause)
}

func (h hungStore) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	<-h.release
	return h.Store.Redrive(context.WithoutCancel(ctx), id)
}

func (h hungStore) Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error) {
	<-h.release
	return h.Store.Redrives(context.WithoutCancel(ctx), q)
}

func (h hungStore) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	<-h.release
	return h.Store.RedriveItems(context.WithoutCancel(ctx), id, q)
}

func (h hungStore) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	<-h.release
	return h.Store.Trail(context.WithoutCancel(ctx), q)
}

// A store that hangs costs the client no more than the request's time, and what
// the handler says later reaches nobody.
func TestRequestTimeout_StoreThatHangs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path string }{
		{"GET", "/api/v1/dlq/orders.dlq.v1"},
		{"GET", "/api/v1/dlq/messages/" + idA.String()},
		{"GET", "/api/v1/dlq/messages/" + idA.String() + "/payload"},
		{"GET", "/api/v1/dlq/messages/" + idA.String() + "/history"},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/requeue"},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/dead"},
		{"DELETE", "/api/v1/dlq/messages/" + idA.String()},
		{"GET", "/api/v1/redrives"},
		{"GET", "/api/v1/redrives/" + idA.String()},
		{"GET", "/api/v1/redrives/" + idA.String() + "/items"},
		{"POST", "/api/v1/redrives/" + idA.String() + "/pause"},
		{"POST", "/api/v1/redrives/" + idA.String() + "/resume"},
		{"POST", "/api/v1/redrives/" + idA.String() + "/cancel"},
		{"GET", "/api/v1/audit"},
		{"GET", "/api/v1/messages"},
		{"GET", "/api/v1/archive"},
		{"GET", "/api/v1/archive/" + idA.String()},
		{"POST", "/api/v1/archive/" + idA.String() + "/restore"},
		{"GET", "/api/v1/topics"},
		{"GET", "/api/v1/activity"},
		{"GET", "/api/v1/groups"},
		{"GET", "/api/v1/groups/" + idA.String()},
		{"GET", "/api/v1/mappings"},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(message(idA))
				hung := hungStore{f.memory, make(chan struct{})}
				f.store = hung
				f.redriver = redriverFunc(func(context.Context) (entity.Redrive, error) {
					<-hung.release
					return entity.Redrive{}, nil
				})
				began := time.Now()
				w := f.open().do(c.method, c.path, "")
				if took := time.Since(began); took != f.cfg.RequestTimeout {
					t.Errorf("answered after %s, want %s", took, f.cfg.RequestTimeout)
				}
				want := errorJSON(codeUnavailable, unavailableText, "[]")
				wantAnswer(t, w, http.StatusServiceUnavailable, want)
				wantHeader(t, w.Header(), "Retry-After", "5")
				close(hung.release)
				synctest.Wait() // the handler comes to its end and has nobody to tell
				wantAnswer(t, w, http.StatusServiceUnavailable, want)
				wantHeader(t, w.Header(), "Content-Disposition", "")
			})
		})
	}
}

// Probes have limits of their own and say more than that there is no answer.
func TestRequestTimeout_ProbesLimitThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFixture()
		f.cfg.RequestTimeout = probeTimeout / 2
		f.checks = []Check{{Name: "database", Required: true, Probe: func(context.Context) error { <-release; return nil }}}
		wantAnswer(t, f.open().do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{"database":"failed"}}`)
		close(release)
	})
}

// An answer that has begun is not cut short by the request's time: only the
// client holds it up, and that has its own limit.
func TestRequestTimeout_AnswerThatHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA)).open()
		w := &slowWriter{ResponseRecorder: httptest.NewRecorder()}
		f.server.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/dlq/messages/"+idA.String(), nil))
		if w.Code != http.StatusOK || w.Body.String() != alone(messageA) {
			t.Errorf("got %d %s, want the whole message", w.Code, w.Body)
		}
	})
}

type slowWriter struct{ *httptest.ResponseRecorder }

func (w *slowWriter) Write(b []byte) (int, error) {
	<-time.After(time.Minute)
	return w.ResponseRecorder.Write(b)
}

// A panic of a handler that is answered for by another goroutine is still one
// answer, and not the end of the program.
func TestPanicOfAStoreIsAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.store = panickingStore{f.memory}
	wantAnswer(t, f.open().do("GET", "/api/v1/dlq/orders.dlq.v1", ""), 500, errorJSON(codeInternal, "internal error", "[]"))
}

type panickingStore struct{ *fake.Store }

func (panickingStore) List(context.Context, string, repository.Page) (repository.List, error) {
	panic("secret")
}

// Over a real connection: the timeout's answer leaves the connection usable.
func TestServe_RequestTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.cfg.RequestTimeout = 50 * time.Millisecond
	hung := hungStore{f.memory, make(chan struct{})}
	defer close(hung.release)
	f.store = hung
	url, _, _ := f.open().serve(t)
	for range 3 {
		response, err := http.Get(url + "/api/v1/dlq/orders.dlq.v1")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable || err != nil || !strings.Contains(string(body), codeUnavailable) {
			t.Errorf("got %d %s, %v, want 503 in the envelope", response.StatusCode, body, err)
		}
	}
}
