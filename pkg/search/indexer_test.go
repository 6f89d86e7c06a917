package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// fakeStore has messages to index and the documents that were stored. It rejects text that contains "poison".
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
	stall     repository.IndexerStall
	forgets   bool // whether the store lists messages as not indexed even after their document was stored

	unclassified []entity.Message
	admits       []string // titles of the error groups that AdmitFingerprints accepts
	classified   []repository.Classification

	undecoded []repository.DeferredDecoding
	decodable []uuid.UUID // messages that Undecoded returns

	takes  time.Duration // time that StoreDocuments takes
	stored int
}

func (f *fakeStore) AcquireIndexerLease(_ context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
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

func (f *fakeStore) Unindexed(_ context.Context, version int64, limit int, _, _ int64) ([]entity.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looks++; f.looks > 100_000 { // a worker that polls without a pause would stop synctest's clock, so the test ends instead
		f.waiting = nil
	}
	if version != f.version {
		return nil, errors.New("another version")
	}
	return slices.Clone(f.waiting[:min(limit, len(f.waiting))]), f.fail
}

func (f *fakeStore) Undecoded(context.Context, int, int64, int64) (due []entity.Message, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.decodable {
		due = append(due, entity.Message{ID: id, ErrorMessage: "again", Record: entity.Record{Value: []byte("encoded")}})
	}
	return due, nil
}

func (f *fakeStore) DeferDecoding(_ context.Context, deferred []repository.DeferredDecoding) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undecoded = append(f.undecoded, deferred...)
	return nil
}

func (f *fakeStore) ForgetUndecoded(_ context.Context, ids []uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undecoded = slices.DeleteFunc(f.undecoded, func(d repository.DeferredDecoding) bool { return slices.Contains(ids, d.MessageID) })
	f.decodable = slices.DeleteFunc(f.decodable, func(id uuid.UUID) bool { return slices.Contains(ids, id) })
	return nil
}

func (f *fakeStore) CountUndecoded(context.Context) (int, error) { return len(f.undecoded), nil }

func (f *fakeStore) StoreDocuments(_ context.Context, _ int64, documents []entity.Document) error {
	f.mu.Lock()
	takes := f.takes
	f.mu.Unlock()
	if takes > 0 {
		<-time.After(takes) // waits without holding the lock, because synctest's clock stops while a goroutine waits for a lock
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

func (f *fakeStore) SetIndexVersion(version int64) { f.answers = version }

func (f *fakeStore) IndexerStall(context.Context) (repository.IndexerStall, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stall, f.fail
}

func (f *fakeStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fixture runs one worker within synctest.
type fixture struct {
	*Worker
	store *fakeStore
	lines *observer.ObservedLogs
	stop  func()
}

func start(t *testing.T, store *fakeStore, cfg Config, options ...Option) *fixture {
	t.Helper()
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.secret"}}))(t)
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(t)
	core, lines := observer.New(zap.InfoLevel)
	decode := func(m entity.Message) (class, message, stack string) { return "E", m.ErrorMessage, "" }
	w := New(cfg, store, decode, maker, masks, func(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }, prometheus.NewRegistry(), zap.New(core), options...)
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

// after advances synctest's clock by d.
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
			grouped.ID: "order 2 failed\nname ann", large.ID: "too large", bare.ID: "order 1 failed", // the value of bare is no JSON, so it is masked as a whole
		} {
			check.Same(t, got[id].Text, want, "text")
		}
		for name, want := range map[string]int64{
			"key": entity.KeyTerm([]byte("k")), "header": entity.HeaderTerm("a", nil), "header=": entity.HeaderTerm("a", []byte("1")),
			"null header": entity.HeaderTerm("null", []byte{}), "field": entity.FieldTerm("$.Name", `"Ann"`), "masked field": entity.FieldTerm("$.secret", `"s3cret"`),
		} {
			check.True(t, slices.Contains(got[grouped.ID].Terms, want), "got no term of the %s", name)
		}
		check.True(t, got[grouped.ID].Fingerprint == nil,
			"got %+v, want no fingerprint where there is a group", got[grouped.ID].Fingerprint)
		p := got[bare.ID].Fingerprint
		check.True(t, p != nil && p.Title == "Order <n> Failed" && p.Class == "E",
			"got %+v, want the fingerprint of what was decoded", p)
		check.Same(t, testutil.ToFloat64(f.metrics.documents), 3, "documents counted")
	})
}

func TestWorker_WorksOffABacklogWithoutPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Batch = 10
		f := start(t, newStore(many(95)...), cfg)
		synctest.Wait()
		n := len(f.store.documents)
		check.True(t, n == 0 || n >= 90, "got %d documents before any time went by", n)
		after(10 * time.Millisecond)
		check.Same(t, len(f.store.documents), 95, "documents, want 95 at once")
		f.stop()
	})
}

func TestWorker_LooksLessOftenWhenNothingComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), DefaultConfig())
		after(time.Hour)
		n := f.store.looks
		check.True(t, n >= 1790 && n <= 1810, "got %d looks in an hour, want one every two seconds", n)
		f.store.set(func() { f.store.waiting = many(3) })
		after(2 * time.Second)
		check.Same(t, len(f.store.documents), 3, "documents, want 3 within two seconds")
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
		check.True(t, store.owner == a.owner, "got another owner, want the lease renewed")
		a.stop()
		store.set(func() { store.waiting = many(5) })
		after(3 * time.Second)
		check.True(t, store.owner == b.owner && len(store.documents) == 10,
			"got %d documents, want the other to take over at once", len(store.documents))
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
		check.Same(t, len(f.store.documents), 6, "documents")
		var got []string
		for _, l := range f.lines.All() {
			got = append(got, l.Message)
		}
		check.True(t, len(got) == 2 && strings.Contains(got[0], "cannot be indexed") && strings.Contains(got[1], "again"),
			"got %q, want one line when it goes and one when it is back", got)
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
		check.Same(t, len(f.store.documents), 41, "documents")
		d := f.store.documents[bad.ID]
		check.True(t, d.Fingerprint != nil && d.Text == "" && d.Terms == nil, "got %+v, want nothing but the group", d)
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
		check.True(t, store.looks <= 100, "got %d looks in a minute, want some thirty", store.looks)
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
		lag := testutil.ToFloat64(f.metrics.lag)
		check.True(t, lag >= 3600 && lag <= 3605, "got %v seconds, want an hour", lag)
		store.set(func() { store.waiting = nil })
		after(5 * time.Second)
		check.Same(t, testutil.ToFloat64(f.metrics.lag), 0, "seconds")
		f.stop()
	})
}

func TestWorker_TellsOfATransactionThatHoldsItUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), DefaultConfig())
		after(time.Second)
		f.store.set(func() { f.store.stall = repository.IndexerStall{Age: 9 * time.Minute, Holder: "process 7"} })
		after(2 * time.Minute)
		age := testutil.ToFloat64(f.metrics.markAge)
		check.True(t, age == 540 && f.lines.Len() == 0, "got %v seconds and %d lines, want 540 and none yet", age, f.lines.Len())
		f.store.set(func() { f.store.stall.Age = 11 * time.Minute })
		after(150 * time.Minute)
		f.stop()
		n := f.lines.Len()
		check.Require(t, n == 3, "got %d lines in two and a half hours, want one an hour: 3", n)
		line := f.lines.All()[0]
		check.True(t, line.ContextMap()["holder"] == "process 7", "got %v, want it to name who holds it up", line.ContextMap())
	})
}

func TestWorker_SearchesAnswerFromItsOwnVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, newStore(), DefaultConfig())
		check.Same(t, f.store.answers, f.Worker.version, "answers from version, want before any search")
		f.stop()
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.a"}}))(t)
	cfg, more := DefaultConfig(), DefaultConfig()
	more.PayloadBytes++
	seen := map[int64]bool{version(cfg, masks, 0): true, version(cfg, nil, 0): true, version(more, nil, 0): true, version(cfg, nil, 1): true}
	check.True(t, len(seen) == 4 && version(cfg, nil, 0) == version(DefaultConfig(), nil, 0),
		"got %v, want a version for each masks, size and settings of schemas", seen)
}

func TestConfig_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	err := Config{PayloadBytes: -1, Batch: 0, Interval: 0}.Validate()
	for _, want := range []string{"search.payload_bytes", "search.batch", "search.interval"} {
		check.True(t, err != nil && strings.Contains(err.Error(), want), "got %v, want it to name %s", err, want)
	}
	check.NoError(t, DefaultConfig().Validate())
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
			check.True(t, len(store.classified) == 3 && len(store.unclassified) == 0,
				"classified %v, want the third message once its group is admitted", store.classified)
		})
		w.stop()
	})
}

func TestTerms_OfHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r := entity.Record{Headers: []entity.Header{{Key: "long", Value: bytes.Repeat([]byte("x"), maxHeaderValue+1)}}}
	check.Len(t, terms(&r, parts{}), 1, "terms, want only that of the name")
	for i := range 1000 {
		r.Headers = append(r.Headers, entity.Header{Key: fmt.Sprint("h", i), Value: []byte("v")})
	}
	check.Same(t, len(terms(&r, parts{})), 1+2*(maxHeaders-1), "terms")
}

func FuzzDocument(f *testing.F) {
	f.Add("no stock", []byte(`{"a":1}`), []byte("k"), "name", []byte("value"))
	f.Add("b\xffd\x00", []byte("\xff"), []byte(nil), "", []byte(nil))
	w := &Worker{cfg: Config{PayloadBytes: 100}, hidden: func(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }}
	f.Fuzz(func(t *testing.T, message string, value, key []byte, header string, headerValue []byte) {
		m := entity.Message{ErrorMessage: message, Record: entity.Record{Key: key, Value: value, Headers: []entity.Header{{Key: header, Value: headerValue}}}}
		text := w.text(&m, w.masks.Read(value, nil))
		check.True(t, utf8.ValidString(text) && !strings.Contains(text, "\x00") && len(text) <= 2*len(message)+200,
			"got the text %q", text)
		check.True(t, len(terms(&m.Record, parts{value: w.masks.Read(value, nil)})) != 0, "got no terms, want those of the header")
	})
}

// While more messages wait, the worker works without pauses. Under load it works at most half of the time, and leaves
// the other half to the database.
func TestWorker_GivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(many(5000)...)
		store.takes = time.Second
		load := &payloadQueue{}
		w := start(t, store, Config{PayloadBytes: 100, Batch: 10, Interval: 500 * time.Millisecond}, WithLoad(load))
		defer w.stop()
		<-time.After(time.Minute)
		var before int
		store.set(func() {
			before = store.stored
			check.True(t, before >= 580 && before <= 600, "got %d documents in a minute, want all 600", before)
		})
		load.crowded.Store(true)
		<-time.After(time.Minute)
		store.set(func() {
			got := store.stored - before
			check.True(t, got >= 280 && got <= 320, "got %d documents in a minute under load, want 300 of 600", got)
		})
	})
}

// payloadQueue is a PayloadStore with some batches of waiting messages. FillPayloads takes one second for a batch of
// 100 messages.
type payloadQueue struct {
	batches atomic.Int64
	crowded atomic.Bool
	away    atomic.Bool
}

func (q *payloadQueue) UnderLoad(context.Context) (bool, error) { return q.crowded.Load(), nil }

func (q *payloadQueue) FillPayloads(context.Context) (int, bool, error) {
	if q.away.Load() {
		return 0, false, errors.New("the database is away")
	}
	if q.batches.Load() == 0 {
		return 0, false, nil
	}
	<-time.After(time.Second)
	q.batches.Add(-1)
	return 100, true, nil
}

func (q *payloadQueue) PayloadLag(context.Context) (time.Duration, error) {
	return time.Duration(q.batches.Load()) * time.Minute, nil
}

// The PayloadFiller works without pauses. While the store is under load, it works only half of the time. After the
// database was unavailable, it continues.
func TestPayloadFiller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &payloadQueue{}
		core, logs := observer.New(zap.InfoLevel)
		f := NewPayloadFiller(DefaultConfig(), store, prometheus.NewRegistry(), zap.New(core))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()

		store.batches.Store(100)
		<-time.After(20 * time.Second)
		if left := store.batches.Load(); left > 82 {
			t.Errorf("%d batches are left after 20 s, want about 80", left)
		}
		if lag := testutil.ToFloat64(f.lag); lag < 80*60 {
			t.Errorf("the lag is %g s, want a minute for each batch that is left", lag)
		}
		store.crowded.Store(true)
		<-time.After(5 * time.Second)
		before := store.batches.Load()
		<-time.After(40 * time.Second)
		filled := before - store.batches.Load()
		check.True(t, filled >= 19 && filled <= 21, "%d batches were filled in 40 s under load, want 20", filled)
		store.away.Store(true)
		<-time.After(time.Minute)
		store.away.Store(false)
		store.crowded.Store(false)
		<-time.After(2 * time.Minute)
		if left, lag := store.batches.Load(), testutil.ToFloat64(f.lag); left != 0 || lag != 0 {
			t.Errorf("%d batches and a lag of %g s are left, want none", left, lag)
		}
		check.Same(t, testutil.ToFloat64(f.filled), 100*100, "messages of the metric")
		check.True(t, logs.Len() == 2,
			"got the log lines %v, want one when the database goes away and one when it is back", logs.All())
		cancel()
		<-done
	})
}
