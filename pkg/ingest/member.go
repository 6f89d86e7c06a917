package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/topics"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// member is a member of the consumer group, for the given topics, until ctx ends. The consumer group only distributes
// the work: if two members read the same partition, the store's positions allow only one of them to store its records.
// So what the member reads goes on between two generations, and until run ends also between two memberships.
func (i *Ingester) member(ctx, run context.Context, set topics.Set) {
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
			i.reading.outlive(i.cfg.SessionTimeout)
		case err != nil:
			i.kafkaFailed(ctx, consumerGroupHealth, "join the group", err)
			wait.Sleep(ctx, backoff(3))
		default:
			i.startGeneration(run, gen, set)
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

// guestSessions is the number of session timeouts after an assignment for which a member watches the partitions of other
// members. If one of them died before the assignment, the consumer group distributes its partitions again in this time.
const guestSessions = 2

// startGeneration reads the partitions of gen instead of those of the last generation. The partitions of other members
// are guests for a while. When the function that is passed to gen.Start returns, kafka-go ends gen and joins the consumer
// group again.
func (i *Ingester) startGeneration(run context.Context, gen *kafka.Generation, set topics.Set) {
	i.health.Set(consumerGroupHealth, nil)
	var parts []*partition
	mine := map[broker.TopicPartition]bool{}
	for topic, assigned := range gen.Assignments {
		for _, a := range assigned {
			tp := broker.TopicPartition{Topic: topic, Partition: int32(a.ID)}
			parts, mine[tp] = append(parts, &partition{TopicPartition: tp}), true
		}
	}
	i.log.Info("partitions are assigned", zap.Int32("generation", gen.ID), zap.Int("partitions", len(parts)))
	until := time.Now().Add(guestSessions * i.cfg.SessionTimeout)
	for topic, shape := range set {
		for n := range shape.Partitions {
			tp := broker.TopicPartition{Topic: topic, Partition: int32(n)}
			if !mine[tp] {
				parts = append(parts, &partition{TopicPartition: tp, guest: &guest{until: until}})
			}
		}
	}
	i.reading.end()
	r := i.read(run, parts, gen.CommitOffsets)
	i.reading = r
	gen.Start(func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-r.ended:
		}
		r.over()
		if run.Err() != nil {
			<-r.ended // so that everything that is stored is committed before the member leaves
		}
		r.commits.flush()
		r.outlive(i.cfg.SessionTimeout)
	})
}
