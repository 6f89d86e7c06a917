package republisher

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	orders     = "orders"
	deadLetter = "orders.dlq.v1"
)

var clock = time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.FixedZone("JST", 9*3600))

// logs is a Kafka in memory. It implements Cluster and Producer, and a test can set the errors that it returns.
type logs struct {
	topics map[string]int // number of partitions of each topic
	id     string         // the topic id, the same for each topic

	internal string // name of a topic that Kafka marks as internal

	starts map[broker.TopicPartition]int64
	errs   map[broker.TopicPartition]error // errors of all requests for offsets of a partition
	down   error                           // error of every request except Scan and Produce
	mute   error                           // error of every request for the list of topics
	readAt error                           // error of every read of a single record
	fail   func(broker.TopicPartition, broker.Record) error

	rests map[broker.TopicPartition]time.Time // until when the leader of a partition accepts no records and answers no reads

	throttle map[broker.TopicPartition]time.Duration // throttle that each answer for the partition contains

	mu      sync.Mutex
	records map[broker.TopicPartition][]broker.Record
	scans   map[broker.TopicPartition]int
	asked   int // number of requests for end offsets

	shares    map[broker.TopicPartition]broker.ShareOffset // offsets of a share group, the same for every share group
	committed map[broker.TopicPartition]int64              // committed offsets, the same for every consumer group
	states    map[string]string                            // states of consumer groups
	listed    int                                          // number of requests for the states of consumer groups
	configs   map[string]map[string]string                 // settings of topics that this user may see
	silent    bool                                         // requests for settings get no answer
	looked    []string                                     // topics in requests for settings
	denied    string                                       // name of a consumer group that this user may not see
}

func newLogs() *logs {
	return &logs{
		topics:  map[string]int{orders: 4, deadLetter: 1, "_internal": 1},
		starts:  map[broker.TopicPartition]int64{},
		errs:    map[broker.TopicPartition]error{},
		records: map[broker.TopicPartition][]broker.Record{},
		scans:   map[broker.TopicPartition]int{},
	}
}

func (l *logs) ShareOffsets(context.Context, string) (map[broker.TopicPartition]broker.ShareOffset, error) {
	return l.shares, l.down
}

func (l *logs) CommittedOffsets(_ context.Context, group string, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	if group == l.denied && group != "" {
		return nil, broker.ErrUnauthorized
	}
	offsets := map[broker.TopicPartition]int64{}
	for _, tp := range parts {
		if offset, ok := l.committed[tp]; ok {
			offsets[tp] = offset
		}
	}
	return offsets, l.down
}

func (l *logs) GroupStates(context.Context) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed++
	if l.down != nil {
		return nil, l.down
	}
	return l.states, nil
}

func (l *logs) Topics(_ context.Context, names ...string) ([]broker.Topic, error) {
	if err := cmp.Or(l.down, l.mute); err != nil {
		return nil, err
	}
	var topics []broker.Topic
	for _, name := range names {
		t := broker.Topic{Name: name, Err: broker.ErrUnknownTopic}
		if n, ok := l.topics[name]; ok {
			t.Err, t.ID, t.Internal = nil, l.id, name == l.internal
			for i := range n {
				t.Partitions = append(t.Partitions, broker.Partition{ID: int32(i)})
			}
		}
		topics = append(topics, t)
	}
	return topics, nil
}

func (l *logs) offsets(parts []broker.TopicPartition, of func(broker.TopicPartition) int64) (map[broker.TopicPartition]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return nil, l.down
	}
	found, errs := map[broker.TopicPartition]int64{}, broker.PartitionErrors{}
	for _, tp := range parts {
		switch _, exists := l.topics[tp.Topic]; {
		case l.errs[tp] != nil:
			errs[tp] = l.errs[tp]
		case !exists:
			errs[tp] = broker.ErrUnknownTopic
		default:
			found[tp] = of(tp)
		}
	}
	if len(errs) == 0 {
		return found, nil
	}
	return found, errs
}

func (l *logs) StartOffsets(_ context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return l.offsets(parts, func(tp broker.TopicPartition) int64 { return l.starts[tp] })
}

func (l *logs) EndOffsets(_ context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	l.asked++
	return l.offsets(parts, l.end)
}

func (l *logs) AppendedOffsets(_ context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return l.offsets(parts, l.end)
}

func (l *logs) end(tp broker.TopicPartition) int64 {
	if n := len(l.records[tp]); n > 0 {
		return l.records[tp][n-1].Offset + 1
	}
	return l.starts[tp]
}

func (l *logs) ReadAtOnce(_ context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rest := time.Until(l.rests[tp]); rest > 0 {
		return broker.Record{}, &broker.ThrottledError{Pause: rest}
	}
	if err := cmp.Or(l.down, l.readAt); err != nil {
		return broker.Record{}, err
	}
	for _, r := range l.records[tp] {
		if r.Offset == offset {
			return r, nil
		}
	}
	return broker.Record{}, broker.ErrGone
}

func (l *logs) Scan(_ context.Context, tp broker.TopicPartition, from, to int64, _ string, fn func(broker.Record) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scans[tp]++
	if from < l.starts[tp] {
		return broker.ErrOutOfRange
	}
	for _, r := range l.records[tp] {
		if r.Offset >= from && r.Offset < to && fn(r) {
			return nil
		}
	}
	return nil
}

// count returns the number of records of a partition. It may be called while others send.
func (l *logs) count(tp broker.TopicPartition) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records[tp])
}

// rest makes the leader of a partition ask for a pause from now on.
func (l *logs) rest(tp broker.TopicPartition, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rests == nil {
		l.rests = map[broker.TopicPartition]time.Time{}
	}
	l.rests[tp] = time.Now().Add(d)
}

func (l *logs) Throttle(_ context.Context, tp broker.TopicPartition) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.rests[tp]))
}

func (l *logs) TopicConfigs(ctx context.Context, topics []string, _ ...string) (map[string]map[string]string, error) {
	l.mu.Lock()
	l.looked = append(l.looked, topics...)
	configs, silent := maps.Clone(l.configs), l.silent
	l.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return configs, nil
}

func (l *logs) ProduceWithin(_ context.Context, tp broker.TopicPartition, records []broker.Record, _ broker.BatchLimit) broker.ProduceResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := broker.ProduceResult{Throttle: l.throttle[tp]}
	for _, r := range records {
		if l.fail != nil {
			if err := l.fail(tp, r); err != nil {
				out.Records = append(out.Records, broker.RecordResult{Offset: -1, Err: err})
				continue
			}
		}
		r.TopicPartition, r.Offset = tp, l.end(tp)
		l.records[tp] = append(l.records[tp], r)
		out.Records = append(out.Records, broker.RecordResult{Offset: r.Offset})
	}
	return out
}

func newRepublisher(t *testing.T, l *logs, changes ...func(*Config)) *Republisher {
	t.Helper()
	cfg := DefaultConfig()
	for _, change := range changes {
		change(&cfg)
	}
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(t)
	r := check.Must(New(cfg, patterns, l, l))(t)
	r.now, r.pointers = func() time.Time { return clock }, patterns
	return r
}

// message returns a message that may be retried, with the original topic orders. The changes are applied to it.
func message(changes ...func(*entity.Message)) entity.Message {
	m := entity.NewMessage(orders, "boom", clock)
	m.Origin.Confidence = entity.FromHeader
	m.Source = entity.Source{Topic: deadLetter, Offset: 7}
	m.Record = entity.Record{Key: []byte("key"), Value: []byte("value"), Size: 5}
	for _, change := range changes {
		change(&m)
	}
	return m
}

// plain returns the messages as a batch without edits.
func plain(messages ...entity.Message) []entity.Outgoing {
	batch := make([]entity.Outgoing, len(messages))
	for i, m := range messages {
		batch[i].Message = m
	}
	return batch
}

// claimed plans and claims the messages, without edits, and returns them ready to publish.
func claimed(t *testing.T, r *Republisher, messages ...entity.Message) []entity.Outgoing {
	t.Helper()
	return claimedAs(t, r, plain(messages...)...)
}

// claimedAs calls Plan for the batch, gives each message a claim on its target, and returns the batch ready to
// publish.
func claimedAs(t *testing.T, r *Republisher, batch ...entity.Outgoing) []entity.Outgoing {
	t.Helper()
	for i, target := range r.Plan(t.Context(), batch, false) {
		check.Require(t, target.Err == nil, "Plan: %v", target.Err)
		m := &batch[i].Message
		check.NoError(t, m.MarkRetrying(clock))
		m.Claim = entity.Claim{
			ID: uuid.New(), Topic: target.Topic, TopicID: target.TopicID,
			Partition: target.Partition, EndOffset: target.EndOffset,
		}
		batch[i].Target = target
	}
	return batch
}

func ptr[T any](v T) *T { return &v }
