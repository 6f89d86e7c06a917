package main

import (
	"context"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// logs is the part of broker.Cluster that a backlog uses.
type logs interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error)
}

// unread describes the records of a dead-letter topic that are not stored as messages yet: their number, and the
// timestamp of the oldest one. The timestamp is zero when there are no such records, or when no timestamp is known.
type unread struct {
	records int64
	oldest  time.Time
}

// backlog finds the records of dead-letter topics that are not messages yet. It keeps the timestamp of the first such
// record of each partition, so that repeated calls of read do not read the same record again. A backlog is not safe for
// concurrent use.
type backlog struct {
	cluster logs
	times   map[broker.TopicPartition]readTime
}

// readTime is the timestamp of the record at an offset.
type readTime struct {
	offset int64
	at     time.Time
}

// maxTimes is the maximum number of records that one call of read fetches for their timestamps. The timestamps of
// further records stay unknown until a later call.
const maxTimes = 100

// read returns the unread records of each topic. It leaves out a topic if the start or end offset of one of its
// partitions is not known.
func (b *backlog) read(ctx context.Context, topics []string, positions []repository.IngestPosition) (map[string]unread, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	found, err := b.cluster.Topics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	stored := map[broker.TopicPartition]repository.IngestPosition{}
	for _, p := range positions {
		stored[broker.TopicPartition{Topic: p.Topic, Partition: p.Partition}] = p
	}
	next, parts := map[broker.TopicPartition]int64{}, []broker.TopicPartition{}
	for _, t := range found {
		for _, p := range t.Partitions {
			tp := broker.TopicPartition{Topic: t.Name, Partition: p.ID}
			parts = append(parts, tp)
			if s, known := stored[tp]; known && (s.TopicID == "" || t.ID == "" || s.TopicID == t.ID) {
				next[tp] = s.Next
			}
		}
	}
	ends, err := b.cluster.EndOffsets(ctx, parts) // ends contains no entry for a partition whose broker did not answer
	if err != nil && len(ends) == 0 {
		return nil, err
	}
	starts, err := b.cluster.StartOffsets(ctx, parts)
	if err != nil && len(starts) == 0 {
		return nil, err
	}
	times, reads := map[broker.TopicPartition]readTime{}, 0
	timeOf := func(tp broker.TopicPartition, offset int64) time.Time {
		if kept, known := b.times[tp]; known && kept.offset == offset {
			times[tp] = kept
		} else if reads++; reads <= maxTimes {
			if rec, err := b.cluster.ReadAt(ctx, tp, offset); err == nil {
				times[tp] = readTime{offset, rec.Time}
			}
		}
		return times[tp].at
	}
	backlog, unknown := map[string]unread{}, map[string]bool{}
	for _, tp := range parts {
		end, known := ends[tp]
		start, knownStart := starts[tp]
		if unknown[tp.Topic] = unknown[tp.Topic] || !known || !knownStart; unknown[tp.Topic] {
			delete(backlog, tp.Topic)
			continue
		}
		topic, from := backlog[tp.Topic], max(next[tp], start)
		if from < end {
			topic.records += end - from
			if at := timeOf(tp, from); !at.IsZero() && (topic.oldest.IsZero() || at.Before(topic.oldest)) {
				topic.oldest = at
			}
		}
		backlog[tp.Topic] = topic
	}
	b.times = times
	return backlog, nil
}
