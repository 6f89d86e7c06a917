package ingest

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// open reads the positions of those partitions that are not open. It does not use Kafka's committed offsets. Partitions
// that cannot be opened now are tried again after a pause. An error means that ctx has ended.
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
	known, err := r.topicIDs(ctx, closed)
	if err != nil {
		return err
	}
	return r.setPositions(ctx, known)
}

// topicIDs reads the partitions' topic ids from Kafka and the store, and returns the partitions whose topics exist.
func (r *reader) topicIDs(ctx context.Context, partitions []*partition) ([]*partition, error) {
	parts := make([]broker.TopicPartition, len(partitions))
	for n, p := range partitions {
		parts[n] = p.TopicPartition
	}
	described, err := r.i.cluster.Topics(ctx, broker.TopicNames(parts)...)
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
	refs, err := r.topicRefs(ctx, topics)
	if err != nil {
		return nil, err
	}
	var known []*partition
	for _, p := range partitions {
		ref, ok := refs[p.Topic]
		if !ok {
			r.unreadable(p, cmp.Or(troubles[p.Topic], broker.ErrUnknownTopic))
			continue
		}
		p.topicID, p.ref = ids[p.Topic], ref
		known = append(known, p)
	}
	return known, nil
}

func (r *reader) topicRefs(ctx context.Context, topics []repository.Topic) (map[string]repository.TopicRef, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	var rejected error
	refs, err := untilStored(ctx, r.i, func(ctx context.Context) ([]repository.TopicRef, error) {
		refs, err := r.i.stores.Records.OpenTopics(ctx, topics)
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
	case rejected != nil: // opens the topics one by one, so that those which the database accepts are read
		out := map[string]repository.TopicRef{}
		for n := range topics {
			one, err := r.topicRefs(ctx, topics[n:n+1])
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

// setPositions sets the next offset to read of each partition: the store's position, or the start of the log when the
// store has no position. If the log no longer contains that offset, resolveOffset changes it.
func (r *reader) setPositions(ctx context.Context, partitions []*partition) error {
	starts, ends, partitions := r.bounds(ctx, partitions)
	if len(partitions) == 0 {
		return ctx.Err()
	}
	asked := make([]repository.Position, len(partitions))
	for n, p := range partitions {
		asked[n] = repository.Position{Partition: p.key(), Next: starts[p.TopicPartition]}
		p.fenced.Store(false)
	}
	positions, err := untilStored(ctx, r.i, func(ctx context.Context) ([]repository.Position, error) {
		return r.i.stores.Records.OpenPosition(ctx, asked)
	})
	if err != nil {
		return err
	}
	for n, p := range partitions {
		p.next = positions[n].Next
	}
	for _, p := range r.longer(ctx, partitions, ends) {
		if p.guest != nil && !p.look(p.next, ends[p.TopicPartition]) {
			continue
		}
		err := r.detectNewLog(ctx, p, starts[p.TopicPartition], ends[p.TopicPartition])
		if err == nil {
			err = r.i.resolveOffset(ctx, p, starts[p.TopicPartition], ends[p.TopicPartition])
		}
		switch {
		case errors.Is(err, errFenced):
			p.fenced.Store(true)
			p.backOff(reopenBackoff)
			continue
		case err != nil:
			return err
		}
		p.opened = true
		r.answered(p)
		// The offset is committed even if nothing is stored. Without this commit, the lag would be wrong when Kafka has lost
		// the consumer group's offsets or an operator has reset them.
		r.commits.passed(p, p.next)
	}
	return nil
}

// longer reads the end offsets of those logs again that seem to end before their position, and returns the partitions of
// which ends has an end offset that was read after their position. While this process waited for the store, another one
// may have stored records that came after the first look at the log. Without the second look, the log would count as
// truncated, and these records would be stored twice.
func (r *reader) longer(ctx context.Context, partitions []*partition, ends map[broker.TopicPartition]int64) []*partition {
	var parts []broker.TopicPartition
	for _, p := range partitions {
		if p.next > ends[p.TopicPartition] {
			parts = append(parts, p.TopicPartition)
		}
	}
	if len(parts) == 0 {
		return partitions
	}
	again, err := r.i.cluster.EndOffsets(ctx, parts)
	var answered, silent []*partition
	for _, p := range partitions {
		end, has := again[p.TopicPartition]
		switch {
		case p.next <= ends[p.TopicPartition]:
			answered = append(answered, p)
		case has:
			ends[p.TopicPartition] = end
			answered = append(answered, p)
		default:
			silent = append(silent, p)
		}
	}
	r.failed(ctx, "find the ends of logs", err, silent...)
	return answered
}

// bounds reads the start offset and the end offset of each log. It returns the partitions for which both offsets could
// be read.
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

// detectNewLog moves the position of a partition to the start of its log if the log was replaced. Only topics without
// an id need detectNewLog, because another id shows that a topic is new. If the log cannot be read, or does not contain
// the offset that saveMark stored, the position stays.
func (r *reader) detectNewLog(ctx context.Context, p *partition, start, end int64) error {
	if p.topicID != "" || p.next > end {
		return nil
	}
	mark, err := untilStored(ctx, r.i, func(ctx context.Context) (*repository.Mark, error) { return r.i.stores.Records.Mark(ctx, p.key()) })
	if err != nil || mark == nil || mark.Offset < start || mark.Offset >= end {
		return err
	}
	latest, crc, found, err := r.i.cluster.Mark(ctx, p.TopicPartition, mark.Offset)
	if err != nil || !found || latest == mark.Time && crc == mark.CRC {
		return ctx.Err()
	}
	r.i.log.Warn("the log has a different batch at the last read position; the topic was created again",
		zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("position", p.next), zap.Int64("offset", mark.Offset))
	return r.i.move(ctx, p, start, 0)
}

// saveMark stores the offset of the last record of a log, with the time and the checksum of the record's batch, for
// topics without an id. detectNewLog compares the time and the checksum with those in the log. If saveMark fails, the
// values that an earlier call stored stay valid.
func (i *Ingester) saveMark(ctx context.Context, c chunk) {
	if c.p.topicID != "" || len(c.records) == 0 {
		return
	}
	offset := c.records[len(c.records)-1].Offset
	latest, crc, found, err := i.cluster.Mark(ctx, c.p.TopicPartition, offset)
	if err == nil && found {
		err = i.stores.Records.SaveMark(ctx, c.p.key(), repository.Mark{Offset: offset, Time: latest, CRC: crc})
	}
	if err != nil {
		i.log.Debug("the mark of the last record was not stored", append(zapPartition(c.p), zap.Error(err))...)
	}
}

// resolveOffset changes a position that the log does not contain. When the position is below the log's start, records
// were lost; the loss is logged, and the ingester goes on at the start. When the position is above the log's end, an
// unclean election has truncated the log of a topic with an id, and the ingester goes on at the end. A topic without an
// id then counts as created again, and its log is read from the start.
func (i *Ingester) resolveOffset(ctx context.Context, p *partition, start, end int64) error {
	to, lost := p.next, int64(0)
	switch {
	case p.next < start:
		to, lost = start, start-p.next
		i.log.Error("kafka removed records before they were read",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("from", p.next), zap.Int64("to", start))
	case p.next > end && p.topicID != "":
		to = end
		i.log.Error("the log ends before the position that was read; it was truncated",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", p.next), zap.Int64("end", end))
	case p.next > end:
		to = start
		i.log.Warn("the log ends before the position that was read; the topic was created again",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", p.next), zap.Int64("end", end))
	}
	if to == p.next {
		return nil
	}
	return i.move(ctx, p, to, lost)
}

// move sets a partition's position in the store, and adds the number of records that Kafka had removed unread to a
// metric.
func (i *Ingester) move(ctx context.Context, p *partition, to, lost int64) error {
	step := repository.Range{Partition: p.key(), From: p.next, To: to}
	stored, err := i.storeBatch(ctx, repository.Batch{Ranges: []repository.Range{step}})
	switch {
	case err != nil:
		return err
	case len(stored.Ranges) == 0:
		return errFenced
	}
	// The caller has logged the loss before the position moves, so that a crash cannot hide it. The metric counts the
	// records only now that the store has accepted the new position; otherwise each refused try would count them again.
	i.metrics.of(i.metrics.gaps, p.Topic).Add(float64(lost))
	p.next = to
	return nil
}
