package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// When the store hangs, a client waits no longer than the time limit of requests, and a later answer of the handler
// reaches no client.
func TestRequestTimeout_StoreThatHangs(t *testing.T) {
	t.Parallel()
	path := strings.NewReplacer("{topic}", "orders.dlq.v1", "{id}", idA.String())
	for _, rt := range newFixture().open().server.apiRoutes() {
		// Routes of other kinds have time limits of their own. Routes with the scope self use no store.
		if rt.kind != read && rt.kind != change || rt.permission.scope == self {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(message(idA)).with(WithShareGroups(told{known: true})).open()
			f.hang = make(chan struct{})
			began := time.Now()
			w := f.do(rt.method, path.Replace(rt.path), matrix[rt.method+" "+rt.path].body)
			if took := time.Since(began); took != f.cfg.RequestTimeout {
				t.Errorf("%s answered after %s, want %s", w.asked, took, f.cfg.RequestTimeout)
			}
			want := errorJSON(respond.CodeUnavailable, respond.UnavailableText, "[]")
			wantAnswer(t, w, http.StatusServiceUnavailable, want)
			wantHeader(t, w.Header(), "Retry-After", "5")
			close(f.hang)
			synctest.Wait() // the handler ends, and its answer is dropped
			wantAnswer(t, w, http.StatusServiceUnavailable, want)
			wantHeader(t, w.Header(), "Content-Disposition", "")
		})
	}
}

// Probes have time limits of their own. Their answer names the check that failed, instead of the timeout of requests.
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

// The time limit of requests does not cut an answer that has started. Only the client can delay such an answer, and
// slow clients have a limit of their own.
func TestRequestTimeout_AnswerThatHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA)).open()
		w := &slowWriter{ResponseRecorder: httptest.NewRecorder()}
		f.server.Handler().ServeHTTP(w, httptest.NewRequest("GET", oneA, nil))
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

// A real connection stays usable after the answer that says that the request timed out.
func TestServe_RequestTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.cfg.RequestTimeout = 50 * time.Millisecond
	f.hang = make(chan struct{})
	defer close(f.hang)
	url, _, _ := f.open().serve(t)
	for range 3 {
		if got := statusOf(t, url+"/api/v1/dlq/orders.dlq.v1"); got != http.StatusServiceUnavailable {
			t.Errorf("got %d, want 503", got)
		}
	}
}
