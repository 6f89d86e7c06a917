package redrive

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
)

// weather is the state of the modelled broker: well, or with a fault.
type weather string

// The states of the broker.
const (
	well      weather = "well"
	noBroker  weather = "away"             // Kafka does not answer: every plan and every send fails
	noLeader  weather = "without a leader" // partition 1 of each topic has no leader
	failing   weather = "failing"          // every send fails at once
	silent    weather = "silent"           // no send gets an answer; the record may be written or not
	forbidden weather = "forbidding"       // the broker accepts no record of the topic orders
)

// weathers are the states in which the broker has a fault.
var weathers = []weather{noBroker, noLeader, failing, silent, forbidden}

const (
	// answerPatience is how long a send waits for its answer.
	answerPatience = 5 * time.Second

	// late is how long after answerPatience a record may still be written.
	late = 3 * time.Second
)

// poison and refused are beginnings of values: a broker without a fault rejects every record whose value begins with
// poison, and Plan refuses every message whose value begins with refused.
var poison, refused = []byte("poison"), []byte("refused")

func refusable(r entity.Record) bool { return bytes.HasPrefix(r.Value, refused) }

// envelope is the beginning of values that Plan refuses as envelopes unless they are accepted.
var envelope = []byte("envelope")

func isEnvelope(r entity.Record) bool { return bytes.HasPrefix(r.Value, envelope) }

// written is a record in the log of the modelled cluster.
type written struct {
	message, attempt, redrive uuid.UUID
	topic                     string
	record                    entity.Record
}

// topicPartition is a partition of the cluster.
type topicPartition struct {
	topic     string
	partition int32
}

// modelLog is the Kafka cluster of the model, with the partitions of its topics. All processes share it.
type modelLog struct {
	weather    weather
	partitions map[topicPartition][]written
	lost       map[topicPartition]int64 // by partition: the smallest offset that can still be read
}

func partitionOf(out entity.Outgoing) topicPartition {
	key := out.Edit.Apply(out.Message.Record).Key
	if len(key) == 0 {
		return topicPartition{redrivetest.TopicOf(out), int32(out.Message.ID[15] % 2)}
	}
	return topicPartition{redrivetest.TopicOf(out), int32(key[len(key)-1] % 2)}
}

// modelBroker is a process's connection to the cluster.
type modelBroker struct{ p *process }

func (b *modelBroker) Plan(ctx context.Context, batch []entity.Outgoing, _ bool) []entity.Target {
	b.p.thaw()
	b.p.point()
	lost := b.p.travel(ctx)
	b.p.thaw()
	w := b.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	targets := make([]entity.Target, len(batch))
	for i, out := range batch {
		at := partitionOf(out)
		targets[i] = entity.Target{
			Topic: at.topic, TopicID: "id of " + at.topic, Partition: at.partition, EndOffset: int64(len(w.log.partitions[at])),
		}
		sent := out.Edit.Apply(out.Message.Record)
		targets[i].Envelope = isEnvelope(sent)
		if out.Edit != nil {
			targets[i].SentHash = entity.RecordHash(sent.Key, sent.Value)
		}
		switch {
		case lost != nil || b.p.isDead() || w.log.weather == noLeader && at.partition == 1:
			targets[i].Err = errAway
		case w.log.weather == noBroker:
			targets[i].Partition, targets[i].Err = -1, errAway
		case refusable(sent):
			targets[i].Err = &entity.RefusedError{Class: entity.BadRecord, Reason: "refused on purpose"}
		case isEnvelope(sent) && !out.AcceptEnvelope:
			targets[i].Err = &entity.RefusedError{Class: entity.Envelope, Reason: "it looks like an envelope"}
		}
	}
	return targets
}

func (b *modelBroker) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(batch))
	unanswered := false
	for i, out := range batch {
		deliveries[i] = b.send(ctx, out)
		unanswered = unanswered || deliveries[i].Verdict == entity.InDoubt
	}
	if unanswered {
		elapse(answerPatience)
	}
	b.p.thaw()
	return deliveries
}

func (b *modelBroker) send(ctx context.Context, out entity.Outgoing) entity.Delivery {
	at := topicPartition{out.Target.Topic, out.Target.Partition}
	d := entity.Delivery{Verdict: entity.GivenBack, Partition: at.partition, Offset: -1}
	b.p.thaw()
	if until, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(until) || b.p.point() {
		return d
	}
	_ = b.p.travelFor(context.Background(), late) // the end of a context does not cancel a send that has begun
	if b.p.isDead() && b.p.coin() {
		return d
	}
	d = b.deliver(out, at)
	b.p.point()
	return d
}

// deliver writes a record, or does not write it, depending on the state of the broker. It returns the broker's answer.
func (b *modelBroker) deliver(out entity.Outgoing, at topicPartition) entity.Delivery {
	w := b.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	d := entity.Delivery{Partition: at.partition, Offset: -1, Err: redrivetest.ErrBroken}
	sent := out.Edit.Apply(out.Message.Record)
	w.want(!isEnvelope(sent) || w.accepts[out.Message.ID] || w.accepts[out.Message.Claim.RedriveID],
		"an envelope sent unasked", "%s is sent by redrive %s", out.Message.ID, out.Message.Claim.RedriveID)
	switch {
	case w.log.weather == noBroker || w.log.weather == noLeader && at.partition == 1:
		d.Verdict, d.Class = entity.Failed, entity.BrokerUnavailable
	case w.log.weather == forbidden && at.topic == orders:
		d.Verdict, d.Class = entity.Refused, entity.Unauthorized
	case w.log.weather == silent:
		d.Verdict, d.Class = entity.InDoubt, entity.NetworkTimeout
		b.perhaps(out, at)
	case bytes.HasPrefix(sent.Value, poison):
		d.Verdict, d.Class = entity.Rejected, entity.BadRecord
	case w.log.weather == failing:
		d.Verdict, d.Class = entity.Failed, entity.RateLimited
	default:
		d.Verdict, d.Err = entity.Acknowledged, nil
		d.Offset = w.write(out, at)
	}
	return d
}

// perhaps decides at random whether a record is written at once, written after its sender has given up, or not written.
// A record whose value begins with poison is not written.
func (b *modelBroker) perhaps(out entity.Outgoing, at topicPartition) {
	w := b.p.w
	switch n := b.p.random(); {
	case bytes.HasPrefix(out.Edit.Apply(out.Message.Record).Value, poison):
	case n < 0.4:
		w.write(out, at)
	case n < 0.7:
		w.others.Go(func() {
			elapse(answerPatience + time.Duration(n*float64(late)))
			w.mu.Lock()
			defer w.mu.Unlock()
			w.write(out, at)
		})
	}
}

func (b *modelBroker) FindMany(ctx context.Context, claims []entity.Claim) []entity.Delivery {
	b.p.thaw()
	b.p.point()
	lost := b.p.travel(ctx)
	w := b.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	deliveries := make([]entity.Delivery, len(claims))
	for i, c := range claims {
		deliveries[i] = w.log.find(c)
		if lost != nil || b.p.isDead() {
			deliveries[i] = entity.Delivery{Verdict: entity.InDoubt, Class: entity.BrokerUnavailable, Err: errAway, Offset: -1}
		}
	}
	return deliveries
}

func (l *modelLog) find(c entity.Claim) entity.Delivery {
	at := topicPartition{c.Topic, c.Partition}
	d := entity.Delivery{Partition: c.Partition, Offset: -1}
	if l.weather == noBroker || l.weather == noLeader && c.Partition == 1 {
		d.Verdict, d.Class, d.Err = entity.InDoubt, entity.BrokerUnavailable, errAway
		return d
	}
	for offset, r := range l.partitions[at] {
		if int64(offset) >= max(c.EndOffset, l.lost[at]) && r.attempt == c.ID {
			d.Verdict, d.Class, d.Offset = entity.Acknowledged, entity.AlreadyPublished, int64(offset)
			return d
		}
	}
	if d.Verdict = entity.GivenBack; c.EndOffset < l.lost[at] {
		d.Verdict, d.Class, d.Err = entity.InDoubt, entity.UnknownClass, redrivetest.ErrBroken
	}
	return d
}
