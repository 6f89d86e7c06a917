package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	orders     = "orders"
	deadLetter = "orders.dlq.v1"
)

var errBroken = errors.New("broken on purpose")

// entry is one record in the fake log.
type entry struct {
	message, redrive uuid.UUID
	record           entity.Record
}

// topicOf returns the destination of a message.
func topicOf(out entity.Outgoing) string {
	if out.Edit != nil && out.Edit.Topic != "" {
		return out.Edit.Topic
	}
	return out.Message.OriginalTopic
}

// kafka is a Publisher with a log in memory. Every record goes to partition 0 of its target. The functions cause
// failures; nil causes none.
type kafka struct {
	plan    func(entity.Message) error
	lost    bool // the partitions are unknown
	deliver func(entity.Outgoing) (written bool, d entity.Delivery)
	find    func(entity.Claim) *entity.Delivery

	mu   sync.Mutex
	logs map[string][]entry
}

func (k *kafka) Plan(_ context.Context, batch []entity.Outgoing, _ bool) []entity.Target {
	k.mu.Lock()
	defer k.mu.Unlock()
	targets := make([]entity.Target, len(batch))
	for i, out := range batch {
		m, topic := out.Message, topicOf(out)
		targets[i] = entity.Target{Topic: topic, TopicID: "id of " + topic, EndOffset: int64(len(k.logs[topic]))}
		if out.Edit != nil {
			sent := out.Edit.Apply(m.Record)
			targets[i].SentHash = entity.RecordHash(sent.Key, sent.Value)
		}
		if k.plan != nil {
			targets[i].Err = k.plan(m)
		}
		if k.lost {
			targets[i].Partition, targets[i].Err = -1, entity.ErrUnavailable
		}
	}
	return targets
}

func (k *kafka) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(batch))
	for i, out := range batch {
		if late, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(late) {
			deliveries[i] = entity.Delivery{Verdict: entity.GivenBack, Offset: -1}
			continue
		}
		deliveries[i] = k.send(out)
	}
	return deliveries
}

func (k *kafka) send(out entity.Outgoing) entity.Delivery {
	written, d := true, acknowledged
	if k.deliver != nil {
		written, d = k.deliver(out)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	d.Offset = -1
	if written {
		if k.logs == nil {
			k.logs = map[string][]entry{}
		}
		d.Offset = int64(len(k.logs[out.Target.Topic]))
		k.logs[out.Target.Topic] = append(k.logs[out.Target.Topic], entry{out.Message.ID, out.Message.Claim.ID, out.Edit.Apply(out.Message.Record)})
	}
	return d
}

func (k *kafka) FindMany(_ context.Context, claims []entity.Claim) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(claims))
	for i, c := range claims {
		deliveries[i] = k.findOne(c)
	}
	return deliveries
}

func (k *kafka) findOne(c entity.Claim) entity.Delivery {
	if k.find != nil {
		if d := k.find(c); d != nil {
			return *d
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for offset, e := range k.logs[c.Topic] {
		if int64(offset) >= c.EndOffset && e.redrive == c.ID {
			return entity.Delivery{Verdict: entity.Acknowledged, Class: entity.AlreadyPublished, Offset: int64(offset)}
		}
	}
	return entity.Delivery{Verdict: entity.GivenBack, Offset: -1}
}

// sent returns the messages in the topic's log, in order.
func (k *kafka) sent(topic string) []uuid.UUID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []uuid.UUID
	for _, e := range k.logs[topic] {
		ids = append(ids, e.message)
	}
	return ids
}

// Answers of a broker.
var (
	acknowledged = entity.Delivery{Verdict: entity.Acknowledged}
	rejected     = entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: errBroken}
	unauthorized = entity.Delivery{Verdict: entity.Refused, Class: entity.Unauthorized, Err: errBroken}
)

func failure(class entity.ErrorClass) entity.Delivery {
	return entity.Delivery{Verdict: entity.Failed, Class: class, Err: errBroken}
}

func inDoubt(class entity.ErrorClass) entity.Delivery {
	return entity.Delivery{Verdict: entity.InDoubt, Class: class, Err: errBroken}
}

func always(d entity.Delivery, written bool) func(entity.Outgoing) (bool, entity.Delivery) {
	return func(entity.Outgoing) (bool, entity.Delivery) { return written, d }
}

// except answers d for these messages, which are not written, and acknowledges the others.
func except(d entity.Delivery, ids ...uuid.UUID) func(entity.Outgoing) (bool, entity.Delivery) {
	return func(out entity.Outgoing) (bool, entity.Delivery) {
		if slices.Contains(ids, out.Message.ID) {
			return false, d
		}
		return true, acknowledged
	}
}

// notTo is a plan that fails for one original topic.
func notTo(topic string, err error) func(entity.Message) error {
	return func(m entity.Message) error {
		if m.OriginalTopic == topic {
			return err
		}
		return nil
	}
}

func finding(d entity.Delivery) func(entity.Claim) *entity.Delivery {
	return func(entity.Claim) *entity.Delivery { return &d }
}

// faulty is the memory store with failures.
type faulty struct {
	*fake.Store
	finish func() error  // called before each Finish; its error is returned instead
	taken  func()        // called after each Claim
	locks  *rowLocks     // rows that Claim leaves out; nil: none
	hang   string        // the method whose database does not answer
	deaf   chan struct{} // Expired waits for it and ignores its context; nil: no wait

	saving func() (saved bool, err error) // instead of SaveBatch
	known  func() error                   // called before each AttemptsOf; its error is returned

	asked func(ctx context.Context, method string) // called with the context of each call that spans belong to; nil: not called
	reads atomic.Int32                             // number of calls of Get and Load
}

func (f *faulty) saw(ctx context.Context, method string) {
	if f.asked != nil {
		f.asked(ctx, method)
	}
}

// read is saw for a read, which fails while the database does not answer.
func (f *faulty) read(ctx context.Context, method string) error {
	f.saw(ctx, method)
	return f.silent(ctx, method)
}

func (f *faulty) SaveBatch(ctx context.Context, results repository.BatchResults) (bool, error) {
	f.saw(ctx, "SaveBatch")
	if f.saving != nil {
		return f.saving()
	}
	return f.Store.SaveBatch(ctx, results)
}

func (f *faulty) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	f.saw(ctx, "AttemptsOf")
	if f.known != nil {
		if err := f.known(); err != nil {
			return nil, err
		}
	}
	return f.Store.AttemptsOf(ctx, redrive, ids)
}

// silence is how long a store waits for a database that does not answer.
const silence = 30 * time.Second

// silent fails as the PostgreSQL store does when the read_timeout of a connection is over.
func (f *faulty) silent(ctx context.Context, method string) error {
	switch {
	case f.hang != method:
		return nil
	case wait.Sleep(ctx, silence):
		return entity.ErrUnavailable
	default:
		return ctx.Err()
	}
}

func (f *faulty) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	f.reads.Add(1)
	if err := f.read(ctx, "Get"); err != nil {
		return entity.Message{}, err
	}
	return f.Store.Get(ctx, id, maxValue)
}

func (f *faulty) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	f.reads.Add(1)
	if err := f.read(ctx, "Load"); err != nil {
		return nil, 0, err
	}
	return f.Store.Load(ctx, ids, maxBytes)
}

func (f *faulty) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	if f.deaf != nil {
		<-f.deaf
	}
	if err := f.read(ctx, "Expired"); err != nil {
		return nil, err
	}
	return f.Store.Expired(ctx, q)
}

func (f *faulty) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	f.saw(ctx, "Claim")
	if f.taken != nil {
		defer f.taken()
	}
	return f.Store.Claim(ctx, f.locks.unlocked(claims), how)
}

func (f *faulty) Finish(ctx context.Context, results []repository.Result, cause entity.Cause) ([]repository.Finished, error) {
	f.saw(ctx, "Finish")
	if f.finish != nil {
		if err := f.finish(); err != nil {
			return nil, err
		}
	}
	return f.Store.Finish(ctx, results, cause)
}

// bench is a Service over the memory store and the fake log.
type bench struct {
	*testing.T
	*Service
	store *faulty
	kafka *kafka
	logs  *observer.ObservedLogs
	put   int
}

func newBench(t *testing.T) *bench {
	core, logs := observer.New(zapcore.InfoLevel)
	b := &bench{T: t, store: &faulty{Store: fake.New(time.Now)}, kafka: &kafka{}, logs: logs}
	b.Service = New(DefaultConfig(), b.store, b.kafka, prometheus.NewRegistry(), zap.New(core))
	b.Service.random = func() float64 { return 0.5 }
	return b
}

// add puts n messages into the store, each younger than the one before.
func (b *bench) add(n int, changes ...func(*entity.Message)) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		b.put++
		m := entity.NewMessage(orders, "boom", time.Now().Add(time.Duration(b.put)*time.Millisecond))
		m.Record.Value = []byte("value")
		m.Record.Size = 5
		m.Source = entity.Source{Topic: deadLetter, Offset: int64(b.put)}
		for _, change := range changes {
			change(&m)
		}
		b.store.Insert(m)
		ids[i] = m.ID
	}
	return ids
}

func (b *bench) get(id uuid.UUID) entity.Message {
	b.Helper()
	return check.Must(b.store.Get(context.Background(), id, 0))(b)
}

// wantState checks status, attempts and the last error class.
func (b *bench) wantState(id uuid.UUID, status entity.Status, count int, class entity.ErrorClass) {
	b.Helper()
	m := b.get(id)
	got := fmt.Sprintf("%s %d %q", m.Status, m.RetryCount, m.LastPublishErrorClass)
	want := fmt.Sprintf("%s %d %q", status, count, class)
	check.Equal(b, got, want, "message")
}

func (b *bench) wantSent(topic string, want ...uuid.UUID) {
	b.Helper()
	check.Equal(b, b.kafka.sent(topic), want, "log of %s", topic)
}

func (b *bench) retry(id uuid.UUID) error {
	_, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
	return err
}

// another is a second process on the same store and log.
func (b *bench) another() *bench {
	other := *b
	other.Service = New(b.Service.cfg, b.store, b.kafka, prometheus.NewRegistry(), b.Service.log)
	return &other
}

// elapse lets time pass in the bubble of a test.
func elapse(d time.Duration) { wait.Sleep(context.Background(), d) }
