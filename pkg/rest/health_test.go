package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// dependency fails while err is set, and counts its probes.
type dependency struct {
	err   error
	asked int
}

func (d *dependency) probe(context.Context) error { d.asked++; return d.err }

// healthFixture returns a server of these checks, and the time that the server's clock shows.
func healthFixture(checks ...Check) (f *fixture, now *time.Time) {
	f, now = newFixture(), new(noon)
	f.checks = checks
	f.open()
	f.server.health.now = func() time.Time { return *now }
	return f, now
}

func TestAlive(t *testing.T) {
	t.Parallel()
	broken := &dependency{err: errors.New("down")}
	f := newFixture()
	logs := f.logs(zap.ErrorLevel)
	f.checks = []Check{{Name: "database", Probe: broken.probe, Required: true}}
	var stalled error
	f.with(WithLiveness(func() error { return stalled })).undocumented()
	wantAnswer(t, f.starting().do("GET", "/healthz", ""), 200, `{"status":"ok"}`)
	f.server.phase.Store(draining)
	wantAnswer(t, f.do("GET", "/healthz", ""), 200, `{"status":"ok"}`)
	if broken.asked != 0 {
		t.Errorf("healthz asked a dependency %d times, want 0", broken.asked)
	}
	stalled = errors.New("the loop hangs") // only a restart repairs this error, and the answer does not show its text
	wantAnswer(t, f.do("GET", "/healthz", ""), 503, `{"status":"stalled"}`)
	if logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()["error"]), "hangs") {
		t.Errorf("logged %v, want one line that says why", logs.All())
	}
}

func TestReadiness_OneFailureIsForgivenTwoAreNot(t *testing.T) {
	t.Parallel()
	db := &dependency{}
	f, now := healthFixture(Check{Name: "database", Probe: db.probe, Required: true},
		// Kafka is not required: the answer only shows its failure.
		Check{Name: "kafka", Probe: (&dependency{err: errBroken}).probe},
		Check{Name: "store", Probe: (&dependency{}).probe, Passed: "in memory"})
	for _, step := range []struct {
		err    error
		status int
		body   string
	}{
		{nil, 200, `{"status":"ready","checks":{"database":"ok"`},
		{errBroken, 200, `{"status":"ready","checks":{"database":"failed"`},
		{nil, 200, `{"status":"ready","checks":{"database":"ok"`},
		{errBroken, 200, `{"status":"ready","checks":{"database":"failed"`},
		{errBroken, 503, `{"status":"not_ready","checks":{"database":"failed"`},
		{errBroken, 503, `{"status":"not_ready","checks":{"database":"failed"`},
		{nil, 200, `{"status":"ready","checks":{"database":"ok"`},
	} {
		db.err = step.err
		*now = now.Add(probeEvery)
		wantAnswer(t, f.do("GET", "/readyz", ""), step.status, step.body+`,"kafka":"failed","store":"in memory"}}`)
	}
}

// The answer shows only errors that the check calls public; the log contains all errors. A check that has never passed
// makes the program unready.
func TestReadiness_OtherErrorsArePrivate(t *testing.T) {
	t.Parallel()
	schema := Check{Name: "schema", Required: true, Public: func(err error) bool { return errors.Is(err, errOldSchema) }}
	f, now := healthFixture()
	logs := f.logs(zap.WarnLevel)
	for err, text := range map[error]string{
		errOldSchema: "schema version is 2, want 5", errors.New("connect to database db.internal:5432/x: refused"): "failed",
	} {
		schema.Probe = (&dependency{err: err}).probe
		f.checks = []Check{schema}
		wantAnswer(t, f.open().do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{"schema":"`+text+`"}}`)
		*now = now.Add(probeEvery)
	}
	if lines := fmt.Sprint(logs.All()); logs.Len() != 2 || !strings.Contains(lines, "db.internal:5432") {
		t.Errorf("log = %s, want a line with each cause", lines)
	}
}

var errOldSchema = errors.New("schema version is 2, want 5")

// A driver may ignore its context and wait for a silent server. The answer comes at the limit, the probe counts as
// failed until it returns, and no second probe is started meanwhile.
func TestReadiness_ProbeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		h := newHealth([]Check{{Name: "database", Required: true, Probe: func(context.Context) error {
			asked.Add(1)
			<-release
			return nil
		}}, {Name: "kafka", Probe: (&dependency{}).probe}}, func() bool { return true }, zap.NewNop())
		wantLook := func(ready bool, database string, took time.Duration) {
			t.Helper()
			began := time.Now()
			well, texts := h.query(t.Context())
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

func TestReadiness_DependenciesAreAskedOnceASecond(t *testing.T) {
	t.Parallel()
	db := &dependency{}
	f, now := healthFixture(Check{Name: "database", Probe: db.probe, Required: true})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { f.do("GET", "/readyz", "") })
	}
	all.Wait()
	once := db.asked
	*now = now.Add(probeEvery)
	f.do("GET", "/readyz", "")
	if once != 1 || db.asked != 2 {
		t.Errorf("asked %d times within a second, and %d after one, want 1 and 2", once, db.asked)
	}
}

// When the prober disconnects, the database still counts as available. A probe that panics counts as failed.
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
	if well, texts := f.server.health.query(gone); !well {
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
		wantEnvelope(t, w, 503)
		wantHeader(t, w.Header(), "Retry-After", "5")
	}
	wantEnvelope(t, f.do("GET", "/nowhere", ""), 404)
	f.server.SetReady()
	wantAnswer(t, f.do("GET", "/readyz", ""), 200, `{"status":"ready","checks":{}}`)
	wantStatus(t, f.do("GET", oneA, ""), 200)
	f.server.phase.Store(draining)
	f.server.SetReady()
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{}}`)
}
