package ingest

import (
	"context"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// reportReturns counts and logs replays that came back, and separately those that the store made DEAD because they came
// back too often.
func (i *Ingester) reportReturns(ctx context.Context, returns []repository.Arrival) {
	for _, r := range returns {
		by := "headers"
		if r.ByContent {
			by = "content"
		}
		i.metrics.of(i.metrics.returns, r.Topic, by).Inc()
		log := i.log.With(
			zap.Stringer("message_id", r.MessageID), zap.Stringer("parent_id", r.Parent), zap.Stringer("root_id", r.Root),
			zap.String("topic", r.Topic), zap.Int("retry_count", r.RetryCount), zap.Int("max_retries", r.MaxRetries),
			zap.String("known_by", by), zap.Bool("confirmed", r.Confirmed), traces.InLog(ctx))
		if r.Status == entity.Dead {
			i.metrics.of(i.metrics.loopsStopped, r.Topic).Inc()
			log.Warn("a replay loop was stopped: the message came back too often and is dead")
			continue
		}
		log.Debug("a replayed message came back")
	}
}
