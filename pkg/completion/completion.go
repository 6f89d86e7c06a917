// Package completion stores the records to which the dead letters of share groups point. A broker copies key and value
// of a record into its dead letter only if the group's configuration says so, and never headers and timestamp. When the
// retention of the original topic ends before a record is read, the record is lost. Therefore a Worker reads each
// record within seconds after its dead letter arrived.
package completion

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// Cluster is the part of Kafka that a Worker reads; its methods behave like those of broker.Cluster.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error)
	Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) (stop bool)) error
}

// Confirms is a function that returns nil when a dead letter of the group in the dead-letter topic may point to a
// record of the partition, as far as the cluster shows it; otherwise it returns the reason. See
// sharegroup.Snapshot.CheckPointer.
type Confirms func(dlqTopic, group string, at broker.TopicPartition) error

const (
	takeAtOnce = 500
	takeBytes  = 8 << 20 // one call of step takes no further message when the headers of the taken messages have this many bytes
	// lease is the time for which the messages that a call of step takes belong to its Worker. It is longer than the call,
	// which reads for at most readingTime and then saves for at most saveTimeout.
	lease = time.Minute
	idle  = 500 * time.Millisecond
	// readTimeout limits the time for reading the records of one partition, so that a leader that does not answer
	// delays the other partitions only a little.
	readTimeout = 10 * time.Second
	// readingTime is the time after which a call of step stops reading. Messages whose records were not read within
	// readingTime are due again at once.
	readingTime = 20 * time.Second
	// atOnce is the number of partitions that are read at the same time.
	atOnce = 3
	// saveBytes is the number of bytes of keys and values at which the records that were read are saved. saveInterval
	// is the longest time that a read record waits to be saved.
	saveBytes    = 4 << 20
	saveInterval = time.Second
	saveTimeout  = 30 * time.Second
	// sparse decides whether the wanted records of a partition are read with one request. The records are read together
	// when one request reads fewer than sparse offsets for each wanted record.
	sparse = 20

	// patience is the number of tries for which a message keeps the state CompletionWaiting although its record must
	// not be read or seems to be gone. After them its state is CompletionRefused, and tries go on. The first tries for
	// a message of a new group may fail because the cluster does not report the group's state yet.
	patience = 3
	// certain is the time for which a topic must be missing, or end before the offset of a record, until the record counts
	// as gone. A cluster that is starting may wrongly report for a while that a topic is missing or ends earlier.
	certain = time.Hour
	// awayTime is the time for which a partition that did not answer is not read.
	awayTime   = 30 * time.Second
	firstAgain = 2 * time.Second
	lastAgain  = 5 * time.Minute
	// rareAgain is the pause between two tries for a message after its first rare tries, which take about half a day.
	// The long pause limits the work for dead letters of groups that no configuration ever names.
	rare      = 150
	rareAgain = time.Hour

	forgetInterval = time.Hour
	forgetAtOnce   = 10_000
)

// Worker completes messages. Any number of workers may run.
type Worker struct {
	store    repository.Shares
	cluster  Cluster
	confirms Confirms
	declared func(*entity.Message) bool
	limit    int64 // a record whose key and value together have more bytes is not stored
	results  *prometheus.CounterVec
	log      *zap.Logger

	mu   sync.Mutex
	away map[broker.TopicPartition]time.Time // partitions that did not answer, each with the time until which it is not read
}

// New returns a Worker. The function declared has the meaning of repository.Batch.Declared. A record whose key and
// value together have more than limit bytes is not stored; it stays in its topic.
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
	return &Worker{
		store: store, cluster: cluster, confirms: confirms, declared: declared, limit: limit, results: results, log: log,
		away: map[broker.TopicPartition]time.Time{},
	}
}

// Run completes messages until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	var forgotten time.Time
	for out := new(outage.Log); ctx.Err() == nil; {
		more, err := w.step(ctx)
		if err == nil && time.Since(forgotten) >= forgetInterval {
			forgotten = time.Now()
			err = w.forget(ctx)
		}
		out.Report(ctx, w.log, err, "dead letters of share groups cannot be completed", "dead letters of share groups are completed again")
		if !more || err != nil {
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

// step completes messages that are due. more reports whether further messages may be due.
func (w *Worker) step(ctx context.Context) (more bool, err error) {
	taken, err := w.store.TakePointers(ctx, takeAtOnce, takeBytes, lease)
	if err != nil || len(taken) == 0 {
		return false, err
	}
	b := &batch{w: w}
	stop := b.saveRegularly(ctx)
	reading, cancel := context.WithTimeout(ctx, readingTime)
	defer cancel()
	err = w.readAll(reading, b, taken)
	stop()
	b.flush(ctx)
	return isFull(taken), cmp.Or(err, b.err)
}

// readAll reads the records to which messages point, until the context reading ends. It begins with the partitions
// where no try has failed yet.
func (w *Worker) readAll(reading context.Context, b *batch, taken []repository.Pointer) error {
	topics, err := w.topicsOf(reading, taken)
	if err != nil {
		b.giveBack(reading, taken)
		return err
	}
	sources := map[broker.TopicPartition][]repository.Pointer{}
	for _, p := range taken {
		refusal, original := w.refusal(&p.Message), topics[p.Message.OriginalTopic]
		if errors.Is(refusal, entity.ErrNoShareState) && original.missing {
			at, _ := sourceOf(&p.Message)
			b.add(reading, failed(p, at, broker.ErrUnknownTopic)) // the topic was deleted, and so the share group has lost its state for the topic
			continue
		}
		switch {
		case refusal != nil:
			b.add(reading, again(p, refusal))
		case original.internal:
			b.add(reading, refused(p, fmt.Sprintf("topic %s is internal", p.Message.OriginalTopic)))
		default:
			at, _ := sourceOf(&p.Message)
			sources[at] = append(sources[at], p)
		}
	}
	fewestTries := func(at broker.TopicPartition) int {
		return slices.MinFunc(sources[at], func(a, b repository.Pointer) int { return cmp.Compare(a.Tries, b.Tries) }).Tries
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, at := range slices.SortedFunc(maps.Keys(sources), func(a, b broker.TopicPartition) int { return cmp.Compare(fewestTries(a), fewestTries(b)) }) {
		g.Go(func() error {
			w.readPartition(reading, b, at, sources[at])
			return nil
		})
	}
	return g.Wait()
}

// isFull reports whether TakePointers stopped at one of its limits, so that more messages may be due.
func isFull(taken []repository.Pointer) bool {
	var bytes int
	for i := range taken {
		for _, h := range taken[i].Message.Record.Headers {
			bytes += len(h.Key) + len(h.Value)
		}
	}
	return len(taken) == takeAtOnce || bytes >= takeBytes
}

// sourceOf returns the position of the record to which a message points. The message must name a partition and an
// offset; see deadletter.PointsToOrigin.
func sourceOf(m *entity.Message) (broker.TopicPartition, int64) {
	return broker.TopicPartition{Topic: m.OriginalTopic, Partition: *m.Origin.Partition}, *m.Origin.Offset
}

// refusal returns the reason why the record of a message must not be read; nil when it may be read.
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

// topic says whether the cluster has no topic of a name, and whether the topic is internal. Kafka may mark a topic of
// any name as internal.
type topic struct{ internal, missing bool }

// topicsOf requests the original topics of the messages from the cluster.
func (w *Worker) topicsOf(ctx context.Context, pointers []repository.Pointer) (map[string]topic, error) {
	var names []string
	for i := range pointers {
		if name := pointers[i].Message.OriginalTopic; entity.ValidTopic(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	found, err := w.cluster.Topics(ctx, slices.Compact(names)...)
	if err != nil {
		return nil, fmt.Errorf("look for topics: %w", err)
	}
	topics := map[string]topic{}
	for _, t := range found {
		topics[t.Name] = topic{internal: t.Internal, missing: errors.Is(t.Err, broker.ErrUnknownTopic)}
	}
	return topics, nil
}

// readPartition reads the records of one partition, for at most readTimeout and until the context reading ends.
// Messages for which no time is left are due again at once, without a counted try. An error that concerns the whole
// partition counts as a try for all messages whose records were not read yet.
func (w *Worker) readPartition(reading context.Context, b *batch, at broker.TopicPartition, pointers []repository.Pointer) {
	if rest := w.awayFor(at); rest > 0 {
		b.giveBackFor(reading, pointers, rest)
		return
	}
	ctx, cancel := context.WithTimeout(reading, readTimeout)
	defer cancel()
	slices.SortFunc(pointers, func(a, b repository.Pointer) int { return cmp.Compare(offsetOf(a), offsetOf(b)) })
	all := len(pointers)
	if areNeighbours(pointers) {
		pointers = w.readTogether(ctx, b, at, pointers)
	}
	for i, p := range pointers {
		rec, err := w.cluster.ReadAt(ctx, at, offsetOf(p))
		switch {
		case err == nil:
			b.add(ctx, w.completed(p, rec))
		case reading.Err() != nil, ctx.Err() != nil && len(pointers)-i < all: // no time is left, and the partition did not fail
			b.giveBack(ctx, pointers[i:])
			return
		case isOfPartition(err):
			if ctx.Err() != nil {
				w.noteAway(at)
			}
			for _, other := range pointers[i:] {
				b.add(ctx, failed(other, at, err))
			}
			return
		default:
			b.add(ctx, failed(p, at, err))
		}
	}
}

// awayFor returns the remaining time for which the partition is not read because it did not answer; 0 or less when it
// may be read.
func (w *Worker) awayFor(at broker.TopicPartition) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := time.Until(w.away[at])
	if rest <= 0 {
		delete(w.away, at)
	}
	return rest
}

func (w *Worker) noteAway(at broker.TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away[at] = time.Now().Add(awayTime)
}

func offsetOf(p repository.Pointer) int64 {
	_, offset := sourceOf(&p.Message)
	return offset
}

// areNeighbours reports whether the offsets lie so close together that one request for all records costs less than one
// for each record.
func areNeighbours(sorted []repository.Pointer) bool {
	n := len(sorted)
	return n > 1 && offsetOf(sorted[n-1])-offsetOf(sorted[0]) < sparse*int64(n)
}

// isOfPartition reports whether an error of reading a record concerns all records of the partition.
func isOfPartition(err error) bool {
	return !errors.Is(err, broker.ErrGone) && !errors.Is(err, broker.ErrOutOfRange) &&
		!errors.Is(err, broker.ErrTooLarge) && !errors.Is(err, broker.ErrCorrupt)
}

// readTogether reads records that lie close together with one request, and returns the messages whose records it did
// not read.
func (w *Worker) readTogether(ctx context.Context, b *batch, at broker.TopicPartition, pointers []repository.Pointer) []repository.Pointer {
	pointers = w.readLast(ctx, b, at, pointers)
	if len(pointers) < 2 {
		return pointers
	}
	wanted := map[int64][]repository.Pointer{}
	for _, p := range pointers {
		wanted[offsetOf(p)] = append(wanted[offsetOf(p)], p)
	}
	// After an error, the caller reads the remaining records one by one.
	_ = w.cluster.Scan(ctx, at, offsetOf(pointers[0]), offsetOf(pointers[len(pointers)-1])+1, "", func(rec broker.Record) bool {
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
	return slices.DeleteFunc(pointers, func(p repository.Pointer) bool { return wanted[offsetOf(p)] == nil })
}

// readLast reads one record: of the messages' records, the last one whose offset is not after the end of the log. It
// returns the messages before it, and also the message of this record if the record cannot be read. A Scan would wait
// for offsets after the end of the log, so a dead letter that names such an offset would delay all others.
func (w *Worker) readLast(ctx context.Context, b *batch, at broker.TopicPartition, sorted []repository.Pointer) []repository.Pointer {
	for n := len(sorted) - 1; n >= 0; n-- {
		p := sorted[n]
		rec, err := w.cluster.ReadAt(ctx, at, offsetOf(p))
		switch {
		case err == nil:
			b.add(ctx, w.completed(p, rec))
			return sorted[:n]
		case !errors.Is(err, broker.ErrOutOfRange):
			return sorted[:n+1]
		}
		b.add(ctx, failed(p, at, err))
	}
	return nil
}

// completed returns the completion of a message with the record that was read for it. A record that is newer than the
// dead letter may be a different record at the same offset. It is accepted only if the dead letter contains a copy of
// its key and value.
func (w *Worker) completed(p repository.Pointer, rec broker.Record) repository.Completion {
	m := p.Message
	switch copied := !bytes.Equal(m.Share.Digest, noRecord); {
	case copied && !bytes.Equal(m.Share.Digest, entity.DeadLetterDigest(rec.Key, rec.Value)):
		return refused(p, "the dead letter has another key or value than the record that it names")
	case !copied && deadletter.IsLaterRecord(rec.Time, p.LastDeath):
		return refused(p, "the record at this offset is later than its dead letter: the original topic was deleted and created again, "+
			"or the producer's clock is more than a minute ahead")
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

// noRecord is the digest of a dead letter that contains no copy of its record.
var noRecord = entity.DeadLetterDigest(nil, nil)

// failed returns the completion of a message whose record could not be read because of err.
func failed(p repository.Pointer, at broker.TopicPartition, err error) repository.Completion {
	_, offset := sourceOf(&p.Message)
	switch {
	case errors.Is(err, broker.ErrGone):
		return gone(p, fmt.Sprintf("topic %s has no record at offset %d of partition %d: retention, compaction or an operator removed it, "+
			"or the broker wrote a dead letter of a transaction's end", at.Topic, offset, at.Partition))
	case errors.Is(err, broker.ErrOutOfRange):
		return goneInTime(p, fmt.Sprintf("topic %s ends before offset %d of partition %d: it was deleted and created again", at.Topic, offset, at.Partition))
	case errors.Is(err, broker.ErrUnknownTopic):
		return goneInTime(p, fmt.Sprintf("topic %s, partition %d, does not exist", at.Topic, at.Partition))
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

// goneInTime returns the completion for a record that seems to be gone. The record counts as gone only after the same
// reason has held for the time certain; until then it is read again.
func goneInTime(p repository.Pointer, reason string) repository.Completion {
	if p.Message.Share.Reason == reason && p.ReasonAge >= certain {
		return gone(p, reason)
	}
	return again(p, errors.New(reason))
}

func refused(p repository.Pointer, reason string) repository.Completion {
	return repository.Completion{Message: p.Message, State: entity.CompletionRefused, Reason: reason}
}

// again returns the completion of a message whose record must not be read now or seems to be gone; a later try may read
// it.
func again(p repository.Pointer, err error) repository.Completion {
	c := repository.Completion{Message: p.Message, State: entity.CompletionRefused, Reason: err.Error(), Again: pause(p.Tries)}
	if p.Tries < patience {
		c.State = entity.CompletionWaiting
	}
	return c
}

func pause(tries int) time.Duration {
	if tries >= rare {
		return rareAgain
	}
	return min(firstAgain<<min(tries, 20), lastAgain)
}

// batch collects completions and saves them before they use much memory.
type batch struct {
	w     *Worker
	mu    sync.Mutex
	done  []repository.Completion
	bytes int64
	err   error // error of the first call of SaveCompletions that failed
}

func (b *batch) add(ctx context.Context, c repository.Completion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = append(b.done, c)
	if b.bytes += int64(len(c.Record.Key) + len(c.Record.Value)); b.bytes >= saveBytes {
		b.save(ctx)
	}
}

// giveBack makes the messages due at once, without counting a try, because their records were not read.
func (b *batch) giveBack(ctx context.Context, pointers []repository.Pointer) {
	b.giveBackFor(ctx, pointers, time.Millisecond)
}

// giveBackFor makes the messages due after a pause, without counting a try, because their records were not read.
func (b *batch) giveBackFor(ctx context.Context, pointers []repository.Pointer, pause time.Duration) {
	for _, p := range pointers {
		share := p.Message.Share
		b.add(ctx, repository.Completion{Message: p.Message, State: share.State, Reason: share.Reason, Again: pause, Untried: true})
	}
}

// saveRegularly saves the batch every saveInterval until the returned function is called.
func (b *batch) saveRegularly(ctx context.Context) (stop func()) {
	ended := make(chan struct{})
	var saving sync.WaitGroup
	saving.Go(func() {
		ticker := time.NewTicker(saveInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				b.flush(ctx)
			case <-ended:
				return
			}
		}
	})
	return func() { close(ended); saving.Wait() }
}

func (b *batch) flush(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.save(ctx)
}

// save saves the batch; the caller holds the lock. Messages that could not be saved are due again when their lease
// ends.
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
			if c.State != entity.CompletionWaiting && !c.Untried {
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
