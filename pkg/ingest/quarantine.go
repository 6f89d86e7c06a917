package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/errorgroups"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// quarantineInterval is the pause between two checks for quarantined records that are due.
const quarantineInterval = 2 * time.Second

// QuarantineStore is the part of a store that keeps the records that the store refused to store as messages.
type QuarantineStore interface {
	QuarantineCounts(ctx context.Context) ([]repository.QuarantineCount, error)
	WakeQuarantined(ctx context.Context) error
	TakeQuarantined(ctx context.Context) (*entity.Quarantined, error)
	Release(ctx context.Context, batch repository.Batch) (repository.Stored, error)
}

// quarantine remembers which topics have more than Config.QuarantineMaxRows records in quarantine.
type quarantine struct {
	full atomic.Pointer[map[string]bool] // dead-letter topics that are not read because they have too many records in quarantine
}

// paused reports whether a dead-letter topic is not read at the moment because of its records in quarantine.
func (q *quarantine) paused(topic string) bool {
	full := q.full.Load()
	return full != nil && (*full)[topic]
}

// tryQuarantined tries to store quarantined records as messages, until ctx ends: at the start all of them, then each
// record when it is due.
func (i *Ingester) tryQuarantined(ctx context.Context) {
	woken := false
	for {
		err := i.countQuarantined(ctx)
		if err == nil && !woken {
			err = i.stores.Quarantine.WakeQuarantined(ctx)
			woken = err == nil
		}
		for tried := true; tried && err == nil && ctx.Err() == nil; {
			tried, err = i.tryNext(ctx)
		}
		if err != nil && ctx.Err() == nil {
			i.log.Warn("the records in quarantine are not tried now", zap.Error(err))
		}
		if !wait.Sleep(ctx, quarantineInterval) {
			return
		}
	}
}

// tryNext tries one quarantined record that is due; tried is false when none is due. The record may be large, so no
// other large record is stored at the same time.
func (i *Ingester) tryNext(ctx context.Context) (tried bool, err error) {
	if err := i.heavy.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer i.heavy.Release(1)
	return once(ctx, i, func(ctx context.Context) (bool, error) {
		q, err := i.stores.Quarantine.TakeQuarantined(ctx)
		if err != nil || q == nil {
			return false, err
		}
		return true, i.release(ctx, q)
	})
}

// release stores a quarantined record as a message, like a record that has just been read.
func (i *Ingester) release(ctx context.Context, q *entity.Quarantined) error {
	batch, errorGroups := i.released(q)
	if err := i.admitErrorGroups(ctx, batch.Messages, errorGroups); err != nil {
		return err
	}
	i.saveConsumerGroups(ctx, batch.Messages)
	stored, err := i.stores.Quarantine.Release(ctx, batch)
	switch {
	case errors.Is(err, entity.ErrRefused):
		// The error is not logged, because it may quote the record.
		i.log.Debug("a quarantined record is refused again", zapSource(q.Source)...)
		return nil
	case err != nil:
		return err
	case len(stored.Ranges) > 0:
		i.log.Info("a quarantined record is stored", append(zapSource(q.Source), zap.Stringer("message_id", q.ID))...)
		i.metrics.of(i.metrics.stored, q.Source.Topic).Inc()
		i.reportReturns(ctx, stored.Returns)
	}
	return i.countQuarantined(ctx)
}

// released returns a batch that contains only the message of a quarantined record.
func (i *Ingester) released(q *entity.Quarantined) (repository.Batch, map[errorgroups.Key]entity.Fingerprint) {
	decoder, errorGroups := i.decoder.Load(), errorgroups.NewGrouping(i.fingerprinter)
	m := i.decoded(decoder, q.Source, q.Record)
	m.ID = q.ID
	m.Group = errorGroups.Group(&m)
	batch := emptyBatch(i, decoder)
	batch.Messages = []entity.Message{m}
	return batch, errorGroups.Found
}

// countQuarantined reads the number of quarantined records of each topic, and pauses the topics that have more than
// Config.QuarantineMaxRows.
func (i *Ingester) countQuarantined(ctx context.Context) error {
	counts, err := i.stores.Quarantine.QuarantineCounts(ctx)
	if err != nil {
		return err
	}
	full := map[string]bool{}
	for _, c := range counts {
		if full[c.Topic] = c.Records > i.cfg.QuarantineMaxRows; full[c.Topic] && !i.quarantine.paused(c.Topic) {
			i.log.Error("too many records of a topic are in quarantine; it is not read until there are fewer",
				zap.String("topic", c.Topic), zap.Int64("records", c.Records))
		}
	}
	i.quarantine.full.Store(&full)
	i.metrics.showQuarantine(counts, full)
	return nil
}

// reportQuarantined logs and counts those records of a batch that the store has put into quarantine.
func (i *Ingester) reportQuarantined(refused []repository.Refused) {
	for _, r := range refused {
		i.log.Warn("the database refuses a record, which is in quarantine now", append(zapSource(r.Source), zap.String("sqlstate", r.SQLState))...)
		i.metrics.of(i.metrics.quarantined, r.Source.Topic).Inc()
	}
}

func zapSource(s entity.Source) []zap.Field {
	return []zap.Field{zap.String("topic", s.Topic), zap.Int32("partition", s.Partition), zap.Int64("offset", s.Offset)}
}
