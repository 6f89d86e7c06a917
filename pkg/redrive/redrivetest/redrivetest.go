// Package redrivetest provides what the tests of pkg/redrive and its subpackages share: a fake Kafka and a store in
// memory, which fail when a test wants it, and functions that make messages.
package redrivetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry/telemetrytest"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Topics of messages.
const (
	Orders     = "orders"
	DeadLetter = "orders.dlq.v1"
)

// ErrBroken is the error of sends that a test makes fail.
var ErrBroken = errors.New("broken on purpose")

// entry is a record in the log of a fake Kafka.
type entry struct {
	message, redrive uuid.UUID
	record           entity.Record
}

// TopicOf returns the topic to which the fake Kafka sends a message.
func TopicOf(out entity.Outgoing) string {
	if out.Edit != nil && out.Edit.Topic != "" {
		return out.Edit.Topic
	}
	if out.Redirect != "" {
		return out.Redirect
	}
	return out.Message.OriginalTopic
}

// Kafka is an attempt.Publisher whose log is in memory. It sends every record to partition 0 of its topic. Tests set
// its functions to make calls fail; if a function is nil, the calls that it decides succeed.
type Kafka struct {
	PlanError    func(entity.Message) error
	PlanOf       func(target string) error
	NoPartitions bool // plans do not know the partitions of topics, as if Kafka had not answered
	Deliver      func(entity.Outgoing) (written bool, d entity.Delivery)
	Find         func(entity.Claim) *entity.Delivery

	Mu   sync.Mutex // guards the log, and the fields above in tests that change them while other goroutines send
	logs map[string][]entry
}

// Set calls a function that changes the fields above while other goroutines send.
func (k *Kafka) Set(change func()) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	change()
}

// Plan implements attempt.Publisher.
func (k *Kafka) Plan(_ context.Context, batch []entity.Outgoing, _ bool) []entity.Target {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	targets := make([]entity.Target, len(batch))
	for i, out := range batch {
		m, topic := out.Message, TopicOf(out)
		targets[i] = entity.Target{Topic: topic, TopicID: "id of " + topic, EndOffset: int64(len(k.logs[topic]))}
		if out.Edit != nil {
			sent := out.Edit.Apply(m.Record)
			targets[i].SentHash = entity.RecordHash(sent.Key, sent.Value)
		}
		if k.PlanError != nil {
			targets[i].Err = k.PlanError(m)
		}
		if k.PlanOf != nil {
			targets[i].Err = k.PlanOf(topic)
		}
		if k.NoPartitions {
			targets[i].Partition, targets[i].Err = -1, entity.ErrUnavailable
		}
	}
	return targets
}

// Publish implements attempt.Publisher.
func (k *Kafka) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
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

func (k *Kafka) send(out entity.Outgoing) entity.Delivery {
	written, d := true, Acknowledged
	k.Mu.Lock()
	deliver := k.Deliver
	k.Mu.Unlock()
	if deliver != nil {
		written, d = deliver(out)
	}
	k.Mu.Lock()
	defer k.Mu.Unlock()
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

// FindMany implements attempt.Publisher.
func (k *Kafka) FindMany(_ context.Context, claims []entity.Claim) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(claims))
	for i, c := range claims {
		deliveries[i] = k.findOne(c)
	}
	return deliveries
}

func (k *Kafka) findOne(c entity.Claim) entity.Delivery {
	k.Mu.Lock()
	find := k.Find
	k.Mu.Unlock()
	if find != nil {
		if d := find(c); d != nil {
			return *d
		}
	}
	k.Mu.Lock()
	defer k.Mu.Unlock()
	for offset, e := range k.logs[c.Topic] {
		if int64(offset) >= c.EndOffset && e.redrive == c.ID {
			return entity.Delivery{Verdict: entity.Acknowledged, Class: entity.AlreadyPublished, Offset: int64(offset)}
		}
	}
	return entity.Delivery{Verdict: entity.GivenBack, Offset: -1}
}

// Sent returns the messages in the topic's log, in order.
func (k *Kafka) Sent(topic string) []uuid.UUID {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	var ids []uuid.UUID
	for _, e := range k.logs[topic] {
		ids = append(ids, e.message)
	}
	return ids
}

// Results of sends, as the Publisher returns them for three answers of the broker.
var (
	Acknowledged = entity.Delivery{Verdict: entity.Acknowledged}
	Rejected     = entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: ErrBroken}
	Unauthorized = entity.Delivery{Verdict: entity.Refused, Class: entity.Unauthorized, Err: ErrBroken}
	// Unread is the result of a message whose value may not be read from its dead-letter topic.
	Unread = entity.Delivery{Verdict: entity.Refused, Class: entity.Unauthorized, Err: ErrBroken, OfValue: true}
)

// Failure returns the result of a send that failed.
func Failure(class entity.ErrorClass) entity.Delivery {
	return entity.Delivery{Verdict: entity.Failed, Class: class, Err: ErrBroken}
}

// InDoubt returns the result of a send whose record may or may not have been written.
func InDoubt(class entity.ErrorClass) entity.Delivery {
	return entity.Delivery{Verdict: entity.InDoubt, Class: class, Err: ErrBroken}
}

// Always returns a function for the field Deliver. It returns d for every record. The parameter written says whether
// the record gets into the log.
func Always(d entity.Delivery, written bool) func(entity.Outgoing) (bool, entity.Delivery) {
	return func(entity.Outgoing) (bool, entity.Delivery) { return written, d }
}

// Except returns a function for the field Deliver. For these messages it returns d, and their records are not written.
// All other records are written and acknowledged.
func Except(d entity.Delivery, ids ...uuid.UUID) func(entity.Outgoing) (bool, entity.Delivery) {
	return func(out entity.Outgoing) (bool, entity.Delivery) {
		if slices.Contains(ids, out.Message.ID) {
			return false, d
		}
		return true, Acknowledged
	}
}

// NotTo returns a function for the field PlanError, which fails for messages of one original topic.
func NotTo(topic string, err error) func(entity.Message) error {
	return func(m entity.Message) error {
		if m.OriginalTopic == topic {
			return err
		}
		return nil
	}
}

// Finding returns a function for the field Find. It returns d for every claim whose record is searched in the log.
func Finding(d entity.Delivery) func(entity.Claim) *entity.Delivery {
	return func(entity.Claim) *entity.Delivery { return &d }
}

// Store is the memory store, whose methods a test can make fail or wait.
type Store struct {
	*fake.Store
	OnFinish  func() error  // called before each Finish; if it returns an error, Finish fails with it
	OnClaimed func()        // called after the store has made claims
	Locks     *RowLocks     // rows that Claim leaves out because they are locked; nil: none
	Hang      string        // Get, Load or Expired: while it is set, the database does not answer calls of that method
	Deaf      chan struct{} // Expired waits until this channel is closed, even after its context has ended; nil: no wait

	OnSaveBatch func() (saved bool, err error) // called instead of SaveBatch
	// called before each AttemptsOf; if it returns an error, AttemptsOf fails with it
	OnAttemptsOf func() error

	// Asked, if it is set, is called for each call of a method that this type replaces.
	Asked func(ctx context.Context, method string)
	Reads atomic.Int32 // number of calls of Get and Load so far
}

func (f *Store) saw(ctx context.Context, method string) {
	if f.Asked != nil {
		f.Asked(ctx, method)
	}
}

// read is called by Get, Load and Expired. It calls Asked, and returns an error if the database does not answer for
// this method.
func (f *Store) read(ctx context.Context, method string) error {
	f.saw(ctx, method)
	return f.silent(ctx, method)
}

// SaveBatch calls OnSaveBatch, if it is set, in place of the memory store's SaveBatch.
func (f *Store) SaveBatch(ctx context.Context, results repository.BatchResults) (bool, error) {
	f.saw(ctx, "SaveBatch")
	if f.OnSaveBatch != nil {
		return f.OnSaveBatch()
	}
	return f.Store.SaveBatch(ctx, results)
}

// AttemptsOf calls OnAttemptsOf, if it is set, before it calls the memory store's AttemptsOf.
func (f *Store) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	f.saw(ctx, "AttemptsOf")
	if f.OnAttemptsOf != nil {
		if err := f.OnAttemptsOf(); err != nil {
			return nil, err
		}
	}
	return f.Store.AttemptsOf(ctx, redrive, ids)
}

// Silence is the time after which a call fails when the database does not answer.
const Silence = 30 * time.Second

// silent fails as the PostgreSQL store does when the database does not answer within read_timeout.
func (f *Store) silent(ctx context.Context, method string) error {
	switch {
	case f.Hang != method:
		return nil
	case wait.Sleep(ctx, Silence):
		return entity.ErrUnavailable
	default:
		return ctx.Err()
	}
}

// Get counts the call in Reads and calls the memory store's Get.
func (f *Store) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	f.Reads.Add(1)
	if err := f.read(ctx, "Get"); err != nil {
		return entity.Message{}, err
	}
	return f.Store.Get(ctx, id, maxValue)
}

// Load counts the call in Reads and calls the memory store's Load.
func (f *Store) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	f.Reads.Add(1)
	if err := f.read(ctx, "Load"); err != nil {
		return nil, 0, err
	}
	return f.Store.Load(ctx, ids, maxBytes)
}

// Expired waits until the channel Deaf is closed, if it is set, and calls the memory store's Expired.
func (f *Store) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	if f.Deaf != nil {
		<-f.Deaf
	}
	if err := f.read(ctx, "Expired"); err != nil {
		return nil, err
	}
	return f.Store.Expired(ctx, q)
}

// Claim makes those claims whose messages are not locked, and then calls OnClaimed if it is set.
func (f *Store) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	f.saw(ctx, "Claim")
	if f.OnClaimed != nil {
		defer f.OnClaimed()
	}
	return f.Store.Claim(ctx, f.Locks.Unlocked(claims), how)
}

// Finish calls OnFinish, if it is set, before it calls the memory store's Finish.
func (f *Store) Finish(ctx context.Context, results []repository.Result, cause entity.AuditInfo) ([]repository.Finished, error) {
	f.saw(ctx, "Finish")
	if f.OnFinish != nil {
		if err := f.OnFinish(); err != nil {
			return nil, err
		}
	}
	return f.Store.Finish(ctx, results, cause)
}

// Bench contains a store and a fake Kafka, both in memory, for tests of the packages below pkg/redrive.
type Bench struct {
	*testing.T
	Store *Store
	Kafka *Kafka
	// Judge judges whether original topics are declared; a test may replace it.
	Judge func(context.Context) (func(*entity.Message) entity.OriginStanding, error)
	Logs  *observer.ObservedLogs

	Logger *zap.Logger // writes to Logs
	put    int
}

// NewBench returns a Bench on which every original topic is declared.
func NewBench(t *testing.T) *Bench {
	core, logs := observer.New(zapcore.InfoLevel)
	return &Bench{
		T: t, Store: &Store{Store: fake.New(time.Now)}, Kafka: &Kafka{}, Logs: logs, Logger: zap.New(core),
		Judge: func(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
			return func(*entity.Message) entity.OriginStanding {
				return entity.OriginStanding{Declaration: entity.Declared}
			}, nil
		},
	}
}

// Origins calls the Judge that is set at the time of the call.
func (b *Bench) Origins(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return b.Judge(ctx)
}

// Add puts n messages into the store, each younger than the one before.
func (b *Bench) Add(n int, changes ...func(*entity.Message)) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		b.put++
		m := entity.NewMessage(Orders, "boom", time.Now().Add(time.Duration(b.put)*time.Millisecond))
		m.Record.Value = []byte("value")
		m.Record.Size = 5
		m.Source = entity.Source{Topic: DeadLetter, Offset: int64(b.put)}
		for _, change := range changes {
			change(&m)
		}
		b.Store.Insert(m)
		ids[i] = m.ID
	}
	return ids
}

// Get returns a message without its value.
func (b *Bench) Get(id uuid.UUID) entity.Message {
	b.Helper()
	return check.Must(b.Store.Get(context.Background(), id, 0))(b)
}

// WantState checks status, attempts and the last error class.
func (b *Bench) WantState(id uuid.UUID, status entity.Status, count int, class entity.ErrorClass) {
	b.Helper()
	m := b.Get(id)
	got := fmt.Sprintf("%s %d %q", m.Status, m.RetryCount, m.LastPublishErrorClass)
	want := fmt.Sprintf("%s %d %q", status, count, class)
	check.Equal(b, got, want, "message")
}

// WantSent checks which messages are in the log of a topic, in order.
func (b *Bench) WantSent(topic string, want ...uuid.UUID) {
	b.Helper()
	check.Equal(b, b.Kafka.Sent(topic), want, "log of %s", topic)
}

// Elapse moves the fake clock of the test's synctest bubble forward, while the other goroutines of the bubble go on.
func Elapse(d time.Duration) { wait.Sleep(context.Background(), d) }

// Within waits until the condition is true. It fails the test if that takes longer than d in the fake time of the
// bubble.
func (b *Bench) Within(d time.Duration, what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(d); !is(); Elapse(max(d/200, 10*time.Millisecond)) {
		check.Require(b, !time.Now().After(end), "%s did not happen within %s", what, d)
	}
}

// States counts messages by status.
func (b *Bench) States(ids []uuid.UUID) map[entity.Status]int {
	b.Helper()
	n := map[entity.Status]int{}
	for _, id := range ids {
		n[b.Get(id).Status]++
	}
	return n
}

// WantStates checks how many of the messages have each status.
func (b *Bench) WantStates(ids []uuid.UUID, want map[entity.Status]int) {
	b.Helper()
	got := b.States(ids)
	check.True(b, fmt.Sprint(got) == fmt.Sprint(want), "states = %v, want %v", got, want)
}

// WantOnce checks that the topic's log has exactly one record of each of these messages.
func (b *Bench) WantOnce(topic string, ids []uuid.UUID) {
	b.Helper()
	count := map[uuid.UUID]int{}
	for _, id := range b.Kafka.Sent(topic) {
		count[id]++
	}
	for _, id := range ids {
		check.True(b, count[id] == 1, "message %s was sent %d times, want once", id, count[id])
	}
}

// Records returns the contents of a topic's log.
func (k *Kafka) Records(topic string) []string {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	var all []string
	for _, e := range k.logs[topic] {
		all = append(all, string(e.record.Key)+"="+string(e.record.Value))
	}
	return all
}

// WantRecords checks the records in the log of a topic.
func (b *Bench) WantRecords(topic string, want ...string) {
	b.Helper()
	check.Equal(b, b.Kafka.Records(topic), want, "log of %s", topic)
}

// WantEdits checks the edits of a message's attempts.
func (b *Bench) WantEdits(id uuid.UUID, want ...*entity.Edit) {
	b.Helper()
	history := check.Must(b.Store.History(context.Background(), id))(b)
	var got []*entity.Edit
	for _, a := range history {
		got = append(got, a.Edit)
	}
	check.Equal(b, got, want, "edits")
}

// WantRecordUnchanged checks that a message still has its record and original topic.
func (b *Bench) WantRecordUnchanged(id uuid.UUID, want entity.Message) {
	b.Helper()
	got, err := b.Store.Get(context.Background(), id, -1)
	check.True(b, err == nil && reflect.DeepEqual(got.Record, want.Record) && got.OriginalTopic == want.OriginalTopic,
		"message = %+v of %s, %v, want %+v of %s", got.Record, got.OriginalTopic, err, want.Record, want.OriginalTopic)
}

// RowLocks are rows that another database session locks. Store.Claim leaves these rows out.
type RowLocks struct {
	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

// Lock makes a session lock these rows, and release all other rows.
func (l *RowLocks) Lock(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		l.ids[id] = true
	}
}

// Unlocked returns the claims of rows that are not locked.
func (l *RowLocks) Unlocked(claims []repository.Claim) []repository.Claim {
	if l == nil {
		return claims
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(claims), func(c repository.Claim) bool { return l.ids[c.MessageID] })
}

// Lock makes another session lock the rows of messages.
func (b *Bench) Lock(ids ...uuid.UUID) {
	if b.Store.Locks == nil {
		b.Store.Locks = &RowLocks{}
	}
	b.Store.Locks.Lock(ids...)
}

// Unlock ends the session that locks rows.
func (b *Bench) Unlock() { b.Lock() }

// WantMetric checks the value of a metric.
func (b *Bench) WantMetric(what string, metric prometheus.Collector, want float64) {
	b.Helper()
	telemetrytest.Want(b.T, what, metric, want)
}

// WantObserved checks the values of a histogram.
func (b *Bench) WantObserved(what string, histogram prometheus.Collector, count uint64, sum float64) {
	b.Helper()
	if gotCount, gotSum := telemetrytest.Observed(b.T, histogram); gotCount != count || gotSum != sum {
		b.Errorf("%s has %d values of %v together, want %d of %v", what, gotCount, gotSum, count, sum)
	}
}

// WantPublishError checks the error of a retry.
func (b *Bench) WantPublishError(err error, status entity.Status, class entity.ErrorClass) *entity.PublishError {
	b.Helper()
	failed := check.As[*entity.PublishError](b, err, "Retry")
	check.True(b, failed.Status == status && failed.Class == class,
		"PublishError is %s %s, want %s %s", failed.Status, failed.Class, status, class)
	return failed
}

// WantDeadLines checks how often the log says that a message has become DEAD.
func (b *Bench) WantDeadLines(n int) {
	b.Helper()
	check.Equal(b, b.Logs.FilterMessage("message is dead").Len(), n, "lines about death")
}

// Keyed sets the key of a message.
func Keyed(key string) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Key = []byte(key) }
}

// PatchText is a patch that sets the field state of a value to "new".
const PatchText = `[{"op":"replace","path":"/state","value":"new"}]`

// Value sets the value of a message; "" is a tombstone.
func Value(text string) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Record.Value, m.Record.Size = []byte(text), int64(len(text))
		if text == "" {
			m.Record.Value = nil
		}
	}
}

// To sets the original topic of a message.
func To(topic string) func(*entity.Message) {
	return func(m *entity.Message) { m.OriginalTopic = topic }
}

// Asked records, for each method of the store, the spans in which it was called.
type Asked struct {
	mu    sync.Mutex
	Spans map[string]map[trace.SpanID]bool
}

// Watch records the spans of all calls of the store from now on.
func (b *Bench) Watch() *Asked {
	a := &Asked{Spans: map[string]map[trace.SpanID]bool{}}
	b.Store.Asked = func(ctx context.Context, method string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.Spans[method] == nil {
			a.Spans[method] = map[trace.SpanID]bool{}
		}
		a.Spans[method][trace.SpanContextFromContext(ctx).SpanID()] = true
	}
	return a
}

// Want checks that each of the methods was called with the context of this span, and never with the context of another
// span.
func (a *Asked) Want(t *testing.T, span sdktrace.ReadOnlySpan, methods ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, method := range methods {
		want := []trace.SpanID{span.SpanContext().SpanID()}
		got := slices.Collect(maps.Keys(a.Spans[method]))
		check.True(t, slices.Equal(got, want), "%s was asked within the spans %s, want %s alone", method, got, want)
	}
}

// Topics of two teams. The dead letters of a team's consumers are in its dead-letter topic. Tests use them for dead
// letters that name another team's topic.
const (
	GammaDLQ   = "gamma.dlq.v1"
	GammaTopic = "gamma.events.v1"
	BetaDLQ    = "beta.dlq.v1"
	BetaTopic  = "beta.events.v1"
)

// ClaimingTopic returns a change that moves a message to the dead-letter topic dlq. The message's original topic is
// then known only from a header.
func ClaimingTopic(dlq, original string) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Source.Topic, m.OriginalTopic, m.Origin.Confidence = dlq, original, entity.FromHeader
	}
}

// Declare makes the bench judge original topics by the given configuration and by the mapping in the store.
func (b *Bench) Declare(trust string, rules ...deadletter.OriginRule) {
	b.Helper()
	cfg := deadletter.Config{Origins: rules, OriginTrust: trust}
	origins := check.Must(deadletter.NewOrigins(cfg))(b)
	decoder := check.Must(deadletter.New(cfg, deadletter.Patterns{}))(b)
	b.Judge = deadletter.NewJudge(decoder, origins, b.Store.Mapping).Standing
}

// ByConvention declares, for example, that dead letters in gamma.dlq.v1 come from the topics gamma.*.
var ByConvention = deadletter.OriginRule{DLQ: "*.dlq.v1", Originals: []string{"$1.*"}}

// ScopeOf returns the topics that a principal may see.
func ScopeOf(t *testing.T, topics ...string) *entity.TopicPatterns {
	t.Helper()
	scope := check.Must(entity.ParseTopicPatterns("topics", topics...))(t)
	return &scope
}

// Counter returns the value of a counter with one label.
func Counter(t testing.TB, from prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	for _, family := range check.Must(from.Gather())(t) {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
