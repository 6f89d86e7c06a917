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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
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

// receiver is an HTTP server that gets the notifications of a sink. The function answer writes its answers.
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

// taken returns the requests that the receiver got since the last call of taken.
func (r *receiver) taken() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// want checks the number of requests that the receiver got since the last call of taken or want, and returns these
// requests.
func (r *receiver) want(t *testing.T, what string, n int) []received {
	t.Helper()
	got := r.taken()
	if len(got) != n {
		t.Fatalf("%s: got %d requests %v, want %d", what, len(got), got, n)
	}
	return got
}

// world holds a store and a notifier; the test calls the notifier's steps one by one.
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

// start makes a new notifier on the same store, as if the process had been killed and started again.
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

// deliver sends every due notification to its sink, as fast as its pace allows.
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

// pass collects the new events and then delivers their notifications, when their window is over.
func (w *world) pass() {
	w.Helper()
	w.collect()
	w.clock.advance(w.cfg.Window)
	w.deliver()
}

// dead stores n messages of the original topic and marks them as DEAD, as an operator does.
func (w *world) dead(topic string, n int) []uuid.UUID {
	w.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = w.put(topic, entity.Fingerprint{})
		w.kill(ids[i])
	}
	return ids
}

// put stores a PENDING message of the original topic; if f has a class, the message belongs to the error group of f.
func (w *world) put(topic string, f entity.Fingerprint) uuid.UUID {
	w.Helper()
	m := entity.NewMessage(topic, "boom", w.clock.Now())
	m.Record.Key, m.Record.Value = []byte("key-4711"), []byte(`{"card":"4711"}`)
	if f.Class != "" {
		m.Group = f.ID()
		if err := w.store.SaveFingerprints(w.Context(), []entity.Fingerprint{f}); err != nil {
			w.Fatal(err)
		}
	}
	w.store.Insert(m)
	return m.ID
}

func (w *world) kill(id uuid.UUID) {
	w.Helper()
	if _, err := w.store.MarkDead(w.Context(), id, entity.By("alice")); err != nil {
		w.Fatal(err)
	}
}

func (w *world) chores() {
	w.Helper()
	if err := w.notifier.chores(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func hook(name string, r *receiver) SinkConfig {
	return SinkConfig{Name: name, Type: TypeWebhook, URL: r.URL + "/hook"}
}

func TestNotifier(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(w *world, r *receiver){
		"TellsManyOfTheSameAtOnce": func(w *world, r *receiver) {
			ids := w.dead("orders", 12)
			w.dead("payments", 1)
			w.pass()
			events := map[string]data{}
			for _, g := range r.want(w.T, "one a topic", 2) {
				var e cloudEvent
				if err := json.Unmarshal([]byte(g.body), &e); err != nil {
					w.Fatal(err)
				}
				events[e.Subject] = e.Data
			}
			if got := events["orders"]; got.Events != 12 || !slices.Equal(got.MessageIDs, ids[:repository.MaxNotificationMessages]) {
				w.Errorf("got %+v, want 12 with the first messages", got)
			}
			if events["payments"].Events != 1 {
				w.Errorf("got %+v, want 1", events["payments"])
			}
			w.pass()
			r.want(w.T, "again", 0)
		},
		"IsNotRepeatedSoon": func(w *world, r *receiver) {
			for range 10 {
				w.dead("orders", 1)
				w.pass()
			}
			r.want(w.T, "in five minutes", 1)
			w.clock.advance(w.cfg.Repeat)
			w.pass()
			if got := r.want(w.T, "later", 1); !strings.Contains(got[0].body, `"events":9`) {
				w.Errorf("got %v, want the other nine", got)
			}
		},
		"SaysNothingOfMutedGroups": func(w *world, r *receiver) {
			f := entity.Fingerprint{Class: "E", Title: "out of stock"}
			ids := []uuid.UUID{w.put("alpha", f), w.put("beta", f)}
			w.mute(f, "alpha")
			for _, id := range ids {
				w.kill(id)
			}
			w.pass()
			if said := fmt.Sprint(r.taken()); !strings.Contains(said, "beta") || strings.Contains(said, "alpha") {
				w.Errorf("got %s, want what is of beta alone", said)
			}
			later := w.put("gamma", f)
			w.mute(f)
			w.clock.advance(w.cfg.Repeat)
			w.kill(later)
			w.pass()
			r.want(w.T, "of a group that is muted for all topics", 0)
		},
		"LosesNothingWhenItIsKilled": func(w *world, r *receiver) {
			w.dead("orders", 1)
			w.start() // the process is killed before it has stored any notification
			w.collect()
			w.start() // the process is killed before it has sent any notification
			w.clock.advance(w.cfg.Window)
			s := w.notifier.sinks[0]
			n, found, err := w.store.ClaimNotification(w.Context(), repository.NotificationClaim{Sink: "ops", ID: uuid.New(), Lease: time.Minute, Pace: s.pace})
			if err != nil || !found {
				w.Fatalf("ClaimNotification = %v, %v, want one", found, err)
			}
			if err := s.sender.send(w.Context(), n); err != nil {
				w.Fatal(err)
			}
			w.start() // the process is killed after the request, before it has stored the success
			w.clock.advance(2 * time.Minute)
			w.deliver()
			if got := r.want(w.T, "both times", 2); got[0].header.Get(headerID) != got[1].header.Get(headerID) || got[0].body != got[1].body {
				w.Errorf("got %v, want the same twice", got)
			}
		},
		"TriesAgainAndWaitsLonger": func(w *world, r *receiver) {
			r.answers(http.StatusServiceUnavailable, "later")
			w.dead("orders", 1)
			w.dead("payments", 1)
			w.pass()
			r.want(w.T, "at once, with the sink left alone after the first", 1)
			for range 60 {
				w.clock.advance(time.Second)
				w.deliver()
			}
			if tries := len(r.taken()); tries < 2 || tries > 6 {
				w.Errorf("got %d tries in a minute, want a few", tries)
			}
			r.answers(http.StatusOK, "")
			for range 3 {
				w.clock.advance(w.cfg.BackoffMax)
				w.deliver()
			}
			r.want(w.T, "when the sink was back", 2)
		},
		"WaitsAsLongAsItIsAsked": func(w *world, r *receiver) {
			r.answers(http.StatusTooManyRequests, "", "Retry-After", "120")
			w.dead("orders", 1)
			w.pass()
			w.clock.advance(100 * time.Second)
			w.deliver()
			r.want(w.T, "in 100 of 120 seconds", 1)
			w.clock.advance(30 * time.Second)
			w.deliver()
			r.want(w.T, "after them", 1)
		},
		"GivesUpSomeDay": func(w *world, r *receiver) {
			r.answers(http.StatusNotFound, "no_service")
			w.dead("orders", 1)
			w.pass()
			w.chores()
			w.want("dlq_notification_attempts_total", 1)
			w.want("dlq_notifications_waiting", 1)
			waited := w.value("dlq_notification_oldest_waiting_seconds")
			w.clock.advance(w.cfg.GiveUp / 2)
			w.chores()
			w.want("dlq_notification_oldest_waiting_seconds", waited+(w.cfg.GiveUp/2).Seconds())
			w.clock.advance(w.cfg.GiveUp - w.cfg.GiveUp/2)
			w.chores()
			w.want("dlq_notifications_given_up_total", 1)
			w.want("dlq_notifications_waiting", 0)
			given := w.logs.FilterMessage("a notification was given up").All()
			if len(given) != 1 || !strings.Contains(given[0].ContextMap()["last_error"].(string), "answered 404, with a body of 10 bytes or more") {
				w.Errorf("got log lines %v, want one with the receiver's status", given)
			}
			if problems, err := testutil.GatherAndLint(w.registry); err != nil || len(problems) > 0 {
				w.Errorf("lint: %v, %v", problems, err)
			}
		},
		"DoesNotTellOfLongAgo": func(w *world, r *receiver) {
			w.dead("orders", 1)
			w.clock.advance(w.cfg.GiveUp - time.Second) // no notifier ran, so the first event becomes too old
			w.dead("payments", 1)
			w.clock.advance(2 * time.Second)
			w.start()
			w.pass()
			if got := fmt.Sprint(r.taken()); strings.Contains(got, `"orders"`) {
				w.Errorf("got %s of a day ago", got)
			}
		},
		"SeveralProcessesTellOnce": func(w *world, r *receiver) {
			w.dead("orders", 5)
			notifiers := []*Notifier{w.notifier, nil}
			w.start()
			notifiers[1] = w.notifier
			together := func(do func(n *Notifier) (bool, error)) {
				var both sync.WaitGroup
				for _, n := range notifiers {
					both.Go(func() {
						if _, err := do(n); err != nil {
							w.Error(err)
						}
					})
				}
				both.Wait()
			}
			together(func(n *Notifier) (bool, error) { return n.collect(w.Context(), true) })
			w.clock.advance(w.cfg.Window)
			together(func(n *Notifier) (bool, error) { return n.deliver(w.Context(), n.sinks[0]) })
			if got := r.want(w.T, "of both", 1); !strings.Contains(got[0].body, `"events":5`) {
				w.Errorf("got %v, want one of 5", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			test(newWorld(t, hook("ops", r)), r)
		})
	}
}

// mute mutes the error group of f for the given topics, or for all topics if none is given.
func (w *world) mute(f entity.Fingerprint, topics ...string) {
	w.Helper()
	var scope *entity.TopicPatterns
	if len(topics) > 0 {
		patterns, err := entity.ParseTopicPatterns("topics", topics...)
		if err != nil {
			w.Fatal(err)
		}
		scope = &patterns
	}
	if _, err := w.store.AnnotateGroup(w.Context(), f.ID(), repository.Annotation{Muted: new(true)}, scope, entity.By("alice")); err != nil {
		w.Fatal(err)
	}
}

func TestNotifier_TellsEachSinkWhatItWants(t *testing.T) {
	t.Parallel()
	orders, spikes, all := newReceiver(t), newReceiver(t), newReceiver(t)
	gone, chat := newReceiver(t), newReceiver(t)
	gone.Close()
	first, second := hook("orders", orders), hook("spikes", spikes)
	first.Topics, second.Kinds = []string{"orders*"}, []string{"spike"}
	w := newWorld(t, hook("gone", gone), first, second, hook("all", all), SinkConfig{Name: "chat", Type: TypeSlack, URL: chat.URL})
	w.dead("orders-eu", 1)
	w.dead("payments", 1)
	w.dead("", 1) // the message's original topic is unknown
	w.pass()
	orders.want(t, "the sink of a topic", 1)
	spikes.want(t, "the sink of another kind", 0)
	for _, g := range append(all.want(t, "the sink of everything, although another one is dead", 3), chat.want(t, "the chat", 3)...) {
		if strings.Contains(g.body, "4711") {
			t.Errorf("%s holds something of the record", g.body)
		}
	}
	for _, e := range w.logs.All() {
		if text := e.Message + e.ContextMap()["error"].(string); strings.Contains(text, "/hook") {
			t.Errorf("%q shows the URL", text)
		}
	}
}

func TestNotifier_RunsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	came := make(chan struct{}, 10)
	r.answer = func(http.ResponseWriter) { came <- struct{}{} }
	w := newWorld(t, hook("ops", r))
	w.cfg.Interval, w.cfg.Window = 100*time.Millisecond, 0
	w.start()
	w.dead("orders", 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	over := make(chan struct{})
	go func() { w.notifier.Run(ctx); close(over) }()
	<-came
	stop()
	<-over

	n, err := New(DefaultConfig(), nil, prometheus.NewRegistry(), zap.NewNop()) // Run must not call the nil store
	check.NoError(t, err)
	n.Run(t.Context())
}

// want checks the sum of a metric.
func (w *world) want(name string, want float64) {
	w.Helper()
	if got := w.value(name); got != want {
		w.Errorf("%s = %g, want %g", name, got, want)
	}
}

// value returns the sum over all series of a metric.
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

func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
