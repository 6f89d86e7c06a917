package ingest

import (
	"context"
	"errors"
	"maps"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// open finds out where those of partitions go on that are not open. Kafka's committed offsets are not asked. Those
// that cannot be opened now stay closed and rest; the error is that ctx ended or that another ingester is at work.
func (r *reader) open(ctx context.Context, partitions []*partition) error {
	var closed []*partition
	for _, p := range partitions {
		if !p.opened {
			closed = append(closed, p)
		}
	}
	if len(closed) == 0 {
		return nil
	}
	known, err := r.lives(ctx, closed)
	if err != nil {
		return err
	}
	return r.place(ctx, known)
}

// lives asks Kafka and the store for the partitions' topic ids, and returns those whose topics exist.
func (r *reader) lives(ctx context.Context, partitions []*partition) ([]*partition, error) {
	parts := make([]broker.TopicPartition, len(partitions))
	for n, p := range partitions {
		parts[n] = p.TopicPartition
	}
	described, err := r.i.cluster.Topics(ctx, topicNames(parts)...)
	if err != nil {
		r.failed(ctx, "describe topics", err, partitions...)
		return nil, ctx.Err()
	}
	ids := map[string]string{}
	troubles := map[string]error{}
	var topics []repository.Topic
	for _, t := range described {
		if t.Err != nil {
			troubles[t.Name] = t.Err
			continue
		}
		ids[t.Name] = t.ID
		topics = append(topics, repository.Topic{Name: t.Name, Incarnation: t.ID})
	}
	refs, err := r.refs(ctx, topics)
	if err != nil {
		return nil, err
	}
	var known []*partition
	for _, p := range partitions {
		ref, ok := refs[p.Topic]
		if !ok {
			r.unreadable(p, errors.Join(broker.ErrUnknownTopic, troubles[p.Topic]))
			continue
		}
		p.topicID, p.ref = ids[p.Topic], ref
		known = append(known, p)
	}
	return known, nil
}

func (r *reader) refs(ctx context.Context, topics []repository.Topic) (map[string]repository.TopicRef, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	var rejected error
	refs, err := untilStored(ctx, r.i, func(ctx context.Context) ([]repository.TopicRef, error) {
		refs, err := r.i.store.OpenTopics(ctx, topics)
		if rejected = nil; errors.Is(err, entity.ErrRefused) {
			rejected, err = err, nil
		}
		return refs, err
	})
	switch {
	case err != nil:
		return nil, err
	case rejected != nil && len(topics) == 1:
		r.i.log.Warn("the database refuses a topic; it is not read", zap.String("topic", topics[0].Name), zap.Error(rejected))
		return nil, nil
	case rejected != nil: // the others are read
		out := map[string]repository.TopicRef{}
		for n := range topics {
			one, err := r.refs(ctx, topics[n:n+1])
			if err != nil {
				return nil, err
			}
			maps.Copy(out, one)
		}
		return out, nil
	}
	out := make(map[string]repository.TopicRef, len(topics))
	for n, t := range topics {
		out[t.Name] = refs[n]
	}
	return out, nil
}

// place sets the next offset of partitions: the store's position, the log's start where there is none, and
// whatever the log allows where it does not reach the position any more.
func (r *reader) place(ctx context.Context, partitions []*partition) error {
	starts, ends, partitions := r.bounds(ctx, partitions)
	if len(partitions) == 0 {
		return ctx.Err()
	}
	asked := make([]repository.Position, len(partitions))
	for n, p := range partitions {
		asked[n] = repository.Position{Partition: p.key(), Next: starts[p.TopicPartition]}
	}
	positions, err := untilStored(ctx, r.i, func(ctx context.Context) ([]repository.Position, error) {
		return r.i.store.OpenPosition(ctx, asked)
	})
	if err != nil {
		return err
	}
	for n, p := range partitions {
		p.next = positions[n].Next
		if err := r.recognise(ctx, p, starts[p.TopicPartition], ends[p.TopicPartition]); err != nil {
			return err
		}
		if err := r.i.fit(ctx, p, starts[p.TopicPartition], ends[p.TopicPartition]); err != nil {
			return err
		}
		p.opened = true
		r.answered(p)
		// Kafka may have forgotten the group's offsets, or an operator reset them.
		r.commits.passed(p.TopicPartition, p.next)
	}
	return nil
}

// bounds asks where the logs start and end, and returns the partitions that have an answer.
func (r *reader) bounds(ctx context.Context, partitions []*partition) (starts, ends map[broker.TopicPartition]int64, answered []*partition) {
	parts := make([]broker.TopicPartition, len(partitions))
	for n, p := range partitions {
		parts[n] = p.TopicPartition
	}
	starts, startErr := r.i.cluster.StartOffsets(ctx, parts)
	ends, endErr := r.i.cluster.EndOffsets(ctx, parts)
	var silent []*partition
	for _, p := range partitions {
		_, hasStart := starts[p.TopicPartition]
		_, hasEnd := ends[p.TopicPartition]
		if hasStart && hasEnd {
			answered = append(answered, p)
		} else {
			silent = append(silent, p)
		}
	}
	r.failed(ctx, "find the bounds of logs", errors.Join(startErr, endErr), silent...)
	return starts, ends, answered
}

// recognise sets the position in an exchanged log to its start. Only topics without an id need that. A log that
// cannot be asked, or lacks the record, proves nothing.
func (r *reader) recognise(ctx context.Context, p *partition, start, end int64) error {
	if p.topicID != "" || p.next > end {
		return nil
	}
	mark, err := untilStored(ctx, r.i, func(ctx context.Context) (*repository.Mark, error) { return r.i.store.Mark(ctx, p.key()) })
	if err != nil || mark == nil || mark.Offset < start || mark.Offset >= end {
		return err
	}
	latest, crc, found, err := r.i.cluster.Mark(ctx, p.TopicPartition, mark.Offset)
	if err != nil || !found || latest == mark.Time && crc == mark.CRC {
		return ctx.Err()
	}
	r.i.log.Warn("the log holds another batch where it was read; the topic was made again",
		zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("position", p.next), zap.Int64("offset", mark.Offset))
	return r.i.move(ctx, p, start, 0)
}

// noteMark stores the last record of a log without topic id. A failure is harmless: the last mark still holds.
func (i *Ingester) noteMark(ctx context.Context, c chunk) {
	if c.p.topicID != "" || len(c.records) == 0 {
		return
	}
	offset := c.records[len(c.records)-1].Offset
	latest, crc, found, err := i.cluster.Mark(ctx, c.p.TopicPartition, offset)
	if err == nil && found {
		err = i.store.SaveMark(ctx, c.p.key(), repository.Mark{Offset: offset, Time: latest, CRC: crc})
	}
	if err != nil {
		i.log.Debug("the last record is not noted", append(zapPartition(c.p), zap.Error(err))...)
	}
}

// fit moves a position that the log cannot serve. Below its start, records were lost: that is logged. Above its
// end, the log was cut off (an unclean election) or made again without an id: none of it was read.
func (i *Ingester) fit(ctx context.Context, p *partition, start, end int64) error {
	to, lost := p.next, int64(0)
	switch {
	case p.next < start:
		to, lost = start, start-p.next
		i.log.Error("kafka removed records before they were read",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("from", p.next), zap.Int64("to", start))
	case p.next > end && p.topicID != "":
		to = end
		i.log.Error("the log ends before what was read of it; it was cut off",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", p.next), zap.Int64("end", end))
	case p.next > end:
		to = start
		i.log.Warn("the log ends before what was read of it; the topic was made again",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", p.next), zap.Int64("end", end))
	}
	if to == p.next {
		return nil
	}
	return i.move(ctx, p, to, lost)
}

// move sets a position and counts the records that were lost.
func (i *Ingester) move(ctx context.Context, p *partition, to, lost int64) error {
	step := repository.Range{Partition: p.key(), From: p.next, To: to}
	stored, err := i.storeBatch(ctx, repository.Batch{Ranges: []repository.Range{step}})
	switch {
	case err != nil:
		return err
	case len(stored.Ranges) == 0:
		return errFenced
	}
	// Logged first, so that no crash hides it; counted when done, or each refusal of the store would count again.
	i.metrics.of(i.metrics.gaps, p.Topic).Add(float64(lost))
	p.next = to
	return nil
}
