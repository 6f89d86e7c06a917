package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// dependency fails while err is set, and counts how often it was asked.
type dependency struct {
	err   error
	asked int
}

func (d *dependency) probe(context.Context) error { d.asked++; return d.err }

func healthFixture(checks ...Check) (*fixture, *clock) {
	f := newFixture()
	f.checks = checks
	f.open()
	c := &clock{now: noon}
	f.server.health.now = c.read
	return f, c
}

func TestAlive(t *testing.T) {
	t.Parallel()
	broken := &dependency{err: errors.New("down")}
	f := newFixture()
	f.checks = []Check{{Name: "database", Probe: broken.probe, Required: true}}
	wantAnswer(t, f.starting().do("GET", "/healthz", ""), 200, `{"status":"ok"}`)
	f.server.phase.Store(draining)
	wantAnswer(t, f.do("GET", "/healthz", ""), 200, `{"status":"ok"}`)
	if broken.asked != 0 {
		t.Errorf("healthz asked a dependency %d times, want 0", broken.asked)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	f, _ := healthFixture(Check{Name: "database", Probe: (&dependency{}).probe, Required: true},
		Check{Name: "store", Probe: (&dependency{}).probe, Passed: "in memory"})
	wantAnswer(t, f.do("GET", "/readyz", ""), 200, `{"status":"ready","checks":{"database":"ok","store":"in memory"}}`)
	f, _ = healthFixture()
	wantAnswer(t, f.do("GET", "/readyz", ""), 200, `{"status":"ready","checks":{}}`)
}

func TestReadiness_OneFailureIsForgivenTwoAreNot(t *testing.T) {
	t.Parallel()
	db := &dependency{}
	f, now := healthFixture(Check{Name: "database", Probe: db.probe, Required: true})
	const ok, failed = `{"database":"ok"}}`, `{"database":"failed"}}`
	for i, step := range []struct {
		err    error
		status int
		body   string
	}{
		{nil, 200, `{"status":"ready","checks":` + ok},
		{errBroken, 200, `{"status":"ready","checks":` + failed},
		{nil, 200, `{"status":"ready","checks":` + ok},
		{errBroken, 200, `{"status":"ready","checks":` + failed},
		{errBroken, 503, `{"status":"not_ready","checks":` + failed},
		{errBroken, 503, `{"status":"not_ready","checks":` + failed},
		{nil, 200, `{"status":"ready","checks":` + ok},
	} {
		db.err = step.err
		now.move(probeEvery)
		t.Logf("step %d", i)
		wantAnswer(t, f.do("GET", "/readyz", ""), step.status, step.body)
	}
}

func TestReadiness_NeverPassedIsNotReady(t *testing.T) {
	t.Parallel()
	f, _ := healthFixture(Check{
		Name: "schema", Required: true,
		Probe:  func(context.Context) error { return errOldSchema },
		Public: func(err error) bool { return errors.Is(err, errOldSchema) },
	})
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{"schema":"schema version is 2, want 5"}}`)
}

var errOldSchema = errors.New("schema version is 2, want 5")

// Only what the check calls public is read by everybody; the log has the rest.
func TestReadiness_OtherErrorsArePrivate(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	f := newFixture()
	f.logger = zap.New(core)
	f.checks = []Check{{
		Name: "schema", Required: true,
		Probe:  func(context.Context) error { return errors.New("connect to database db.internal:5432/x: refused") },
		Public: func(err error) bool { return errors.Is(err, errOldSchema) },
	}}
	wantAnswer(t, f.open().do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{"schema":"failed"}}`)
	if logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()["error"]), "db.internal:5432") {
		t.Errorf("log = %v, want one line with the cause", logs.All())
	}
}

// A driver may wait for a silent server whatever its context says. The answer
// comes at the limit, the probe counts as failed until it returns, and no second
// one is started beside it.
func TestReadiness_ProbeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		h := newHealth([]Check{{Name: "database", Required: true, Probe: func(context.Context) error {
			asked.Add(1)
			<-release
			return nil
		}}, {Name: "kafka", Probe: (&dependency{}).probe}}, zap.NewNop())
		wantLook := func(ready bool, database string, took time.Duration) {
			t.Helper()
			began := time.Now()
			well, texts := h.look(t.Context())
			if well != ready || texts["database"] != database || texts["kafka"] != "ok" || time.Since(began) != took {
				t.Errorf("look = %t, %v after %s, want %t, database %s, kafka ok after %s", well, texts, time.Since(began), ready, database, took)
			}
		}
		wantLook(false, "failed", probeTimeout)
		for range 3 {
			<-time.After(probeEvery)
			wantLook(false, "failed", 0)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the probe was started %d times, want once while it hangs", n)
		}
		close(release)
		<-time.After(probeEvery)
		wantLook(true, "ok", 0)
	})
}

func TestReadiness_OptionalDependencyIsShownOnly(t *testing.T) {
	t.Parallel()
	f, now := healthFixture(Check{Name: "kafka", Probe: (&dependency{err: errBroken}).probe})
	for range 3 {
		now.move(probeEvery)
		wantAnswer(t, f.do("GET", "/readyz", ""), 200, `{"status":"ready","checks":{"kafka":"failed"}}`)
	}
}

func TestReadiness_DependenciesAreAskedOnceASecond(t *testing.T) {
	t.Parallel()
	db := &dependency{}
	f, now := healthFixture(Check{Name: "database", Probe: db.probe, Required: true})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { f.do("GET", "/readyz", "") })
	}
	all.Wait()
	if db.asked != 1 {
		t.Errorf("asked %d times within a second, want 1", db.asked)
	}
	now.move(probeEvery)
	f.do("GET", "/readyz", "")
	if db.asked != 2 {
		t.Errorf("asked %d times after a second, want 2", db.asked)
	}
}

// A prober that hangs up says nothing about the database; a probe that panics
// says that it failed.
func TestReadiness_Probes(t *testing.T) {
	t.Parallel()
	f, _ := healthFixture(Check{Name: "database", Required: true, Probe: func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			return errors.New("no deadline")
		}
		return ctx.Err()
	}})
	gone, leave := context.WithCancel(t.Context())
	leave()
	if well, texts := f.server.health.look(gone); !well {
		t.Errorf("look of a prober that left = %v, want ready", texts)
	}
	f, _ = healthFixture(Check{Name: "database", Required: true, Probe: func(context.Context) error { panic("x") }})
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{"database":"failed"}}`)
}

func TestStarting(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).starting()
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{}}`)
	for _, rt := range f.server.apiRoutes() {
		target := strings.NewReplacer("{topic}", "orders.dlq.v1", "{id}", idA.String()).Replace(rt.path)
		w := f.do(rt.method, target, "")
		wantEnvelope(t, w, 503, codeUnavailable)
		wantHeader(t, w.Header(), "Retry-After", "5")
	}
	wantEnvelope(t, f.do("GET", "/nowhere", ""), 404, codeNotFound)
	f.server.SetReady()
	wantAnswer(t, f.do("GET", "/readyz", ""), 200, `{"status":"ready","checks":{}}`)
	if w := f.do("GET", "/api/v1/dlq/messages/"+idA.String(), ""); w.Code != 200 {
		t.Errorf("GET once ready = %d, want 200", w.Code)
	}
	f.server.phase.Store(draining)
	f.server.SetReady()
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{}}`)
}

// What only a restart mends is told where the kubelet asks, and why in the log
// alone.
func TestAlive_Stalled(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.ErrorLevel)
	var stalled error
	server := NewProbes(DefaultConfig(), nil, prometheus.NewRegistry(), zap.New(core),
		WithLiveness(func() error { return stalled }))
	ask := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		server.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		return answer
	}
	if got := ask(); got.Code != http.StatusOK {
		t.Errorf("got %d %s, want 200", got.Code, got.Body)
	}
	stalled = errors.New("the loop hangs")
	if got := ask(); got.Code != http.StatusServiceUnavailable || strings.Contains(got.Body.String(), "hangs") {
		t.Errorf("got %d %s, want 503 without the reason", got.Code, got.Body)
	}
	if logged.Len() != 1 {
		t.Errorf("got %d lines, want one that says why", logged.Len())
	}
}
