// Package completion stores the records to which the dead letters of share groups point. A broker copies key and value
// only if the group's configuration says so, and never headers and timestamp; when the original topic's retention ends
// before a record was read, that record is lost. So each dead letter is completed within seconds of its arrival.
package completion

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Cluster is the part of Kafka that a Worker reads; its methods behave as those of broker.Cluster.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error)
	Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) (stop bool)) error
}

// Confirms returns why the cluster does not confirm that a group's dead letter in a topic points to a partition; nil when
// it does. It is sharegroup.Snapshot.CheckPointer as of now.
type Confirms func(dlqTopic, group string, at broker.TopicPartition) error

const (
	takeAtOnce = 500
	lease      = time.Minute
	idle       = 500 * time.Millisecond
	// readTimeout limits the reading of one partition's records, so that a leader that does not answer costs little.
	readTimeout = 10 * time.Second
	// atOnce is how many partitions are read at the same time.
	atOnce = 3
	// saveBytes is how many bytes of records are saved at once.
	saveBytes   = 4 << 20
	saveTimeout = 30 * time.Second
	// sparse is how many offsets for each wanted record are read at most, to get many records with one request.
	sparse = 20

	// patience is how many tries may fail before a message is shown as refused: a new group's state appears later.
	patience   = 3
	firstAgain = 2 * time.Second
	lastAgain  = 5 * time.Minute

	forgetInterval = time.Hour
	forgetAtOnce   = 10_000
)

// Worker completes messages. Any number of workers may run.
type Worker struct {
	store    repository.Shares
	cluster  Cluster
	confirms Confirms
	declared func(*entity.Message) bool
	limit    int64 // largest size, in bytes, of the key and the value of a record that is stored
	results  *prometheus.CounterVec
	log      *zap.Logger
}

// New returns a Worker. declared is repository.Batch.Declared; records whose key and value have together more than
// limit bytes stay in their topic.
func New(
	store repository.Shares, cluster Cluster, confirms Confirms, declared func(*entity.Message) bool, limit int64,
	registry prometheus.Registerer, log *zap.Logger,
) *Worker {
	results := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_completions_total",
		Help: "Dead letters of share groups whose record was read from its topic (completed), was removed from it before (gone), " +
			"or may not be read (refused; each try counts).",
	}, []string{"result"})
	registry.MustRegister(results)
	for _, state := range []entity.Completion{entity.Completed, entity.SourceGone, entity.CompletionRefused} {
		results.WithLabelValues(string(state))
	}
	return &Worker{store, cluster, confirms, declared, limit, results, log}
}

// Run completes messages until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	var forgotten time.Time
	for out := new(outage.Log); ctx.Err() == nil; {
		taken, err := w.step(ctx)
		if err == nil && time.Since(forgotten) >= forgetInterval {
			forgotten = time.Now()
			err = w.forget(ctx)
		}
		out.Report(ctx, w.log, err, "dead letters of share groups cannot be completed", "dead letters of share groups are completed again")
		if taken < takeAtOnce || err != nil {
			wait.Sleep(ctx, idle)
		}
	}
}

func (w *Worker) forget(ctx context.Context) error {
	for {
		n, err := w.store.ForgetPointers(ctx, forgetAtOnce)
		if err != nil || n < forgetAtOnce {
			return err
		}
	}
}

// step completes the messages that are due, and returns how many there were.
func (w *Worker) step(ctx context.Context) (int, error) {
	taken, err := w.store.TakePointers(ctx, takeAtOnce, lease)
	if err != nil || len(taken) == 0 {
		return 0, err
	}
	b := &batch{w: w}
	sources := map[broker.TopicPartition][]repository.Pointer{}
	for _, p := range taken {
		if err := w.refusal(&p.Message); err != nil {
			b.add(ctx, again(p, err))
			continue
		}
		at, _ := sourceOf(&p.Message)
		sources[at] = append(sources[at], p)
	}
	internal, err := w.internal(ctx, sources)
	if err != nil {
		return 0, err
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for at, pointers := range sources {
		if internal[at.Topic] {
			for _, p := range pointers {
				b.add(ctx, refused(p, fmt.Sprintf("topic %s is internal", at.Topic)))
			}
			continue
		}
		g.Go(func() error {
			bounded, cancel := context.WithTimeout(inner, readTimeout)
			defer cancel()
			w.read(bounded, b, at, pointers)
			return nil
		})
	}
	_ = g.Wait()
	b.flush(ctx)
	return len(taken), b.err
}

// sourceOf returns the position of the record to which a message points; see deadletter.PointsToOrigin.
func sourceOf(m *entity.Message) (broker.TopicPartition, int64) {
	return broker.TopicPartition{Topic: m.OriginalTopic, Partition: *m.Origin.Partition}, *m.Origin.Offset
}

// refusal returns why a message's record must not be read.
func (w *Worker) refusal(m *entity.Message) error {
	if m.OriginalTopic == "" || !deadletter.PointsToOrigin(m) {
		return errors.New("the original topic was changed: partition and offset do not belong to it")
	}
	at, _ := sourceOf(m)
	if entity.IsInternalTopic(at.Topic) {
		return fmt.Errorf("topic %s is internal", at.Topic)
	}
	return w.confirms(m.Source.Topic, m.Failure.ConsumerGroup, at)
}

// internal returns which of the topics Kafka marks as internal: Kafka may mark a topic of any name.
func (w *Worker) internal(ctx context.Context, sources map[broker.TopicPartition][]repository.Pointer) (map[string]bool, error) {
	var names []string
	for at := range sources {
		names = append(names, at.Topic)
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	topics, err := w.cluster.Topics(ctx, slices.Compact(names)...)
	if err != nil {
		return nil, fmt.Errorf("look for topics: %w", err)
	}
	internal := map[string]bool{}
	for _, t := range topics {
		internal[t.Name] = t.Internal
	}
	return internal, nil
}

// read reads the records of one partition. Neighbours are read with one request.
func (w *Worker) read(ctx context.Context, b *batch, at broker.TopicPartition, pointers []repository.Pointer) {
	offset := func(p repository.Pointer) int64 { _, o := sourceOf(&p.Message); return o }
	slices.SortFunc(pointers, func(a, b repository.Pointer) int { return cmp.Compare(offset(a), offset(b)) })
	first, last := offset(pointers[0]), offset(pointers[len(pointers)-1])
	if len(pointers) > 1 && last-first < sparse*int64(len(pointers)) {
		wanted := map[int64][]repository.Pointer{}
		for _, p := range pointers {
			wanted[offset(p)] = append(wanted[offset(p)], p)
		}
		// An error leaves the rest of the records to single reads.
		_ = w.cluster.Scan(ctx, at, first, last+1, "", func(rec broker.Record) bool {
			if rec.Control || rec.Defect != nil {
				return false
			}
			if found := wanted[rec.Offset]; len(found) > 0 {
				rec = rec.Clone()
				for _, p := range found {
					b.add(ctx, w.completed(p, rec))
				}
				delete(wanted, rec.Offset)
			}
			return len(wanted) == 0
		})
		pointers = slices.DeleteFunc(pointers, func(p repository.Pointer) bool { return wanted[offset(p)] == nil })
	}
	for i, p := range pointers {
		rec, err := w.cluster.ReadAt(ctx, at, offset(p))
		if err == nil {
			b.add(ctx, w.completed(p, rec))
			continue
		}
		done := failed(p, at, err)
		b.add(ctx, done)
		if done.State == entity.CompletionWaiting { // the partition cannot be read now
			for _, other := range pointers[i+1:] {
				b.add(ctx, failed(other, at, err))
			}
			return
		}
	}
}

// completed returns the completion of a message with a record. A record that is newer than its dead letter is a
// different record: the topic was created again.
func (w *Worker) completed(p repository.Pointer, rec broker.Record) repository.Completion {
	m := p.Message
	if deadletter.IsLaterRecord(rec.Time, m.Source.Timestamp) {
		return gone(p, "the original topic has a later record at this offset: it was deleted and created again")
	}
	if !bytes.Equal(m.Share.Digest, noRecord) && !bytes.Equal(m.Share.Digest, entity.DeadLetterDigest(rec.Key, rec.Value)) {
		return refused(p, "the dead letter has another key or value than the record that it names")
	}
	if size := int64(len(rec.Key) + len(rec.Value)); size > w.limit {
		return refused(p, fmt.Sprintf("the record has %d bytes, more than the %d of ingest.max_record_bytes; it stays in its topic", size, w.limit))
	}
	m.Return = deadletter.ReturnOf(rec.Headers)
	return repository.Completion{
		Message: m, State: entity.Completed, Timestamp: entity.TruncateTime(rec.Time),
		Record: entity.Record{Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Size: int64(len(rec.Value))},
	}
}

// noRecord is the digest of a dead letter that has no copy of its record.
var noRecord = entity.DeadLetterDigest(nil, nil)

// failed returns the result of a read that failed.
func failed(p repository.Pointer, at broker.TopicPartition, err error) repository.Completion {
	_, offset := sourceOf(&p.Message)
	switch {
	case errors.Is(err, broker.ErrGone):
		return gone(p, fmt.Sprintf("topic %s has no record at offset %d of partition %d: retention, compaction or an operator removed it, "+
			"or the broker wrote a dead letter of a transaction's end", at.Topic, offset, at.Partition))
	case errors.Is(err, broker.ErrOutOfRange):
		return gone(p, fmt.Sprintf("topic %s ends before offset %d of partition %d: it was deleted and created again", at.Topic, offset, at.Partition))
	case errors.Is(err, broker.ErrUnknownTopic) && p.Tries >= patience:
		return gone(p, fmt.Sprintf("topic %s, partition %d, does not exist", at.Topic, at.Partition))
	case errors.Is(err, broker.ErrUnauthorized):
		return again(p, fmt.Errorf("topic %s may not be read: give the user of dlq-manager READ there", at.Topic))
	case errors.Is(err, broker.ErrTooLarge), errors.Is(err, broker.ErrCorrupt):
		return refused(p, fmt.Sprintf("the record in topic %s cannot be read: %v", at.Topic, err))
	default:
		return repository.Completion{
			Message: p.Message, State: entity.CompletionWaiting, Again: pause(p.Tries),
			Reason: fmt.Sprintf("topic %s cannot be read now", at.Topic),
		}
	}
}

func gone(p repository.Pointer, reason string) repository.Completion {
	return repository.Completion{Message: p.Message, State: entity.SourceGone, Reason: reason}
}

func refused(p repository.Pointer, reason string) repository.Completion {
	return repository.Completion{Message: p.Message, State: entity.CompletionRefused, Reason: reason}
}

// again returns a refusal that is checked again.
func again(p repository.Pointer, err error) repository.Completion {
	c := repository.Completion{Message: p.Message, State: entity.CompletionRefused, Reason: err.Error(), Again: pause(p.Tries)}
	if p.Tries < patience {
		c.State = entity.CompletionWaiting
	}
	return c
}

func pause(tries int) time.Duration { return min(firstAgain<<min(tries, 20), lastAgain) }

// batch collects completions, and saves them before they take much memory.
type batch struct {
	w     *Worker
	mu    sync.Mutex
	done  []repository.Completion
	bytes int64
	err   error // error of the first save that failed
}

func (b *batch) add(ctx context.Context, c repository.Completion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = append(b.done, c)
	if b.bytes += int64(len(c.Record.Key) + len(c.Record.Value)); b.bytes >= saveBytes {
		b.save(ctx)
	}
}

func (b *batch) flush(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.save(ctx)
}

// save is called with the lock. Messages that are not saved are due again when their lease ends.
func (b *batch) save(ctx context.Context) {
	if len(b.done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	returns, err := b.w.store.SaveCompletions(ctx, b.done, b.w.declared)
	if err != nil {
		b.err = cmp.Or(b.err, err)
	} else {
		for _, c := range b.done {
			if c.State != entity.CompletionWaiting {
				b.w.results.WithLabelValues(string(c.State)).Inc()
			}
		}
	}
	for _, r := range returns {
		b.w.log.Info("a replay failed again", zap.Stringer("id", r.MessageID), zap.Stringer("parent_id", r.Parent),
			zap.String("topic", r.Topic), zap.Int("retry_count", r.RetryCount), zap.String("status", string(r.Status)))
	}
	b.done, b.bytes = nil, 0
}
