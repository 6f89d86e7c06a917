package ingest

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// saveTimeout is the maximum time for storing consumer groups; after a failure the messages are stored nevertheless.
const saveTimeout = 5 * time.Second

// ConsumerGroupStore is the part of a store that stores which consumer groups read which topics.
type ConsumerGroupStore interface {
	SaveConsumerGroups(ctx context.Context, groups []repository.TopicGroup) error
}

// saveConsumerGroups stores the consumer groups of a batch before the batch itself. A consumer group that could not be
// stored is stored with the next batch whose messages name it.
func (i *Ingester) saveConsumerGroups(ctx context.Context, messages []entity.Message) {
	fresh := i.consumerGroups.Unknown(messages)
	if len(fresh) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	_, err := once(bounded, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, i.stores.ConsumerGroups.SaveConsumerGroups(ctx, fresh)
	})
	switch {
	case err == nil:
		i.consumerGroups.Remember(fresh)
	case ctx.Err() == nil:
		i.log.Warn("the store does not save consumer groups; the records are stored without",
			zap.Int("groups", len(fresh)), zap.Error(err), traces.InLog(ctx))
	}
}
