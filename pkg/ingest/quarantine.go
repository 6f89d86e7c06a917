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

// quarantineInterval is how often the ingester checks for due quarantined records.
const quarantineInterval = 2 * time.Second

// QuarantineStore is the part of a store with the records that it refused.
type QuarantineStore interface {
	QuarantineCounts(ctx context.Context) ([]repository.QuarantineCount, error)
	WakeQuarantined(ctx context.Context) error
	TakeQuarantined(ctx context.Context) (*entity.Quarantined, error)
	Release(ctx context.Context, batch repository.Batch) (repository.Stored, error)
}

// quarantine counts the records that the store refused.
type quarantine struct {
	full atomic.Pointer[map[string]bool] // dead-letter topics that are not read: too many records in quarantine
}

// paused reports whether a dead-letter topic is not read now.
func (q *quarantine) paused(topic string) bool {
	full := q.full.Load()
	return full != nil && (*full)[topic]
}

// tryQuarantined tries quarantined records again, all at the start, then each when it is due, until ctx ends.
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

// tryNext tries a due record, if there is one. The record may be large, so it is stored while no other large record is
// stored.
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

// release stores a quarantined record like a new record.
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

// released returns a batch with the message of a quarantined record.
func (i *Ingester) released(q *entity.Quarantined) (repository.Batch, map[errorgroups.Key]entity.Fingerprint) {
	decoder, errorGroups := i.decoder.Load(), errorgroups.NewGrouping(i.fingerprinter)
	m := i.decoded(decoder, q.Source, q.Record)
	m.ID = q.ID
	m.Group = errorGroups.Group(&m)
	batch := i.empty(decoder)
	batch.Messages = []entity.Message{m}
	return batch, errorGroups.Found
}

// countQuarantined counts the records in quarantine, and determines the topics that have too many.
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

// reportQuarantined logs and counts the records of a batch that the store refused.
func (i *Ingester) reportQuarantined(refused []repository.Refused) {
	for _, r := range refused {
		i.log.Warn("the database refuses a record, which is in quarantine now", append(zapSource(r.Source), zap.String("sqlstate", r.SQLState))...)
		i.metrics.of(i.metrics.quarantined, r.Source.Topic).Inc()
	}
}

func zapSource(s entity.Source) []zap.Field {
	return []zap.Field{zap.String("topic", s.Topic), zap.Int32("partition", s.Partition), zap.Int64("offset", s.Offset)}
}
