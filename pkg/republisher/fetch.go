package republisher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// source is the position in Kafka from which a record must be read, because the stored message does not contain it or
// not all of it.
type source struct {
	broker.TopicPartition
	offset  int64
	pointer bool // true: the position that a pointer names; false: the position of the dead letter
	// the record must be read before the attempt: only then it is known whether the record still exists and which key
	// it has
	inspect bool
}

// sourceOf returns the partition and offset from which to fetch the record; the topic is "" if they are unknown. It
// returns false when the message and its edit contain everything that is sent, so that nothing must be fetched.
func sourceOf(out *entity.Outgoing) (source, bool) {
	m := &out.Message
	setValue := out.Edit != nil && out.Edit.SetValue
	switch {
	case m.Record.State == entity.ValueOverLimit && (!setValue || lacksMore(out)):
		at := broker.TopicPartition{Topic: m.Source.Topic, Partition: m.Source.Partition}
		return source{TopicPartition: at, offset: m.Source.Offset, inspect: lacksMore(out)}, true
	case setValue:
		return source{}, false
	case deadletter.IsPointer(m.Record):
		at, _ := pointsTo(m)
		return at, true
	default:
		return source{}, false
	}
}

// lacksMore reports whether a record that was too large to be stored lacks its key or headers too, and the edit does
// not set them.
func lacksMore(out *entity.Outgoing) bool {
	r, e := &out.Message.Record, out.Edit
	return !r.KeepsHeaders() && (e == nil || !e.SetHeaders) || r.Key == nil && r.Limit != "" && (e == nil || !e.SetKey)
}

// pointsTo returns the position of a pointer's record; false when it is unknown.
func pointsTo(m *entity.Message) (source, bool) {
	at := source{pointer: true, inspect: true}
	if !deadletter.PointsToOrigin(m) {
		return at, false
	}
	at.Topic, at.Partition, at.offset = m.OriginalTopic, *m.Origin.Partition, *m.Origin.Offset
	return at, true
}

// Fetch returns the record of a message whose value the store does not hold. It reads a value that was too large from
// the dead-letter topic, and the record of a pointer, with its key and headers, from the original topic. Every other
// message's record is returned unchanged. The error is a *entity.RefusedError of class BadRecord for a record that
// another try could not read either, and of class PointerRefused for a pointer that must not be followed, or whose
// record is not stored yet; all other errors are of kind entity.ErrUnavailable. Only one value at a time is read,
// because a value may be as large as Kafka allows.
func (r *Republisher) Fetch(ctx context.Context, m entity.Message) (entity.Record, error) {
	out := &entity.Outgoing{Message: m}
	if err := r.pointerRefusal(&m); err != nil {
		return entity.Record{}, err
	}
	if err := valueRefusal(&m); err != nil {
		return entity.Record{}, err
	}
	at, fetched := sourceOf(out)
	if !fetched {
		return m.Record, nil
	}
	var record entity.Record
	err := r.fetchWith(ctx, r.reading, out, func(found entity.Record) { record = found })
	if err != nil {
		return entity.Record{}, at.refusal(err)
	}
	return record, nil
}

// fetchWith reads the record while it holds slot, and calls use with it. While the broker asks for a pause, slot is free
// for the records of other brokers.
func (r *Republisher) fetchWith(ctx context.Context, slot *semaphore.Weighted, out *entity.Outgoing, use func(entity.Record)) error {
	return broker.RetryThrottled(ctx, func() error { //nolint:wrapcheck // it is an error of this package
		if slot.Acquire(ctx, 1) != nil {
			return fmt.Errorf("wait to fetch the record: %w", ctx.Err())
		}
		defer slot.Release(1)
		record, err := r.fetch(ctx, out)
		if err == nil {
			use(record)
		}
		return err
	})
}

// fetch reads the record and checks that it is the record that the message was stored from, or that its pointer names.
func (r *Republisher) fetch(ctx context.Context, out *entity.Outgoing) (entity.Record, error) {
	at, _ := sourceOf(out)
	if at.Topic == "" {
		return entity.Record{}, fmt.Errorf("fetch the record: %w", errNowhere)
	}
	if at.pointer {
		if err := r.notInternal(ctx, at.Topic); err != nil {
			return entity.Record{}, err
		}
	}
	found, err := r.cluster.ReadAtOnce(ctx, at.TopicPartition, at.offset)
	if err != nil {
		return entity.Record{}, fmt.Errorf("fetch the value: %w", err)
	}
	if at.pointer {
		return pointedTo(found, out.Message.Source.Timestamp)
	}
	if sum := sha256.Sum256(found.Value); !bytes.Equal(sum[:], out.Message.Record.SHA256) {
		return entity.Record{}, fmt.Errorf("fetch the value: %w", errOtherValue)
	}
	return recordOf(found), nil
}

// recordOf converts a record that was read from Kafka. Such a record is complete.
func recordOf(found broker.Record) entity.Record {
	return entity.Record{Key: found.Key, Value: found.Value, Headers: found.Headers, Size: int64(len(found.Value))}
}

// pointedTo returns the record that was read at the position in a pointer. The parameter dead is the time of the dead
// letter: a record that was written later is another record, and an error.
func pointedTo(found broker.Record, dead time.Time) (entity.Record, error) {
	if deadletter.IsLaterRecord(found.Time, dead) {
		return entity.Record{}, fmt.Errorf("fetch the record: %w", errLaterRecord)
	}
	return recordOf(found), nil
}

// refusal returns the error of an attempt whose record could not be read. If another try could not read the record
// either, the error refuses the attempt; otherwise its kind is entity.ErrUnavailable.
func (s source) refusal(err error) error {
	what := "the record was too large to store, and dead-letter"
	if s.pointer {
		what = "the dead letter only points to its record, and"
	}
	var refused *entity.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, errLaterRecord), errors.Is(err, errOtherValue):
		return refuse(entity.BadRecord, "%s topic %q has a different record at offset %d of partition %d: it was deleted and created again",
			what, s.Topic, s.offset, s.Partition)
	case errors.Is(err, broker.ErrUnauthorized):
		return refuse(entity.BadRecord, "%s topic %q may not be read", what, s.Topic)
	case errors.Is(err, broker.ErrTooLarge):
		return refuse(entity.BadRecord, "%s topic %q has more at offset %d of partition %d than can be read: %v",
			what, s.Topic, s.offset, s.Partition, err)
	case errors.Is(err, broker.ErrCorrupt):
		return refuse(entity.BadRecord, "%s topic %q cannot be read at offset %d of partition %d: %v",
			what, s.Topic, s.offset, s.Partition, err)
	case errors.Is(err, broker.ErrUnknownTopic):
		return refuse(entity.BadRecord, "%s topic %q, partition %d, does not exist", what, s.Topic, s.Partition)
	case errors.Is(err, broker.ErrOutOfRange):
		return refuse(entity.BadRecord, "%s topic %q ends before offset %d of partition %d: it was deleted and created again",
			what, s.Topic, s.offset, s.Partition)
	case gone(err):
		return refuse(entity.BadRecord, "%s topic %q no longer has offset %d of partition %d: it was removed by retention or compaction",
			what, s.Topic, s.offset, s.Partition)
	default:
		return &unavailableError{fmt.Errorf("ask for topic %q: %w", s.Topic, err)}
	}
}

// checkValues sets the errors of messages whose value must be read from a topic that no longer has it, or whose log
// cannot be asked now.
func (r *Republisher) checkValues(ctx context.Context, batch []entity.Outgoing, targets []entity.Target) {
	parts := open(targets, func(i int) broker.TopicPartition {
		at, _ := sourceOf(&batch[i])
		return at.TopicPartition
	})
	if len(parts) == 0 {
		return
	}
	starts, err := r.cluster.StartOffsets(ctx, parts)
	for i := range targets {
		at, fetched := sourceOf(&batch[i])
		if targets[i].Err != nil || !fetched {
			continue
		}
		start, ok := starts[at.TopicPartition]
		switch {
		case !ok && at.pointer:
			targets[i].Err = at.refusal(noAnswer(at.TopicPartition, err))
		case !ok:
			targets[i].Err = sourceError(at.Topic, noAnswer(at.TopicPartition, err))
		case at.offset < start && at.pointer:
			targets[i].Err = refuse(entity.BadRecord, "the dead letter only points to its record, and topic %q no longer has it: partition %d starts at offset %d, after %d",
				at.Topic, at.Partition, start, at.offset)
		case at.offset < start:
			targets[i].Err = refuse(entity.BadRecord, "the record was too large to store, and the dead-letter topic no longer has it")
		}
	}
}

// readFirst chooses the targets of messages whose record must be read from Kafka before the attempt: pointers, and
// records that were stored without key or headers, or without a value that may be an envelope. Only a read shows whether
// the record still exists and is small enough. The records are read one at a time. From a partition that is unreachable,
// only one record is tried. It calls aim with the index of each message and its record.
func (r *Republisher) readFirst(ctx context.Context, batch []entity.Outgoing, targets []entity.Target, aim func(i int, source entity.Record)) {
	away := map[broker.TopicPartition]error{}
	for i := range batch {
		at, _ := sourceOf(&batch[i])
		if targets[i].Err != nil || !at.inspect && !looksFirst(&batch[i]) {
			continue
		}
		if targets[i].Err = away[at.TopicPartition]; targets[i].Err != nil {
			continue
		}
		err := r.fetchWith(ctx, r.fetching, &batch[i], func(found entity.Record) { aim(i, found) })
		if err != nil {
			targets[i].Err = at.refusal(err)
		}
		if errors.Is(targets[i].Err, entity.ErrUnavailable) {
			away[at.TopicPartition] = targets[i].Err
		}
	}
}
