package ingest

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// writer stores the chunks of its partitions in the order in which they were fetched, so that positions only advance.
type writer struct {
	i       *Ingester
	chunks  chan chunk
	budget  *semaphore.Weighted
	commits *committer
}

func newWriter(i *Ingester, budget *semaphore.Weighted, commits *committer) *writer {
	return &writer{i: i, chunks: make(chan chunk, 64), budget: budget, commits: commits}
}

// run stores chunks until ctx ends.
func (w *writer) run(ctx context.Context) error {
	var held *chunk // a chunk from the channel, or the rest of a chunk, that did not fit into the last batch
	for ctx.Err() == nil {
		first := held
		if first == nil {
			select {
			case <-ctx.Done():
				return nil
			case c := <-w.chunks:
				first = &c
			}
		}
		var batch []chunk
		batch, held = w.gather(*first)
		err := w.store(ctx, batch)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // records that were not stored are read again
		case err != nil:
			return err
		}
	}
	return nil
}

// gather returns a batch of the first chunk and of the chunks that already wait, up to a full batch. If a chunk has too
// many rows, gather adds its first rows and returns the rest as held; if the chunk has too many bytes, gather returns
// the whole chunk as held. With whole chunks only, batches would be little more than half full and cost more for each
// row, because a fetch returns about six hundred records of 1 KB.
func (w *writer) gather(first chunk) (batch []chunk, held *chunk) {
	batch = []chunk{first}
	rows, bytes := len(first.records), first.bytes
	for rows < batchRows {
		select {
		case c := <-w.chunks:
			if bytes+c.bytes > batchBytes {
				return batch, &c
			}
			c, held = c.split(batchRows - rows)
			batch = append(batch, c)
			if rows, bytes = rows+len(c.records), bytes+c.bytes; held != nil {
				return batch, held
			}
		default:
			return batch, nil
		}
	}
	return batch, nil
}

func (w *writer) store(ctx context.Context, chunks []chunk) (err error) {
	// A batch larger than batchBytes is a single large record. Only one batch of that size is stored at a time, because
	// the driver may copy the record several times.
	if sizeOf(chunks) > batchBytes {
		if w.i.heavy.Acquire(ctx, 1) != nil {
			return nil // ctx ended
		}
		defer w.i.heavy.Release(1)
	}
	ctx, span := w.i.trace(ctx, chunks)
	defer func() { end(span, err) }()
	batch, errorGroups := w.i.batch(chunks)
	link(span, batch.Messages)
	if err := w.i.admitErrorGroups(ctx, batch.Messages, errorGroups); err != nil {
		return err
	}
	w.i.saveConsumerGroups(ctx, batch.Messages)
	start := time.Now()
	stored, err := w.i.storeBatch(ctx, batch)
	if err != nil {
		return err
	}
	w.i.metrics.storeSeconds.Observe(time.Since(start).Seconds())
	w.stored(ctx, batch, chunks, stored)
	recordCounts(span, batch.Messages, stored.Ranges)
	w.i.reportQuarantined(stored.Quarantined)
	w.i.reportReturns(ctx, stored.Returns)
	return nil
}

func sizeOf(chunks []chunk) (n int64) {
	for _, c := range chunks {
		n += c.bytes
	}
	return n
}

// stored handles the result of a batch: it lets the committer commit the stored ranges, and releases the memory.
func (w *writer) stored(ctx context.Context, batch repository.Batch, chunks []chunk, stored repository.Stored) {
	counted := make(map[repository.Partition]bool, len(stored.Ranges))
	for _, key := range stored.Ranges {
		counted[key] = true
	}
	m := w.i.metrics
	for _, c := range chunks {
		w.budget.Release(c.reserved)
		if c.done != nil {
			c.done()
		}
		m.of(m.received, c.p.Topic).Add(float64(len(c.records)))
		if !counted[c.p.key()] {
			m.of(m.duplicate, c.p.Topic).Add(float64(len(c.records)))
			if !c.p.fenced.Swap(true) {
				w.i.log.Info("another ingester has stored records of a partition first", zap.String("topic", c.p.Topic),
					zap.Int32("partition", c.p.Partition), zap.Int64("offset", c.from))
			}
			c.p.waiting.Add(-1)
			continue
		}
		m.of(m.stored, c.p.Topic).Add(float64(len(c.records) - refusedOf(c, stored.Quarantined)))
		w.commits.passed(c.p, c.to)
		if n := len(c.records); n > 0 {
			m.lastRecord.SetToCurrentTime()
			if at := c.records[n-1].Time; !at.IsZero() {
				m.visibility.Observe(time.Since(at).Seconds())
			}
		}
		w.i.saveMark(ctx, c)
		c.p.waiting.Add(-1) // the last use of c.p: from now on the reader may change its topicID and ref
	}
	m.batchRows.Observe(float64(len(batch.Messages)))
	w.i.log.Info("stored dead letters", zap.Int("messages", len(batch.Messages)), zap.Int("partitions", len(stored.Ranges)), traces.InLog(ctx))
	if w.i.log.Core().Enabled(zap.DebugLevel) {
		for n := range batch.Messages {
			w.i.log.Debug("stored", zap.Stringer("message_id", batch.Messages[n].ID),
				zap.String("topic", batch.Messages[n].Source.Topic), traces.InLog(ctx))
		}
	}
}

// refusedOf returns the number of records of a chunk that were put into quarantine.
func refusedOf(c chunk, refused []repository.Refused) (n int) {
	for _, r := range refused {
		at := repository.Partition{Incarnation: r.Source.Incarnation, Partition: r.Source.Partition}
		if at == c.p.key() && r.Source.Offset >= c.from && r.Source.Offset < c.to {
			n++
		}
	}
	return n
}
