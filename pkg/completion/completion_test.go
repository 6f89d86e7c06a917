package completion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var dead = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fakes is a store, and a cluster with one record at each even offset of every partition.
type fakes struct {
	errs     map[string]error // the errors with which reads of a topic fail, by topic
	internal string
	away     error                                                            // error that Topics returns; nil when Kafka answers
	end      int64                                                            // end offset of each log; 0 for logs that never end
	hang     func(ctx context.Context, at broker.TopicPartition) (stop error) // called by each read; when it returns an error, the read fails with this error

	mu    sync.Mutex
	scans int
	reads int

	pointers []repository.Pointer
	saved    []repository.Completion
	save     func() // called before completions are saved, if it is not nil
}

func (f *fakes) Topics(_ context.Context, names ...string) ([]broker.Topic, error) {
	if f.away != nil {
		return nil, f.away
	}
	var all []broker.Topic
	for _, name := range names {
		t := broker.Topic{Name: name, Internal: name == f.internal}
		if name == "deleted" {
			t.Err = broker.ErrUnknownTopic
		}
		all = append(all, t)
	}
	return all, nil
}

func (f *fakes) record(at broker.TopicPartition, offset int64) broker.Record {
	return broker.Record{
		TopicPartition: at, Offset: offset, Key: fmt.Appendf(nil, "k%d", offset), Value: []byte("value"), Time: dead.Add(-time.Second),
		Headers: []entity.Header{{Key: "trace", Value: []byte("t")}},
	}
}

func (f *fakes) ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	if f.hang != nil {
		if err := f.hang(ctx, tp); err != nil {
			return broker.Record{}, err
		}
	}
	switch {
	case f.errs[tp.Topic] != nil:
		return broker.Record{}, f.errs[tp.Topic]
	case f.end > 0 && offset >= f.end:
		return broker.Record{}, broker.ErrOutOfRange
	case offset%2 != 0:
		return broker.Record{}, broker.ErrGone
	}
	return f.record(tp, offset), nil
}

func (f *fakes) Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, _ string, fn func(broker.Record) bool) error {
	f.mu.Lock()
	f.scans++
	f.mu.Unlock()
	if f.hang != nil {
		if err := f.hang(ctx, tp); err != nil {
			return err
		}
	}
	if f.end > 0 && to > f.end { // like broker.Scan, waits for offsets after the end of the log
		<-ctx.Done()
		return ctx.Err()
	}
	if f.errs[tp.Topic] != nil {
		return f.errs[tp.Topic]
	}
	for offset := from; offset < to; offset++ {
		if offset%2 == 0 && fn(f.record(tp, offset)) {
			return nil
		}
	}
	return nil
}

func (f *fakes) TakePointers(context.Context, int, int64, time.Duration) ([]repository.Pointer, error) {
	taken := f.pointers
	f.pointers = nil
	return taken, nil
}

func (f *fakes) SaveCompletions(_ context.Context, done []repository.Completion, _ func(*entity.Message) bool) ([]repository.Arrival, error) {
	if f.save != nil {
		f.save()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved = append(f.saved, done...)
	return nil, nil
}

func (f *fakes) CountPointers(context.Context, map[string]time.Time) ([]repository.PointerCount, error) {
	return nil, nil
}
func (f *fakes) ForgetPointers(context.Context, int) (int, error) { return 0, nil }

// pointer returns a share group's dead letter that points to the record at the offset of partition 0.
func pointer(topic string, offset int64) repository.Pointer {
	m := entity.NewMessage(topic, "rejected", dead)
	m.Source = entity.Source{Topic: "dlq.orders", Timestamp: dead}
	m.Origin.Partition, m.Origin.Offset = new(int32), &offset
	m.Failure = entity.Failure{ConsumerGroup: "g", Dialect: "sharegroup"}
	m.Record.Headers = []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(topic)}}
	m.Share = &entity.ShareRecord{State: entity.CompletionWaiting, Digest: noRecord}
	return repository.Pointer{Message: m, LastDeath: dead}
}

var errUnconfirmed = errors.New("no state")

// newWorker returns a Worker. The cluster confirms all pointers except those into the topics unconfirmed and deleted.
func newWorker(f *fakes) *Worker {
	confirms := func(_, _ string, at broker.TopicPartition) error {
		switch at.Topic {
		case "unconfirmed":
			return errUnconfirmed
		case "deleted":
			return entity.ErrNoShareState
		}
		return nil
	}
	return New(f, f, confirms, nil, 10, prometheus.NewRegistry(), zap.NewNop())
}

func (f *fakes) step(t *testing.T, w *Worker, pointers ...repository.Pointer) map[int64]repository.Completion {
	t.Helper()
	f.pointers, f.saved = slices.Clone(pointers), nil
	check.NoError(t, check.Err(w.step(t.Context())))
	saved := map[int64]repository.Completion{}
	for _, c := range f.saved {
		saved[*c.Message.Origin.Offset] = c
	}
	check.Len(t, saved, len(pointers), "completions")
	return saved
}

func TestResults(t *testing.T) {
	t.Parallel()
	tried := func(p repository.Pointer, tries int) repository.Pointer {
		p.Tries = tries
		return p
	}
	since := func(p repository.Pointer, age time.Duration, reason string) repository.Pointer {
		p.Tries, p.ReasonAge, p.Message.Share.Reason = 5, age, reason
		return p
	}
	const short, missing = "topic orders ends before offset 2 of partition 0: it was deleted and created again", "topic orders, partition 0, does not exist"
	copied := func(digest []byte) repository.Pointer {
		p := pointer("orders", 2)
		p.Message.Share.Digest = digest
		return p
	}
	early := func(latest time.Time) repository.Pointer {
		p := pointer("orders", 2)
		p.Message.Source.Timestamp, p.LastDeath = dead.Add(-time.Hour), latest
		return p
	}
	mapped, earlyCopy := pointer("orders", 2), copied(entity.DeadLetterDigest([]byte("k2"), []byte("value")))
	mapped.Message.OriginalTopic, earlyCopy.LastDeath = "elsewhere", dead.Add(-time.Hour)
	for _, tt := range []struct {
		name   string
		p      repository.Pointer
		err    error
		state  entity.Completion
		reason string
		again  time.Duration
	}{
		{"completed", pointer("orders", 2), nil, entity.Completed, "", 0},
		{"copied", copied(entity.DeadLetterDigest([]byte("k2"), []byte("value"))), nil, entity.Completed, "", 0},
		{"forged value", copied(entity.DeadLetterDigest([]byte("k2"), []byte("other"))), nil, entity.CompletionRefused, "another key or value", 0},
		{"removed", pointer("orders", 3), nil, entity.SourceGone, "no record at offset 3", 0},
		{"log too short yet", pointer("orders", 2), broker.ErrOutOfRange, entity.CompletionWaiting, "ends before offset 2", 2 * time.Second},
		{"log too short", since(pointer("orders", 2), 59*time.Minute, short), broker.ErrOutOfRange, entity.CompletionRefused, short, 64 * time.Second},
		{"log too short for an hour", since(pointer("orders", 2), time.Hour, short), broker.ErrOutOfRange, entity.SourceGone, short, 0},
		{"log too short after an hour without permission", since(pointer("orders", 2), time.Hour, "READ"), broker.ErrOutOfRange, entity.CompletionRefused, short, 64 * time.Second},
		{"later record", early(dead.Add(-time.Hour)), nil, entity.CompletionRefused, "clock is more than a minute ahead", 0},
		{"later record, copied", earlyCopy, nil, entity.Completed, "", 0},
		{"no topic yet", pointer("orders", 2), broker.ErrUnknownTopic, entity.CompletionWaiting, "does not exist", 2 * time.Second},
		{"no topic", tried(pointer("orders", 2), 3), broker.ErrUnknownTopic, entity.CompletionRefused, "does not exist", 16 * time.Second},
		{"no topic for an hour", since(pointer("orders", 2), time.Hour, missing), broker.ErrUnknownTopic, entity.SourceGone, missing, 0},
		{"deleted with the group's state", tried(pointer("deleted", 2), 3), nil, entity.CompletionRefused, "topic deleted, partition 0, does not exist", 16 * time.Second},
		{"later record, but an even later dead letter", early(dead), nil, entity.Completed, "", 0},
		{"unconfirmed for half a day", tried(pointer("unconfirmed", 2), 150), nil, entity.CompletionRefused, "no state", time.Hour},
		{"no permission", tried(pointer("orders", 2), 5), broker.ErrUnauthorized, entity.CompletionRefused, "READ", 64 * time.Second},
		{"no permission for long", tried(pointer("orders", 2), 50), broker.ErrUnauthorized, entity.CompletionRefused, "READ", 5 * time.Minute},
		{"no leader", tried(pointer("orders", 2), 5), broker.ErrNoLeader, entity.CompletionWaiting, "cannot be read now", 64 * time.Second},
		{"too large for the broker's answer", pointer("orders", 2), broker.ErrTooLarge, entity.CompletionRefused, "cannot be read", 0},
		{"too large to store", pointer("orders", 1_000_000), nil, entity.CompletionRefused, "ingest.max_record_bytes", 0},
		{"unconfirmed at first", pointer("unconfirmed", 2), nil, entity.CompletionWaiting, "no state", 2 * time.Second},
		{"unconfirmed", tried(pointer("unconfirmed", 2), 3), nil, entity.CompletionRefused, "no state", 16 * time.Second},
		{"internal by name", tried(pointer("__secret", 2), 3), nil, entity.CompletionRefused, "is internal", 16 * time.Second},
		{"internal by Kafka", pointer("hidden", 2), nil, entity.CompletionRefused, "is internal", 0},
		{"mapped to another topic", tried(mapped, 3), nil, entity.CompletionRefused, "original topic was changed", 16 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fakes{errs: map[string]error{"orders": tt.err}, internal: "hidden"}
			got := f.step(t, newWorker(f), tt.p)[*tt.p.Message.Origin.Offset]
			check.True(t, got.State == tt.state && strings.Contains(got.Reason, tt.reason) && got.Again == tt.again,
				"completion is %s %q, again in %s; want %s %q, %s", got.State, got.Reason, got.Again, tt.state, tt.reason, tt.again)
		})
	}
}

// TestNeighboursAreReadTogether: records that lie close together are read with one request; records that this request
// does not return are read one by one.
func TestNeighboursAreReadTogether(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	w := newWorker(f)
	got := f.step(t, w, pointer("orders", 8), pointer("orders", 2), pointer("orders", 5), pointer("orders", 4))
	check.True(t, f.scans == 1 && f.reads == 2, "%d scans and %d reads, want one scan, and reads of the last and of the missing record", f.scans, f.reads)
	check.Equal(t, got[5].State, entity.SourceGone, "state of offset 5")
	for _, offset := range []int64{2, 4, 8} {
		check.Equal(t, got[offset].Record, entity.Record{
			Key: fmt.Appendf(nil, "k%d", offset), Value: []byte("value"), Headers: []entity.Header{{Key: "trace", Value: []byte("t")}}, Size: 5,
		}, "record")
		check.Equal(t, got[offset].Timestamp, dead.Add(-time.Second), "timestamp")
	}
	f.scans, f.reads = 0, 0
	f.step(t, w, pointer("orders", 0), pointer("orders", 100_000))
	check.True(t, f.scans == 0 && f.reads == 2, "%d scans and %d reads of distant records, want two reads", f.scans, f.reads)
	check.Equal(t, testutil.ToFloat64(w.results.WithLabelValues("completed")), 4.0, "completed")
}

// TestOnePartitionStopsNoOther: after one read of a partition has failed for the whole partition, its other records are
// not tried, and the records of other partitions are still read.
func TestOnePartitionStopsNoOther(t *testing.T) {
	t.Parallel()
	f := &fakes{errs: map[string]error{"away": broker.ErrUnavailable}}
	got := f.step(t, newWorker(f), pointer("away", 1), pointer("away", 100_001), pointer("away", 200_003), pointer("orders", 2))
	check.Equal(t, f.reads, 2, "reads")
	check.Equal(t, got[2].State, entity.Completed, "state of the other topic")
	check.Equal(t, got[200_003].State, entity.CompletionWaiting, "state of the topic that is away")
}

// TestRecordsAfterTheEnd: dead letters that name offsets after the end of the log do not delay other dead letters.
func TestRecordsAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := &fakes{end: 6}
	got := f.step(t, newWorker(f), pointer("orders", 2), pointer("orders", 4), pointer("orders", 8), pointer("orders", 10))
	check.Equal(t, f.scans, 0, "scans of one record")
	for offset, want := range map[int64]entity.Completion{
		2: entity.Completed, 4: entity.Completed, 8: entity.CompletionWaiting, 10: entity.CompletionWaiting,
	} {
		check.Equal(t, got[offset].State, want, "state")
	}
}

// TestPartitionsThatHang: while the leaders of some partitions do not answer, new records of other partitions are read
// first and saved. The call of step ends before its lease. Messages whose partition was not reached are due again at
// once, without a counted try.
func TestPartitionsThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hanging = 12
		var firstSave time.Duration
		begin := time.Now()
		f := &fakes{hang: func(ctx context.Context, at broker.TopicPartition) error {
			if at.Topic == "hangs" {
				<-ctx.Done()
				return broker.ErrUnavailable
			}
			return nil
		}}
		f.save = func() { firstSave = cmp.Or(firstSave, time.Since(begin)) }
		var pointers []repository.Pointer
		for i := range int64(hanging) {
			p := pointer("hangs", i)
			partition := int32(i)
			p.Message.Origin.Partition, p.Tries = &partition, 1
			pointers = append(pointers, p)
		}
		got := f.step(t, newWorker(f), append(pointers, pointer("orders", 100))...)
		check.True(t, time.Since(begin) < lease-saveTimeout, "the step took %s", time.Since(begin))
		check.True(t, firstSave <= saveInterval, "saved for the first time after %s", firstSave)
		tried, untried := 0, 0
		for offset, c := range got {
			switch {
			case c.Untried && c.Again == time.Millisecond:
				untried++
			case offset < hanging && !c.Untried && c.Again == 2*firstAgain:
				tried++
			}
		}
		check.True(t, tried >= atOnce && untried > 0, "%d messages tried and %d given back, want some of each", tried, untried)
	})
}

// TestKafkaIsAway: when Kafka does not even answer the request for the topics, all messages wait, without a counted
// try.
func TestKafkaIsAway(t *testing.T) {
	t.Parallel()
	f := &fakes{pointers: []repository.Pointer{pointer("orders", 2)}, away: broker.ErrUnavailable}
	_, err := newWorker(f).step(t.Context())
	check.Is(t, err, broker.ErrUnavailable, "step")
	check.True(t, len(f.saved) == 1 && f.saved[0].Untried && f.saved[0].State == entity.CompletionWaiting, "saved %+v", f.saved)
}

// TestReturn: when the headers of the record that completes a message name an attempt, the message's field Return names
// that attempt.
func TestReturn(t *testing.T) {
	t.Parallel()
	id := "018f2d1c-1c5b-7c3a-9d0e-3f6a7b8c9d0e"
	headers := []entity.Header{
		{Key: deadletter.HeaderMessageID, Value: []byte(id)},
		{Key: deadletter.HeaderRootID, Value: []byte(id)},
		{Key: deadletter.HeaderRetryCount, Value: []byte("1")},
		{Key: deadletter.HeaderRedriveID, Value: []byte(id)},
	}
	w := newWorker(&fakes{})
	got := w.completed(pointer("orders", 2), broker.Record{Headers: headers})
	check.True(t, got.Message.Return != nil && got.Message.Return.Parent.String() == id, "Return = %+v", got.Message.Return)
}

// queue is a store that takes due messages in the order of PostgreSQL: first those that were never tried, then those
// that are due for the longest time.
type queue struct {
	fakes
	mu   sync.Mutex
	rows []*row
}

type row struct {
	p   repository.Pointer
	due time.Time // zero when the message is never due again
}

func (q *queue) TakePointers(_ context.Context, limit int, _ int64, lease time.Duration) ([]repository.Pointer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []*row
	for _, r := range q.rows {
		if !r.due.IsZero() && !r.due.After(time.Now()) {
			due = append(due, r)
		}
	}
	slices.SortStableFunc(due, func(a, b *row) int {
		return cmp.Or(cmp.Compare(min(a.p.Tries, 1), min(b.p.Tries, 1)), a.due.Compare(b.due))
	})
	var taken []repository.Pointer
	for _, r := range due[:min(limit, len(due))] {
		taken = append(taken, r.p)
		r.p.Tries++
		r.due = time.Now().Add(lease)
	}
	return taken, nil
}

func (q *queue) SaveCompletions(_ context.Context, done []repository.Completion, _ func(*entity.Message) bool) ([]repository.Arrival, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range done {
		for _, r := range q.rows {
			if r.p.Message.ID != c.Message.ID {
				continue
			}
			r.p.Message.Share = &entity.ShareRecord{State: c.State, Digest: noRecord}
			if c.Untried {
				r.p.Tries--
			}
			if r.due = (time.Time{}); c.Again > 0 {
				r.due = time.Now().Add(c.Again)
			}
		}
	}
	return nil, nil
}

// TestBacklogOfAPartitionThatHangs: a partition whose leader does not answer has a backlog of thousands. New records of
// another topic are still stored within half a minute.
func TestBacklogOfAPartitionThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{fakes: fakes{hang: func(ctx context.Context, at broker.TopicPartition) error {
			if at.Topic == "hangs" {
				<-ctx.Done()
				return broker.ErrUnavailable
			}
			return nil
		}}}
		now := time.Now()
		for i := range int64(3000) {
			q.rows = append(q.rows, &row{p: pointer("hangs", i), due: now})
		}
		healthy := &row{p: pointer("orders", 2), due: now.Add(time.Second)}
		q.rows = append(q.rows, healthy)
		w := newWorker(&q.fakes)
		w.store = q
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(ctx); close(ended) }()
		for range 6000 {
			<-time.After(100 * time.Millisecond)
			q.mu.Lock()
			state := healthy.p.Message.Share.State
			q.mu.Unlock()
			if state == entity.Completed {
				break
			}
		}
		took := time.Since(now)
		stop()
		<-ended
		check.True(t, took < 30*time.Second, "the record of the healthy topic was stored after %s", took)
	})
}

// TestSlowPartition: a partition answers, but too slowly for all of its records to be read within readTimeout. Messages
// whose records were not reached have no counted try.
func TestSlowPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{hang: func(ctx context.Context, _ broker.TopicPartition) error {
			select {
			case <-time.After(100 * time.Millisecond): // each read takes as long as that of a record of a few MB
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		var pointers []repository.Pointer
		for i := range int64(200) {
			p := pointer("orders", i*1000)
			p.Tries = 6
			pointers = append(pointers, p)
		}
		got := f.step(t, newWorker(f), pointers...)
		worst := time.Duration(0)
		for _, c := range got {
			if c.State != entity.Completed && !c.Untried {
				worst = cmp.Or(max(worst, c.Again), worst)
			}
		}
		check.Equal(t, worst, 0, "pause of records that were not tried")
	})
}
