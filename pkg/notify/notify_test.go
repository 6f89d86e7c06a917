package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// clock is set by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// received is one request to a receiver.
type received struct {
	path   string
	header http.Header
	body   string
}

// receiver is a sink's server. It answers what answer says.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []received
	answer func(w http.ResponseWriter)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, received{q.URL.Path, q.Header, string(body)})
		r.answer(w)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(status int, text string, header ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// taken returns what came since the last call.
func (r *receiver) taken() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// world is a store, and a notifier that the test moves step by step.
type world struct {
	*testing.T
	clock    *clock
	store    *fake.Store
	notifier *Notifier
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
	cfg      Config
	quiet    Quiet
}

func newWorld(t *testing.T, sinks ...SinkConfig) *world {
	t.Helper()
	w := &world{T: t, clock: &clock{now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}, cfg: DefaultConfig()}
	w.store = fake.New(w.clock.Now)
	w.cfg.Sinks, w.cfg.ConsoleURL = sinks, "https://dlq.example.com/"
	w.start()
	w.collect()
	w.clock.advance(time.Second)
	return w
}

// start puts another process in the place of the one before.
func (w *world) start() {
	w.Helper()
	if err := w.cfg.Validate(); err != nil {
		w.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	w.registry, w.logs = prometheus.NewRegistry(), logs
	n, err := New(w.cfg, w.store, w.registry, zap.New(core), WithQuiet(w.quiet))
	if err != nil {
		w.Fatal(err)
	}
	n.now, n.random = w.clock.Now, func() float64 { return 0.5 }
	w.notifier = n
}

func (w *world) collect() {
	w.Helper()
	for range 10 {
		more, err := w.notifier.collect(w.Context(), true)
		if err != nil {
			w.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// deliver sends to every sink what is due now, and as fast as its pace allows.
func (w *world) deliver() {
	w.Helper()
	for _, s := range w.notifier.sinks {
		for range 20 {
			worked, err := w.notifier.deliver(w.Context(), s)
			if err != nil {
				w.Fatal(err)
			}
			if !worked {
				break
			}
			w.clock.advance(s.pace)
		}
	}
}

// pass collects and, when the window is over, delivers.
func (w *world) pass() {
	w.Helper()
	w.collect()
	w.clock.advance(w.cfg.Window)
	w.deliver()
}

// dead puts n dead messages in, killed by hand.
func (w *world) dead(topic string, n int) []uuid.UUID {
	w.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		m := entity.NewMessage(topic, "boom", w.clock.Now())
		m.Record.Key, m.Record.Value = []byte("key-4711"), []byte(`{"card":"4711"}`)
		w.store.Insert(m)
		if _, err := w.store.GiveUp(w.Context(), m.ID, entity.By("alice")); err != nil {
			w.Fatal(err)
		}
		ids[i] = m.ID
	}
	return ids
}

func hook(name string, r *receiver) SinkConfig {
	return SinkConfig{Name: name, Type: TypeWebhook, URL: r.URL + "/hook"}
}

func TestNotifier(t *testing.T) {
	t.Parallel()

	t.Run("TellsManyOfTheSameAtOnce", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		ids := w.dead("orders", 12)
		w.dead("payments", 1)
		w.pass()
		got := r.taken()
		if len(got) != 2 {
			t.Fatalf("got %d notices, want one a topic", len(got))
		}
		events := map[string]cloudEvent{}
		for _, g := range got {
			var e cloudEvent
			if err := json.Unmarshal([]byte(g.body), &e); err != nil {
				t.Fatal(err)
			}
			events[e.Subject] = e
		}
		orders := events["orders"]
		if orders.Data.Events != 12 || len(orders.Data.MessageIDs) != repository.MaxNoticeMessages || orders.Data.MessageIDs[0] != ids[0] {
			t.Errorf("got %+v, want 12 with the first messages", orders.Data)
		}
		if events["payments"].Data.Events != 1 {
			t.Errorf("got %+v, want 1", events["payments"].Data)
		}
		w.pass()
		if got := r.taken(); len(got) > 0 {
			t.Errorf("got %d notices again, want none", len(got))
		}
	})

	t.Run("SaysNothingOfRecords", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r), SinkConfig{Name: "chat", Type: TypeSlack, URL: r.URL})
		w.dead("orders", 1)
		w.pass()
		got := r.taken()
		if len(got) != 2 {
			t.Fatalf("got %d notices, want 2", len(got))
		}
		for _, g := range got {
			if strings.Contains(g.body, "4711") {
				t.Errorf("%s holds something of the record", g.body)
			}
		}
	})

	t.Run("IsNotRepeatedSoon", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		for range 10 {
			w.dead("orders", 1)
			w.pass()
		}
		if got := len(r.taken()); got != 1 {
			t.Errorf("got %d notices in five minutes, want 1", got)
		}
		w.clock.advance(w.cfg.Repeat)
		w.pass()
		got := r.taken()
		if len(got) != 1 || !strings.Contains(got[0].body, `"events":9`) {
			t.Errorf("got %v, want one more of the other nine", got)
		}
	})

	t.Run("TellsEachSinkWhatItWants", func(t *testing.T) {
		t.Parallel()
		orders, spikes, all := newReceiver(t), newReceiver(t), newReceiver(t)
		first, second := hook("orders", orders), hook("spikes", spikes)
		first.Topics, second.Kinds = []string{"orders*"}, []string{"spike"}
		w := newWorld(t, first, second, hook("all", all))
		w.dead("orders-eu", 1)
		w.dead("payments", 1)
		w.dead("", 1) // nobody knows whose
		w.pass()
		if got := len(orders.taken()); got != 1 {
			t.Errorf("the sink of a topic got %d, want 1", got)
		}
		if got := len(spikes.taken()); got != 0 {
			t.Errorf("the sink of another kind got %d, want 0", got)
		}
		if got := len(all.taken()); got != 3 {
			t.Errorf("the sink of everything got %d, want 3", got)
		}
	})

	t.Run("SaysNothingOfMutedGroups", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		f := entity.Fingerprint{Class: "E", Title: "out of stock"}
		if err := w.store.NoteFingerprints(t.Context(), []entity.Fingerprint{f}); err != nil {
			t.Fatal(err)
		}
		m := entity.NewMessage("orders", "boom", w.clock.Now())
		m.Group = f.ID()
		w.store.Insert(m)
		if _, err := w.store.AnnotateGroup(t.Context(), f.ID(), repository.Annotation{Muted: new(true)}, nil, entity.By("alice")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.GiveUp(t.Context(), m.ID, entity.By("alice")); err != nil {
			t.Fatal(err)
		}
		w.pass()
		if got := r.taken(); len(got) > 0 {
			t.Errorf("got %v, want nothing", got)
		}
	})

	t.Run("TellsOfTopicsThatAreNotMuted", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		f := entity.Fingerprint{Class: "E", Title: "out of stock"}
		if err := w.store.NoteFingerprints(t.Context(), []entity.Fingerprint{f}); err != nil {
			t.Fatal(err)
		}
		ids := map[string]uuid.UUID{}
		for _, topic := range []string{"alpha", "beta"} {
			m := entity.NewMessage(topic, "boom", w.clock.Now())
			m.Group, ids[topic] = f.ID(), m.ID
			w.store.Insert(m)
		}
		alpha, err := entity.ParseTopicPatterns("topics", "alpha")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.AnnotateGroup(t.Context(), f.ID(), repository.Annotation{Muted: new(true)}, &alpha, entity.By("ann")); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if _, err := w.store.GiveUp(t.Context(), id, entity.By("ann")); err != nil {
				t.Fatal(err)
			}
		}
		w.pass()
		said := fmt.Sprint(r.taken())
		if !strings.Contains(said, "beta") || strings.Contains(said, "alpha") {
			t.Errorf("got %s, want what is of beta alone", said)
		}
	})

	t.Run("LosesNothingWhenItIsKilled", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		w.dead("orders", 1)
		w.start() // before anything was kept
		w.collect()
		w.start() // before anything was sent
		w.clock.advance(w.cfg.Window)
		s := w.notifier.sinks[0]
		n, found, err := w.store.ClaimNotice(t.Context(), repository.NoticeClaim{Sink: "ops", ID: uuid.New(), Lease: time.Minute, Pace: s.pace})
		if err != nil || !found {
			t.Fatalf("ClaimNotice = %v, %v, want one", found, err)
		}
		if err := s.sender.send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.start() // before it was kept that it was sent
		w.clock.advance(2 * time.Minute)
		w.deliver()
		got := r.taken()
		if len(got) != 2 || got[0].header.Get(headerID) != got[1].header.Get(headerID) || got[0].body != got[1].body {
			t.Errorf("got %v, want the same twice", got)
		}
	})

	t.Run("TriesAgainAndWaitsLonger", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		r.answers(http.StatusServiceUnavailable, "later")
		w := newWorld(t, hook("ops", r))
		w.dead("orders", 1)
		w.dead("payments", 1)
		w.pass()
		if got := len(r.taken()); got != 1 {
			t.Errorf("got %d tries at once, want the sink left alone behind the first", got)
		}
		tries := 0
		for range 60 {
			w.clock.advance(time.Second)
			w.deliver()
			tries += len(r.taken())
		}
		if tries < 2 || tries > 6 {
			t.Errorf("got %d tries in a minute, want a few", tries)
		}
		r.answers(http.StatusOK, "")
		for range 3 {
			w.clock.advance(w.cfg.BackoffMax)
			w.deliver()
		}
		if got := len(r.taken()); got != 2 {
			t.Errorf("got %d notices when the sink was back, want both", got)
		}
	})

	t.Run("WaitsAsLongAsItIsAsked", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		r.answers(http.StatusTooManyRequests, "", "Retry-After", "120")
		w := newWorld(t, hook("ops", r))
		w.dead("orders", 1)
		w.pass()
		w.clock.advance(100 * time.Second)
		w.deliver()
		if got := len(r.taken()); got != 1 {
			t.Errorf("got %d tries in 100 of 120 seconds, want 1", got)
		}
		w.clock.advance(30 * time.Second)
		w.deliver()
		if got := len(r.taken()); got != 1 {
			t.Errorf("got %d tries behind them, want 1", got)
		}
	})

	t.Run("ADeadSinkHoldsUpNoOther", func(t *testing.T) {
		t.Parallel()
		gone, r := newReceiver(t), newReceiver(t)
		gone.Close()
		w := newWorld(t, hook("gone", gone), hook("ops", r))
		w.dead("orders", 1)
		w.pass()
		if got := len(r.taken()); got != 1 {
			t.Errorf("got %d notices, want 1", got)
		}
		for _, e := range w.logs.All() {
			if text := e.Message + e.ContextMap()["error"].(string); strings.Contains(text, "/hook") {
				t.Errorf("%q shows the URL", text)
			}
		}
	})

	t.Run("GivesUpSomeDay", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		r.answers(http.StatusNotFound, "no_service")
		w := newWorld(t, hook("ops", r))
		w.dead("orders", 1)
		w.pass()
		if err := w.notifier.chores(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.want("dlq_notifications_waiting", 1)
		waited := w.value("dlq_notification_oldest_waiting_seconds")
		w.clock.advance(w.cfg.GiveUp / 2)
		if err := w.notifier.chores(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.want("dlq_notification_oldest_waiting_seconds", waited+(w.cfg.GiveUp/2).Seconds())
		w.clock.advance(w.cfg.GiveUp - w.cfg.GiveUp/2)
		if err := w.notifier.chores(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.want("dlq_notifications_given_up_total", 1)
		w.want("dlq_notifications_waiting", 0)
		given := w.logs.FilterMessage("a notification was given up").All()
		if len(given) != 1 || !strings.Contains(given[0].ContextMap()["last_error"].(string), "no_service") {
			t.Errorf("got log lines %v, want one with what the receiver said", given)
		}
	})

	t.Run("DoesNotTellOfLongAgo", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		w.dead("orders", 1)
		w.clock.advance(w.cfg.GiveUp - time.Second) // all processes were down
		w.dead("payments", 1)
		w.clock.advance(2 * time.Second)
		w.start()
		w.pass()
		for _, g := range r.taken() {
			if strings.Contains(g.body, `"orders"`) {
				t.Errorf("got %s of a day ago", g.body)
			}
		}
	})

	t.Run("SeveralProcessesTellOnce", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		w := newWorld(t, hook("ops", r))
		w.dead("orders", 5)
		first := w.notifier
		w.start()
		var both sync.WaitGroup
		for _, n := range []*Notifier{first, w.notifier} {
			both.Go(func() {
				if _, err := n.collect(t.Context(), true); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		w.clock.advance(w.cfg.Window)
		for _, n := range []*Notifier{first, w.notifier} {
			both.Go(func() {
				if _, err := n.deliver(t.Context(), n.sinks[0]); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got := r.taken(); len(got) != 1 || !strings.Contains(got[0].body, `"events":5`) {
			t.Errorf("got %v, want one of 5", got)
		}
	})

	t.Run("RunsUntilItIsStopped", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		came := make(chan struct{}, 10)
		r.answer = func(http.ResponseWriter) { came <- struct{}{} }
		cfg := DefaultConfig()
		cfg.Sinks, cfg.Interval, cfg.Window = []SinkConfig{hook("ops", r)}, 100*time.Millisecond, 0
		store := fake.New(time.Now)
		n, err := New(cfg, store, prometheus.NewRegistry(), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.collect(t.Context(), false); err != nil { // has it begin
			t.Fatal(err)
		}
		m := entity.NewMessage("orders", "boom", time.Now())
		store.Insert(m)
		if _, err := store.GiveUp(t.Context(), m.ID, entity.By("alice")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		over := make(chan struct{})
		go func() { n.Run(ctx); close(over) }()
		<-came
		stop()
		<-over
	})

	t.Run("NobodyToTellCostsNothing", func(t *testing.T) {
		t.Parallel()
		n, err := New(DefaultConfig(), nil, prometheus.NewRegistry(), zap.NewNop()) // asks no store
		if err != nil {
			t.Fatal(err)
		}
		n.Run(t.Context())
	})
}

// want holds the sum of a metric against a number.
func (w *world) want(name string, want float64) {
	w.Helper()
	if got := w.value(name); got != want {
		w.Errorf("%s = %g, want %g", name, got, want)
	}
}

// value is the sum over all series of a metric.
func (w *world) value(name string) (sum float64) {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	w.Errorf("there is no metric %s", name)
	return 0
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	w := newWorld(t, hook("ops", r))
	problems, err := testutil.GatherAndLint(w.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	w.dead("orders", 1)
	w.pass()
	w.want("dlq_notification_attempts_total", 1)
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
