package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// fakeCluster is a Kafka in memory, in which tests can cause faults.
type fakeCluster struct {
	mu      sync.Mutex
	topics  map[string]*fakeTopic
	change  chan struct{} // closed and replaced at every change of the cluster, which wakes waiting fetches
	down    error         // the error that every call of the cluster returns; nil when the cluster works
	fetches int           // requests for topics, plus looks of fetches for records: at their start and after each wait
	maxSeen int32         // largest MaxBytes that a fetch requested

	sent        int64  // number of bytes of keys and values in all answers
	duringFetch func() // called after a fetch has selected the records of its answer, and before it returns the answer
	throttle    time.Duration
	quota       quota
}

type fakeTopic struct {
	id       string
	internal bool
	err      error
	logs     []*fakeLog
}

type fakeLog struct {
	start   int64
	records []broker.Record
	next    int64
	open    int64 // number of records at the end of the log that belong to an open transaction
	leader  int32
	err     error

	damage *broker.Record // the placeholder that fetches return for offsets that cannot be read; nil when all offsets can be read
	tries  int            // number of fetches that reached the offset of the damaged batch

	heavy   bool   // makes usual fetches say that the log's next batch is too large for them, so that an unpacker reads the batch
	reading func() // called when an unpacker reads a portion of a batch; nil for no call
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{topics: map[string]*fakeTopic{}, change: make(chan struct{})}
}

// set calls a function that changes the cluster, and wakes waiting fetches.
func (c *fakeCluster) set(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.change)
	c.change = make(chan struct{})
}

func (c *fakeCluster) topic(name, id string, partitions int) {
	c.set(func() {
		t := &fakeTopic{id: id}
		for range partitions {
			t.logs = append(t.logs, &fakeLog{leader: 1})
		}
		c.topics[name] = t
	})
}

func (c *fakeCluster) log(tp broker.TopicPartition) *fakeLog {
	t := c.topics[tp.Topic]
	if t == nil || int(tp.Partition) >= len(t.logs) {
		return nil
	}
	return t.logs[tp.Partition]
}

// produce appends records to a partition's log, which sets their offsets and times.
func (c *fakeCluster) produce(tp broker.TopicPartition, records ...broker.Record) {
	c.set(func() {
		log := c.log(tp)
		for _, r := range records {
			r.TopicPartition, r.Offset, r.Time = tp, log.next, time.Now().UTC().Truncate(time.Millisecond)
			log.next++
			log.records = append(log.records, r)
		}
	})
}

func (c *fakeCluster) Topics(ctx context.Context, names ...string) ([]broker.Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetches++
	if err := errors.Join(ctx.Err(), c.down); err != nil {
		return nil, err
	}
	all := len(names) == 0
	if all {
		for name := range c.topics {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	var out []broker.Topic
	for _, name := range names {
		t := c.topics[name]
		if t == nil {
			out = append(out, broker.Topic{Name: name, Err: broker.ErrUnknownTopic})
			continue
		}
		topic := broker.Topic{Name: name, ID: t.id, Internal: t.internal, Err: t.err}
		for n, log := range t.logs {
			topic.Partitions = append(topic.Partitions, broker.Partition{ID: int32(n), Leader: log.leader})
		}
		out = append(out, topic)
	}
	return out, nil
}

func (c *fakeCluster) offsets(ctx context.Context, parts []broker.TopicPartition, of func(*fakeLog) int64) (map[broker.TopicPartition]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(ctx.Err(), c.down); err != nil {
		return nil, err
	}
	out, errs := map[broker.TopicPartition]int64{}, broker.PartitionErrors{}
	for _, tp := range parts {
		log := c.log(tp)
		switch {
		case log == nil:
			errs[tp] = broker.ErrUnknownTopic
		case log.leader < 0:
			errs[tp] = broker.ErrNoLeader
		default:
			out[tp] = of(log)
		}
	}
	if len(errs) > 0 {
		return out, errs
	}
	return out, nil
}

func (c *fakeCluster) StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return c.offsets(ctx, parts, func(l *fakeLog) int64 { return l.start })
}

func (c *fakeCluster) EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return c.offsets(ctx, parts, func(l *fakeLog) int64 { return l.next })
}

func (c *fakeCluster) StableOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return c.offsets(ctx, parts, func(l *fakeLog) int64 { return l.next - l.open })
}

func (c *fakeCluster) Fetch(ctx context.Context, req broker.FetchRequest) (broker.FetchResponse, error) {
	timeout := time.NewTimer(req.MaxWait)
	defer timeout.Stop()
	for last := false; ; {
		c.mu.Lock()
		c.fetches++
		c.maxSeen = max(c.maxSeen, req.MaxBytes)
		err, change, during := errors.Join(ctx.Err(), c.down), c.change, c.duringFetch
		res, some := c.answer(req)
		c.mu.Unlock()
		if err != nil {
			return broker.FetchResponse{}, err
		}
		if some || last {
			if during != nil {
				during()
			}
			return res, nil
		}
		select {
		case <-ctx.Done():
			return broker.FetchResponse{}, ctx.Err()
		case <-timeout.C:
			last = true
		case <-change:
		}
	}
}

func (c *fakeCluster) answer(req broker.FetchRequest) (res broker.FetchResponse, some bool) {
	left := int64(req.MaxBytes)
	inQuota := c.quota.leader == 0 || c.quota.leader == req.Leader
	if inQuota {
		left = c.quota.limit(left)
	}
	res.Throttle = c.throttle
	asked, used := left, int64(0)
	defer func() {
		if used += asked - left; inQuota && c.quota.refuses(used) {
			res, some = refusal(req), true
		}
	}()
	for _, p := range req.Partitions {
		got := broker.FetchedPartition{TopicPartition: p.TopicPartition, Next: p.Offset, HighWatermark: -1, LastStable: -1, LogStart: -1}
		log := c.log(p.TopicPartition)
		switch {
		case log == nil:
			got.Err = broker.ErrUnknownTopic
		case log.leader != req.Leader:
			got.Err = broker.ErrNotLeader
		case log.err != nil:
			got.Err = log.err
		case p.Offset < log.start || p.Offset > log.next:
			got.Err = broker.ErrOutOfRange
		case log.damage != nil && p.Offset == log.damage.Offset && !p.SkipUnreadable:
			log.tries++
			got.Err, got.HighWatermark = broker.ErrCorrupt, log.next
		case log.damage != nil && p.Offset == log.damage.Offset:
			log.tries++
			got.Records, got.Next, got.HighWatermark, some = []broker.Record{*log.damage}, log.damage.Defect.Last+1, log.next, true
		default:
			got.HighWatermark, got.LastStable, got.LogStart = log.next, log.next-log.open, log.start
			for _, r := range log.records {
				if r.Offset < p.Offset {
					continue
				}
				if r.Offset >= got.LastStable {
					break
				}
				size := int64(len(r.Key) + len(r.Value))
				if left <= 0 || size > left && some {
					break
				}
				if size > max(int64(req.MaxBytes), req.MaxBatchBytes) || log.heavy && !req.Stream {
					got.Heavy, some, used = int(size), true, used+size
					break
				}
				left -= size
				c.sent += size
				got.Records = append(got.Records, limited(r, req.Limits))
				got.Next, some = r.Offset+1, true
			}
			if left > 0 && got.Next < log.next && (len(log.records) == 0 || log.records[len(log.records)-1].Offset < got.Next) {
				got.Next, some = log.next, true // only control records follow, which a fetch skips
			}
		}
		some = some || got.Err != nil
		if req.Stream && len(got.Records) > 0 {
			read := got
			got.Portions, got.Records, got.Next = onePortion{read, log.reading}, nil, p.Offset
		}
		res.Partitions = append(res.Partitions, got)
	}
	return res, some
}

// quota is a limit of bytes in ten seconds; bytes is 0 when there is none. As in Kafka, an answer contains at most that
// many bytes, and an answer that exceeds the quota is replaced by one without partitions that asks for a pause.
type quota struct {
	leader      int32 // the broker that has the quota; 0: every broker
	bytes, used int64
	since       time.Time
}

func (q *quota) limit(bytes int64) int64 {
	if q.bytes == 0 {
		return bytes
	}
	return min(bytes, q.bytes)
}

func (q *quota) refuses(bytes int64) bool {
	if time.Since(q.since) >= 10*time.Second {
		q.used, q.since = 0, time.Now()
	}
	if q.bytes == 0 || q.used+bytes <= q.bytes {
		q.used += bytes
		return false
	}
	return true
}

func refusal(req broker.FetchRequest) broker.FetchResponse {
	res := broker.FetchResponse{Throttle: time.Second}
	for _, p := range req.Partitions {
		res.Partitions = append(res.Partitions, broker.FetchedPartition{
			TopicPartition: p.TopicPartition, Next: p.Offset, HighWatermark: -1, LastStable: -1, LogStart: -1,
		})
	}
	return res
}

// Mark behaves as if each record were a batch of its own.
func (c *fakeCluster) Mark(_ context.Context, tp broker.TopicPartition, offset int64) (latest int64, crc uint32, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.log(tp).records {
		if r.Offset == offset {
			return r.Time.UnixMilli(), crc32.ChecksumIEEE(r.Value), true, c.down
		}
	}
	return 0, 0, false, c.down
}

// onePortion is a broker.Portions that returns all of its records in one portion.
type onePortion struct {
	got    broker.FetchedPartition
	before func()
}

func (p onePortion) Read(*broker.MemoryReservation, int64) (broker.FetchedPartition, bool, error) {
	if p.before != nil {
		p.before()
	}
	return p.got, true, nil
}

// limited returns the record as a real broker.Cluster returns it under the limit l.RecordBytes, if the key alone is
// within the limit.
func limited(r broker.Record, l broker.Limits) broker.Record {
	if int64(len(r.Key)+len(r.Value)) > l.RecordBytes {
		r.Defect = &broker.Defect{
			Limit: broker.LimitRecordBytes, Size: int64(len(r.Value)), SHA256: sha256.Sum256(r.Value), ValueOmitted: true, Last: r.Offset,
		}
		r.Value = nil
	}
	return r
}

func (c *fakeCluster) fetched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetches
}

// heldBytes returns the number of bytes of keys and values that the cluster has returned so far.
func heldBytes(c *fakeCluster) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

func (c *fakeCluster) Group(broker.GroupConfig) (*kafka.ConsumerGroup, error) {
	return nil, errors.New("the fake has no groups")
}

// fakeStore is a store in memory, in which tests can cause faults.
type fakeStore struct {
	*fake.Store
	mu      sync.Mutex
	fail    func() error             // called before a batch is stored; its error becomes the error of the call
	lose    func() error             // called after a batch was stored; its error becomes the error of the call
	hang    chan struct{}            // while it is open, no call below returns, even after its context has ended
	opening chan struct{}            // the next call of OpenPosition waits until it is closed; nil: it does not wait
	before  func(b repository.Batch) // called with every batch before it is stored
	calls   int
	noting  func([]repository.TopicGroup) error // called before consumer groups are stored

	fingerprinting func([]entity.Fingerprint) error // called before fingerprints are stored
	mapping        func() (entity.Mapping, error)   // called in place of reading the stored mapping; nil reads it

	tracing chan trace.SpanContext // receives the span context of each try to store a batch; nil when it is not needed
}

func (s *fakeStore) AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error) {
	s.hung()
	s.mu.Lock()
	before := s.fingerprinting
	s.mu.Unlock()
	if before != nil {
		var fingerprints []entity.Fingerprint
		for _, f := range failures {
			fingerprints = append(fingerprints, f.Fingerprint)
		}
		if err := before(fingerprints); err != nil {
			return nil, err
		}
	}
	return s.Store.AdmitFingerprints(ctx, failures)
}

func (s *fakeStore) Mapping(ctx context.Context) (entity.Mapping, error) {
	s.hung()
	s.mu.Lock()
	mapping := s.mapping
	s.mu.Unlock()
	if mapping != nil {
		return mapping()
	}
	return s.Store.Mapping(ctx)
}

func (s *fakeStore) SaveConsumerGroups(ctx context.Context, groups []repository.TopicGroup) error {
	s.hung()
	s.mu.Lock()
	noting := s.noting
	s.mu.Unlock()
	if noting != nil {
		if err := noting(groups); err != nil {
			return err
		}
	}
	return s.Store.SaveConsumerGroups(ctx, groups)
}

func (s *fakeStore) hung() {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
}

func (s *fakeStore) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *fakeStore) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *fakeStore) OpenTopics(ctx context.Context, t []repository.Topic) ([]repository.TopicRef, error) {
	s.hung()
	return s.Store.OpenTopics(ctx, t)
}

func (s *fakeStore) OpenPosition(ctx context.Context, p []repository.Position) ([]repository.Position, error) {
	s.hung()
	s.mu.Lock()
	opening := s.opening
	s.opening = nil
	s.mu.Unlock()
	if opening != nil {
		<-opening
	}
	return s.Store.OpenPosition(ctx, p)
}

// faultyStore adds the method Store to fakeStore, which cannot have this method because it embeds a type named Store.
type faultyStore struct{ *fakeStore }

func (s faultyStore) Store(ctx context.Context, b repository.Batch) (repository.Stored, error) {
	s.hung()
	if s.tracing != nil {
		s.tracing <- trace.SpanContextFromContext(ctx)
	}
	s.mu.Lock()
	fail, lose, before := s.fail, s.lose, s.before
	s.calls++
	s.mu.Unlock()
	if before != nil {
		before(b)
	}
	if fail != nil {
		if err := fail(); err != nil {
			return repository.Stored{}, err
		}
	}
	stored, err := s.fakeStore.Store.Store(ctx, b)
	if err == nil && lose != nil {
		if err = lose(); err != nil {
			stored = repository.Stored{}
		}
	}
	return stored, err
}

// world is an ingester with a fakeCluster and a fakeStore.
type world struct {
	t       *testing.T
	cluster *fakeCluster
	store   *fakeStore
	i       *Ingester
	logged  *observer.ObservedLogs

	mu        sync.Mutex
	committed map[broker.TopicPartition]int64
	commitErr error
	commits   int
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(t)
	decoder := check.Must(deadletter.New(deadletter.Config{}, patterns))(t)
	cfg := DefaultConfig()
	for _, c := range change {
		c(&cfg)
	}
	w := &world{
		t: t, cluster: newFakeCluster(), committed: map[broker.TopicPartition]int64{},
		store: &fakeStore{Store: fake.New(time.Now)},
	}
	core, logged := observer.New(zap.DebugLevel)
	w.logged = logged
	w.i = New(cfg, "group", patterns, w.cluster, decoder, stores.Fill[Stores](faultyStore{w.store}), prometheus.NewRegistry(), zap.New(core))
	return w
}

// bubble returns a test that runs with the fake time of testing/synctest in a new world.
func bubble(do func(w *world), change ...func(*Config)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { do(newWorld(t, change...)) })
	}
}

func (w *world) commit(offsets map[string]map[int]int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits++
	if w.commitErr != nil {
		return w.commitErr
	}
	for topic, parts := range offsets {
		for p, next := range parts {
			w.committed[broker.TopicPartition{Topic: topic, Partition: int32(p)}] = next
		}
	}
	return nil
}

func (w *world) commitsSeen() map[broker.TopicPartition]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[broker.TopicPartition]int64{}
	for tp, n := range w.committed {
		out[tp] = n
	}
	return out
}

// start runs a generation that reads the given partitions. stop ends it and returns its error. The end of the test ends
// the generation too.
func (w *world) start(parts ...broker.TopicPartition) (ended <-chan error, stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	reading := w.i.read(ctx, partitionsOf(parts), w.commit)
	go func() {
		defer close(done)
		<-reading.ended
		reading.commits.flush()
		done <- reading.err
	}()
	stop = func() error { cancel(); return <-done }
	w.t.Cleanup(func() { _ = stop() })
	return done, stop
}

func partitionsOf(parts []broker.TopicPartition) (out []*partition) {
	for _, tp := range parts {
		out = append(out, &partition{TopicPartition: tp})
	}
	return out
}

// messages returns the stored messages of a dead-letter topic, ordered by incarnation, partition and offset.
func (w *world) messages(topic string) []entity.Message {
	w.t.Helper()
	var out []entity.Message
	for page := 1; page <= 1000; page++ {
		list := check.Must(w.store.List(context.Background(), topic, repository.Page{Number: page, Size: 1000}))(w.t)
		for _, m := range list.Messages {
			whole := check.Must(w.store.Get(context.Background(), m.ID, -1))(w.t)
			out = append(out, whole)
		}
		if !list.HasNext(repository.Page{Number: page, Size: 1000}) {
			break
		}
	}
	slices.SortFunc(out, func(a, b entity.Message) int {
		return int(a.Source.Incarnation-b.Source.Incarnation)*1_000_000_000 +
			int(a.Source.Partition-b.Source.Partition)*1_000_000 + int(a.Source.Offset-b.Source.Offset)
	})
	return out
}

// wantOffsets checks that the stored messages of a partition have exactly the offsets from..to-1. The parameter life is
// the store's number of the topic's incarnation: 1 for the first.
func (w *world) wantOffsets(topic string, life, partition int32, from, to int64) {
	w.t.Helper()
	var got []int64
	for _, m := range w.messages(topic) {
		if m.Source.Incarnation == life && m.Source.Partition == partition {
			got = append(got, m.Source.Offset)
		}
	}
	var want []int64
	for n := from; n < to; n++ {
		want = append(want, n)
	}
	check.True(w.t, slices.Equal(got, want),
		"offsets of %s/%d, life %d = %v, want %d to %d", topic, partition, life, brief(got), from, to-1)
}

func brief(n []int64) string {
	if len(n) > 20 {
		return fmt.Sprintf("%v... (%d)", n[:20], len(n))
	}
	return fmt.Sprint(n)
}

func part(topic string, n int32) broker.TopicPartition {
	return broker.TopicPartition{Topic: topic, Partition: n}
}

func numbered(n int) []broker.Record {
	out := make([]broker.Record, n)
	for i := range out {
		out[i].Value = fmt.Appendf(nil, `{"n":%d}`, i)
	}
	return out
}
