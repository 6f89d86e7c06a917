package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// fakeStore holds messages that wait and documents that were stored. It takes no
// text with "poison" in it.
type fakeStore struct {
	mu        sync.Mutex
	waiting   []entity.Message
	documents map[uuid.UUID]entity.Document
	looks     int
	batches   []int
	owner     uuid.UUID
	until     time.Time
	version   int64
	fail      error
	answers   int64
	stall     repository.CatalogueStall
	forgets   bool // documents do not make a message catalogued

	unclassified []entity.Message
	admits       []string // titles of groups
	classified   []repository.Classification

	takes  time.Duration // to store documents
	stored int
}

func (f *fakeStore) HoldCatalogue(_ context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return false, f.fail
	}
	if f.owner != owner && f.until.After(time.Now()) {
		return false, nil
	}
	f.owner, f.until, f.version = owner, time.Now().Add(lease), version
	return true, nil
}

func (f *fakeStore) Uncatalogued(_ context.Context, version int64, limit int, _, _ int64) ([]entity.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looks++; f.looks > 100_000 { // a worker that spins stops the bubble's clock: let it come to an end
		f.waiting = nil
	}
	if version != f.version {
		return nil, errors.New("another version")
	}
	return slices.Clone(f.waiting[:min(limit, len(f.waiting))]), f.fail
}

func (f *fakeStore) StoreDocuments(_ context.Context, _ int64, documents []entity.Document) error {
	f.mu.Lock()
	takes := f.takes
	f.mu.Unlock()
	if takes > 0 {
		<-time.After(takes) // not under the lock, which would hold up the bubble's clock
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	if slices.ContainsFunc(documents, func(d entity.Document) bool { return strings.Contains(d.Text, "poison") }) {
		return &entity.FieldError{Field: "text", Reason: "poison"}
	}
	f.stored += len(documents)
	f.batches = append(f.batches, len(documents))
	for _, d := range documents {
		f.documents[d.MessageID] = d
		if !f.forgets {
			f.waiting = slices.DeleteFunc(f.waiting, func(m entity.Message) bool { return m.ID == d.MessageID })
		}
	}
	return nil
}

func (f *fakeStore) Unclassified(_ context.Context, limit int, _ int64) ([]entity.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.unclassified[:min(limit, len(f.unclassified))]), f.fail
}

func (f *fakeStore) AdmitFingerprints(_ context.Context, failures []repository.TopicFailure) (refused []repository.TopicFailure, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, failure := range failures {
		if !slices.Contains(f.admits, failure.Title) {
			refused = append(refused, failure)
		}
	}
	return refused, f.fail
}

func (f *fakeStore) Classify(_ context.Context, moves []repository.Classification) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.classified = append(f.classified, moves...)
	f.unclassified = slices.DeleteFunc(f.unclassified, func(m entity.Message) bool {
		return slices.ContainsFunc(moves, func(c repository.Classification) bool { return c.MessageID == m.ID })
	})
	return f.fail
}

func (f *fakeStore) AnswerFrom(version int64) { f.answers = version }

func (f *fakeStore) CatalogueStall(context.Context) (repository.CatalogueStall, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stall, f.fail
}

func (f *fakeStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fixture runs one worker inside a synctest bubble.
type fixture struct {
	*Worker
	store *fakeStore
	lines *observer.ObservedLogs
	stop  func()
}

func start(t *testing.T, store *fakeStore, cfg Config) *fixture {
	t.Helper()
	masks, err := payload.NewMasks(payload.MaskConfig{Payload: []string{"$.secret"}})
	if err != nil {
		t.Fatal(err)
	}
	maker, err := fingerprint.New(fingerprint.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	core, lines := observer.New(zap.InfoLevel)
	decode := func(m entity.Message) (class, message, stack string) { return "E", m.ErrorMessage, "" }
	w := New(cfg, store, decode, maker, masks, func(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }, prometheus.NewRegistry(), zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	return &fixture{Worker: w, store: store, lines: lines, stop: func() { cancel(); <-done }}
}

func newStore(messages ...entity.Message) *fakeStore {
	return &fakeStore{waiting: messages, documents: map[uuid.UUID]entity.Document{}}
}

func message(text, value string) entity.Message {
	m := entity.NewMessage("orders", text, time.Now())
	m.Record = entity.Record{Key: []byte("k"), Value: []byte(value), Headers: []entity.Header{{Key: "a", Value: []byte("1")}, {Key: "null"}}}
	return m
}

func many(n int) []entity.Message {
	var all []entity.Message
	for i := range n {
		all = append(all, message(fmt.Sprintf("order %d", i), `{}`))
	}
	return all
}

// after lets the bubble's time go by.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestWorker_MakesDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		grouped := message("Order 2 Failed", `{"Name":"Ann","secret":"s3cret"}`)
		grouped.Group = uuid.New()
		large := message("too large", "")
		large.Record.Value, large.Record.State = nil, entity.ValueNotLoaded
		bare := message("Order 1 Failed", "Plain \x00Text")
		f := start(t, newStore(grouped, large, bare), DefaultConfig())
		after(time.Second)
		f.stop()

		got := f.store.documents
		for id, want := range map[uuid.UUID]string{
			grouped.ID: "order 2 failed\nname ann", large.ID: "too large", bare.ID: "order 1 failed", // masked: nobody knows what is in a text that is not JSON
		} {
			if got[id].Text != want {
				t.Errorf("text: got %q, want %q", got[id].Text, want)
			}
		}
		for name, want := range map[string]int64{
			"key": entity.KeyTerm([]byte("k")), "header": entity.HeaderTerm("a", nil), "header=": entity.HeaderTerm("a", []byte("1")),
			"null header": entity.HeaderTerm("null", []byte{}), "field": entity.FieldTerm("$.Name", `"Ann"`), "masked field": entity.FieldTerm("$.secret", `"s3cret"`),
		} {
			if !slices.Contains(got[grouped.ID].Terms, want) {
				t.Errorf("got no term of the %s", name)
			}
		}
		if got[grouped.ID].Fingerprint != nil {
			t.Errorf("got %+v, want no fingerprint where there is a group", got[grouped.ID].Fingerprint)
		}
		if p := got[bare.ID].Fingerprint; p == nil || p.Title != "Order <n> Failed" || p.Class != "E" {
			t.Errorf("got %+v, want the fingerprint of what was decoded", p)
		}
		if n := testutil.ToFloat64(f.metrics.documents); n != 3 {
			t.Errorf("got %v documents counted, want 3", n)
		}
	})
}

func TestWorker_WorksOffABacklogWithoutPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Batch = 10
		f := start(t, newStore(many(95)...), cfg)
		synctest.Wait()
		if n := len(f.store.documents); n != 0 && n < 90 {
			t.Errorf("got %d documents before any time went by", n)
		}
		after(10 * time.Millisecond)
		if n := len(f.store.documents); n != 95 {
			t.Errorf("got %d documents, want 95 at once", n)
		}
		f.stop()
	})
}

func TestWorker_LooksLessOftenWhenNothingComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), DefaultConfig())
		after(time.Hour)
		if n := f.store.looks; n < 1790 || n > 1810 {
			t.Errorf("got %d looks in an hour, want one every two seconds", n)
		}
		f.store.set(func() { f.store.waiting = many(3) })
		after(2 * time.Second)
		if n := len(f.store.documents); n != 3 {
			t.Errorf("got %d documents, want 3 within two seconds", n)
		}
		f.stop()
	})
}

func TestWorker_OnlyOneWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		a := start(t, store, DefaultConfig())
		after(time.Second)
		b := start(t, store, DefaultConfig())
		store.set(func() { store.waiting = many(5) })
		after(5 * time.Minute)
		if store.owner != a.owner {
			t.Error("got another owner, want the lease renewed")
		}
		a.stop()
		store.set(func() { store.waiting = many(5) })
		after(3 * time.Second)
		if store.owner != b.owner || len(store.documents) != 10 {
			t.Errorf("got %d documents, want the other to take over at once", len(store.documents))
		}
		b.stop()
	})
}

func TestWorker_OutlivesOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(many(3)...), DefaultConfig())
		after(time.Second)
		f.store.set(func() { f.store.fail, f.store.waiting = entity.ErrUnavailable, many(3) })
		after(10 * time.Minute)
		f.store.set(func() { f.store.fail = nil })
		after(3 * time.Second)
		f.stop()
		if n := len(f.store.documents); n != 6 {
			t.Errorf("got %d documents, want 6", n)
		}
		var got []string
		for _, l := range f.lines.All() {
			got = append(got, l.Message)
		}
		if len(got) != 2 || !strings.Contains(got[0], "cannot be catalogued") || !strings.Contains(got[1], "again") {
			t.Errorf("got %q, want one line when it goes and one when it is back", got)
		}
	})
}

func TestWorker_OneBadDocumentKeepsNobodyBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := message("poison", `{"a":1}`)
		messages := append(append(many(20), bad), many(20)...)
		f := start(t, newStore(messages...), DefaultConfig())
		after(time.Second)
		f.stop()
		if n := len(f.store.documents); n != 41 {
			t.Errorf("got %d documents, want 41", n)
		}
		if d := f.store.documents[bad.ID]; d.Fingerprint == nil || d.Text != "" || d.Terms != nil {
			t.Errorf("got %+v, want nothing but the group", d)
		}
	})
}

func TestWorker_DoesNotSpinOnWhatComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(many(5)...)
		store.forgets = true
		cfg := DefaultConfig()
		cfg.Batch = 5
		f := start(t, store, cfg)
		after(time.Minute)
		f.stop()
		if store.looks > 100 {
			t.Errorf("got %d looks in a minute, want some thirty", store.looks)
		}
	})
}

func TestWorker_ShowsItsLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := message("x", "{}")
		old.CreatedAt = time.Now().Add(-time.Hour)
		store := newStore(old)
		store.forgets = true
		f := start(t, store, DefaultConfig())
		after(time.Second)
		if lag := testutil.ToFloat64(f.metrics.lag); lag < 3600 || lag > 3605 {
			t.Errorf("got %v seconds, want an hour", lag)
		}
		store.set(func() { store.waiting = nil })
		after(5 * time.Second)
		if lag := testutil.ToFloat64(f.metrics.lag); lag != 0 {
			t.Errorf("got %v seconds, want 0", lag)
		}
		f.stop()
	})
}

func TestWorker_TellsOfATransactionThatHoldsItUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), DefaultConfig())
		after(time.Second)
		f.store.set(func() { f.store.stall = repository.CatalogueStall{Age: 9 * time.Minute, Holder: "process 7"} })
		after(2 * time.Minute)
		if age := testutil.ToFloat64(f.metrics.markAge); age != 540 || f.lines.Len() != 0 {
			t.Errorf("got %v seconds and %d lines, want 540 and none yet", age, f.lines.Len())
		}
		f.store.set(func() { f.store.stall.Age = 11 * time.Minute })
		after(150 * time.Minute)
		f.stop()
		if n := f.lines.Len(); n != 3 {
			t.Fatalf("got %d lines in two and a half hours, want one an hour: 3", n)
		}
		if line := f.lines.All()[0]; line.ContextMap()["holder"] != "process 7" {
			t.Errorf("got %v, want it to name who holds it up", line.ContextMap())
		}
	})
}

func TestWorker_SearchesAnswerFromItsOwnVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), DefaultConfig())
		if f.store.answers != f.Worker.version {
			t.Errorf("got answers from version %d, want %d before any search", f.store.answers, f.Worker.version)
		}
		f.stop()
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	masks, err := payload.NewMasks(payload.MaskConfig{Payload: []string{"$.a"}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, more := DefaultConfig(), DefaultConfig()
	more.PayloadBytes++
	seen := map[int64]bool{version(cfg, masks): true, version(cfg, nil): true, version(more, nil): true}
	if len(seen) != 3 || version(cfg, nil) != version(DefaultConfig(), nil) {
		t.Errorf("got %v, want a version for each masks and each size", seen)
	}
}

func TestConfig_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	err := Config{PayloadBytes: -1, Batch: 0, Interval: 0}.Validate()
	for _, want := range []string{"search.payload_bytes", "search.batch", "search.interval"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: got %v, want nil", err)
	}
}

func TestClassify_OnlyWhatIsAdmittedMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		store.unclassified = []entity.Message{message("alpha", ""), message("beta", ""), message("alpha", "")}
		for i := range store.unclassified {
			store.unclassified[i].Source.Topic = "orders.dlq"
		}
		store.admits = []string{"alpha"}
		w := start(t, store, DefaultConfig())
		synctest.Wait()
		store.set(func() {
			if len(store.classified) != 2 || len(store.unclassified) != 1 || store.classified[0].DLQTopic != "orders.dlq" {
				t.Errorf("classified %v, want the two messages whose group is admitted", store.classified)
			}
			store.admits = append(store.admits, "beta")
		})
		<-time.After(classifyInterval + maxWait)
		store.set(func() {
			if len(store.classified) != 3 || len(store.unclassified) != 0 {
				t.Errorf("classified %v, want the third message once its group is admitted", store.classified)
			}
		})
		w.stop()
	})
}
