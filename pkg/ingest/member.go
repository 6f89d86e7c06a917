package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/topics"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// member is a member of the consumer group, for the given topics, until ctx ends. The consumer group only distributes
// the work: if two members read the same partition, the store's positions allow only one of them to store its records.
func (i *Ingester) member(ctx context.Context, set topics.Set) {
	group, err := i.join(ctx, set)
	if err != nil {
		return // ctx ended
	}
	defer i.health.Set(consumerGroupHealth, nil)
	left := make(chan struct{})
	go func() {
		defer close(left)
		<-ctx.Done()
		_ = group.Close() // waits until the present generation has ended, then leaves the consumer group
	}()
	for ctx.Err() == nil {
		gen, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed):
		case errors.Is(err, kafka.RebalanceInProgress):
			// Another member joined or left while this member was joining. Kafka-go joins again at once, so nothing is
			// logged.
		case err != nil:
			i.kafkaFailed(ctx, consumerGroupHealth, "join the group", err)
			wait.Sleep(ctx, backoff(3))
		default:
			i.startGeneration(gen)
		}
	}
	<-left
}

func (i *Ingester) join(ctx context.Context, set topics.Set) (*kafka.ConsumerGroup, error) {
	for attempt := 0; ; attempt++ {
		group, err := i.cluster.Group(broker.GroupConfig{
			ID: i.consumerGroup, Topics: slices.Sorted(maps.Keys(set)), SessionTimeout: i.cfg.SessionTimeout,
			ErrorLog: func(message string) { i.log.Debug("consumer group: " + message) },
		})
		if err == nil {
			return group, nil
		}
		i.kafkaFailed(ctx, consumerGroupHealth, "join the group", err)
		if !wait.Sleep(ctx, backoff(attempt)) {
			return nil, ctx.Err()
		}
	}
}

// startGeneration starts a generation with the partitions of gen. When the function that was passed to gen.Start
// returns, kafka-go ends gen and joins the consumer group again. So after a generation that ended with errFenced, a new
// generation reads the positions again.
func (i *Ingester) startGeneration(gen *kafka.Generation) {
	i.health.Set(consumerGroupHealth, nil)
	var parts []broker.TopicPartition
	for topic, assigned := range gen.Assignments {
		for _, a := range assigned {
			parts = append(parts, broker.TopicPartition{Topic: topic, Partition: int32(a.ID)})
		}
	}
	i.log.Info("partitions are assigned", zap.Int32("generation", gen.ID), zap.Int("partitions", len(parts)))
	gen.Start(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		err := i.generation(ctx, parts, gen.CommitOffsets)
		if err != nil && ctx.Err() == nil {
			i.log.Warn("the assigned partitions are read again from the stored positions", zap.Int32("generation", gen.ID), zap.Error(err))
			wait.Sleep(ctx, backoff(2)) // without this pause, a member could join again and again
		}
	})
}
