package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
	// newTopicGrace is how long brokers may answer that they do not know a topic until the topic counts as missing,
	// because brokers learn of new topics late.
	newTopicGrace = 500 * time.Millisecond
	maxProducers  = 3 // maximum number of producer ids that one batch may request
)

// write is the state of one Produce call.
type write struct {
	producer *Producer
	lane     *lane
	limit    BatchLimit
	result   *ProduceResult
}

// batch writes records as one batch and fills results, which has one entry for each record. When the broker rejects
// some of the records, their results say so, and the other records are written without the rejected ones. After a
// returned error the whole call of Produce must stop; the error is also in results.
func (w *write) batch(ctx context.Context, records []Record, results []RecordResult) *ProduceError {
	ack, err := w.try(ctx, records)
	switch {
	case err == nil:
		for i := range results {
			results[i].Offset = OffsetUnknown
			if ack.BaseOffset >= 0 {
				results[i].Offset = ack.BaseOffset + int64(i)
			}
		}
		return nil
	case err.Fate != RecordRejected:
		fail(results, err)
		return err
	case len(records) == 1:
		fail(results, err)
		return nil
	}
	if bad := badRecords(ack, len(records)); len(bad) > 0 && len(bad) < len(records) {
		return w.without(ctx, bad, records, results, err)
	}
	half := len(records) / 2
	if err := w.batch(ctx, records[:half], results[:half]); err != nil {
		fail(results[half:], unsent(err))
		return err
	}
	return w.batch(ctx, records[half:], results[half:])
}

// without writes the batch once more, without those records that the broker has refused as bad.
func (w *write) without(ctx context.Context, bad map[int]string, records []Record, results []RecordResult, cause *ProduceError) *ProduceError {
	good := make([]Record, 0, len(records)-len(bad))
	for i, rec := range records {
		if _, ok := bad[i]; !ok {
			good = append(good, rec)
		}
	}
	done := make([]RecordResult, len(good))
	err := w.batch(ctx, good, done)
	for i := range results {
		if why, ok := bad[i]; ok {
			reason := &ProduceError{cause.Fate, cause.Class, fmt.Errorf("%w: %s", cause.Err, why)}
			results[i] = RecordResult{Offset: OffsetUnknown, Err: reason}
			continue
		}
		results[i], done = done[0], done[1:]
	}
	return err
}

// try sends one batch again and again until its result is known or ProducerConfig.Timeout has passed. All tries send
// the same records with the same sequence, so that the broker recognises a repeated batch; only if the broker does not
// accept the sequence, the next try has a new producer id. With RecordRejected it also returns the broker's answer,
// which names the rejected records.
func (w *write) try(ctx context.Context, records []Record) (produce.ResponsePartition, *ProduceError) {
	var none produce.ResponsePartition
	encoded, err := w.encode(records)
	if err != nil {
		return none, &ProduceError{RecordRejected, ClassBadRecord, err}
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, w.producer.cfg.Timeout)
	defer cancel()
	var doubt bool // the broker may have appended the batch of an earlier try
	var unknownSince time.Time
	producers := 0
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		ack, v, err := w.once(ctx, encoded)
		switch v {
		case written:
			w.lane.advance(len(records))
			return ack, nil
		case recordsRefuse, topicRefuse:
			return ack, w.refused(v, doubt, err)
		case staleProducer:
			w.lane.known = false
			if producers++; doubt || producers >= maxProducers {
				return none, w.giveUp(doubt, err)
			}
			backoff = firstBackoff
		case maybeWritten:
			doubt = true
		case notWritten:
			if errors.Is(err, ErrNotTried) {
				return none, w.giveUp(doubt, conn.CallerError(caller, err))
			}
			if !errors.Is(err, ErrUnknownTopic) {
				unknownSince = time.Time{}
			} else if unknownSince.IsZero() {
				unknownSince = time.Now()
			} else if time.Since(unknownSince) >= newTopicGrace {
				return none, w.refused(topicRefuse, doubt, err)
			}
		}
		if !errors.Is(err, kafka.ThrottlingQuotaExceeded) { // a broker that asks for a pause still leads the partition
			w.producer.leaders.forget(w.lane.tp.Topic)
		}
		if ctx.Err() != nil || !wait.Sleep(ctx, backoff) {
			return none, w.giveUp(doubt, conn.CallerError(caller, err))
		}
	}
}

// encode uses the producer's codec, or the codec of the limit when the batch would be larger than the topic accepts.
func (w *write) encode(records []Record) (*protocol.EncodedBatch, error) {
	encoded, err := protocol.EncodeBatch(records, w.producer.codec)
	if err != nil || w.limit.Bytes == 0 || encoded.Size() <= w.limit.Bytes {
		return encoded, err
	}
	codec, err := codecOf(w.limit.Codec)
	if err != nil {
		return nil, err
	}
	return protocol.EncodeBatch(records, codec)
}

// refused turns the broker's refusal into an error. If the broker may have appended the batch of an earlier try, the
// records are in doubt instead.
func (w *write) refused(v verdict, doubt bool, err error) *ProduceError {
	switch {
	case doubt:
		return w.giveUp(doubt, err)
	case v == recordsRefuse:
		return &ProduceError{RecordRejected, ClassBadRecord, err}
	default:
		return &ProduceError{TopicRefused, Classify(err), err}
	}
}

// giveUp returns the error of a batch whose result did not become known. If the batch is in doubt, its producer id is
// dropped, because the broker may have used the sequence for this batch.
func (w *write) giveUp(doubt bool, err error) *ProduceError {
	if !doubt {
		return &ProduceError{NotSent, Classify(err), err}
	}
	w.lane.known = false
	return &ProduceError{InDoubt, Classify(err), err}
}

// once sends the batch a single time. It returns the broker's answer and what to do next.
func (w *write) once(ctx context.Context, encoded *protocol.EncodedBatch) (produce.ResponsePartition, verdict, error) {
	var none produce.ResponsePartition
	pool, timeout := w.producer.pool, w.producer.cfg.RequestTimeout
	leader, err := w.producer.leaders.of(ctx, w.lane.tp)
	if err == nil && !w.producer.awaitThrottle(ctx, leader) {
		err = fmt.Errorf("%w: %w", ErrNotTried, kafka.ThrottlingQuotaExceeded)
	}
	if err == nil {
		err = w.lane.identify(ctx, pool, leader, timeout)
	}
	if err != nil {
		return none, beforeSending(err), err
	}
	request := protocol.Produce(w.lane.tp, timeout, w.lane.sign(encoded), encoded)
	res, err := conn.Send(ctx, pool, leader, timeout, request)
	switch {
	case err == nil:
	case conn.WasSent(err):
		return none, maybeWritten, err
	default:
		return none, beforeSending(err), err
	}
	ack, throttle, err := protocol.Acknowledgement(res)
	if err != nil {
		return none, maybeWritten, err
	}
	w.result.Throttle = max(w.result.Throttle, throttle)
	w.producer.pause(leader, throttle)
	if err := answerError(ack); err != nil {
		return ack, judge(ack.ErrorCode), fmt.Errorf("write to %s: %w", w.lane.tp, err)
	}
	return ack, written, nil
}

func beforeSending(err error) verdict {
	if refusesTopic(err) {
		return topicRefuse
	}
	return notWritten
}

// sign returns a batch header with the producer id and the next sequence of the lane.
func (l *lane) sign(encoded *protocol.EncodedBatch) []byte {
	return encoded.Signed(l.id, l.epoch, l.sequence)
}
