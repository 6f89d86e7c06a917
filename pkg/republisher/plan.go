package republisher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Plan returns the target of each message, in the order of batch. Target.Err says why no attempt may start. It is a
// *entity.RefusedError, or an error of kind entity.ErrUnavailable when Kafka or the partition's leader cannot be
// reached; Target.Partition is then -1 if it could not be chosen. Messages must include their bytes; the targets in
// batch are ignored. With bulk, no person has reviewed each message, so Plan refuses original topics that were only
// guessed from a name.
//
// With an edit, the edited record is checked. An edit's topic must be named by republish_allow; a redirect's topic must
// be named only if that list is not empty. When an edit sets the value, nothing is fetched but the missing key and
// headers of a record that was too large to store. The record of a pointer is then sent without a key unless the edit
// has one.
//
// All end offsets are requested at once. Records of pointers, and records that were stored without key or headers, are
// read one after the other.
func (r *Republisher) Plan(ctx context.Context, batch []entity.Outgoing, bulk bool) []entity.Target {
	targets := make([]entity.Target, len(batch))
	for i := range batch {
		targets[i] = entity.Target{Topic: topicOf(&batch[i]), Partition: -1}
		targets[i].Err = r.refusal(&targets[i], &batch[i], bulk)
	}
	topics := r.queryTopics(ctx, targets)
	settings := r.settingsOf(ctx, open(targets, func(i int) string { return targets[i].Topic }))
	aim := func(i int, source entity.Record, known bool) {
		of := settings[targets[i].Topic]
		targets[i].MaxBytes, targets[i].Compression = of.maxBytes, of.compression
		r.aim(&targets[i], topics, &batch[i], source)
		if known {
			targets[i].Err = r.misfit(targets[i], of, &batch[i], source)
		}
	}
	for i := range batch {
		if targets[i].Err == nil {
			at, _ := sourceOf(&batch[i])
			aim(i, batch[i].Message.Record, !at.inspect)
		}
	}
	r.checkValues(ctx, batch, targets)
	r.readFirst(ctx, batch, targets, func(i int, found entity.Record) {
		aim(i, found, true)
		if err := envelopeRefusal(r.decoder, &targets[i], &batch[i], found); err != nil {
			targets[i].Err = err
		}
	})
	r.saveEnds(ctx, targets)
	return targets
}

// aim chooses the partition of the target t. The parameter source is the record that the attempt sends, before its
// edit.
func (r *Republisher) aim(t *entity.Target, topics map[string]broker.Topic, out *entity.Outgoing, source entity.Record) {
	topic := topics[t.Topic]
	key := r.key(out, source, out.Message.RetryCount+1)
	t.TopicID = topic.ID
	t.Partition = r.partition(out, key, len(topic.Partitions))
	if out.Edit == nil {
		return
	}
	if sent := out.Edit.Apply(source); sent.State == entity.ValueStored || sent.State == entity.ValueFromPayload {
		t.SentHash = entity.RecordHash(key, sent.Value)
	}
}

// refusal returns why a message cannot be sent to the target t, as far as this is known without a request to Kafka; nil
// if nothing is known against it. It sets t.Envelope.
func (r *Republisher) refusal(t *entity.Target, out *entity.Outgoing, bulk bool) error {
	m := &out.Message
	carried := out.Edit == nil || !out.Edit.SetValue // the attempt sends the message's own value, not a value of an edit
	if carried && deadletter.HasNoSource(m.Record) {
		return refuse(entity.BadRecord, "the dead letter has no source record: Kafka Streams failed without one, and there is nothing to send")
	}
	if err := r.topicRefusal(t.Topic); err != nil {
		return err
	}
	if err := envelopeRefusal(r.decoder, t, out, m.Record); err != nil {
		return err
	}
	switch {
	// such a message stands for several records that could not be read, so it has no record to edit
	case m.Record.State == entity.ValueUnreadable:
		return valueRefusal(m)
	case retargeted(out):
		if !r.allowed.limited {
			return refuse(entity.Unauthorized, "only topics that republish_allow names may be the target of an edit, and it names none")
		}
	case bulk && m.Origin.Confidence == entity.FromName:
		return refuse(entity.UnknownTopic, "original topic %q was derived from a name; retry one message at a time, or map it", m.OriginalTopic)
	}
	if !carried {
		return nil
	}
	if err := r.pointerRefusal(m); err != nil {
		return err
	}
	return valueRefusal(m)
}

// envelopeRefusal returns why the value of an attempt is not sent unless AcceptEnvelope is set: it looks like an envelope,
// and its consumers expect the record in it. The parameter source is the record that the attempt sends, before its edit.
func envelopeRefusal(d *deadletter.Decoder, t *entity.Target, out *entity.Outgoing, source entity.Record) error {
	value := out.Edit.Apply(source).Value
	members := d.Envelope(&out.Message, value)
	if t.Envelope = members != nil; !t.Envelope || out.AcceptEnvelope {
		return nil
	}
	return refuse(entity.Envelope, "the value looks like an envelope around the record that failed, by its members %s: the whole envelope of %d bytes "+
		"would be sent to topic %s; accept_envelope sends it as it is", strings.Join(members, ", "), len(value), t.Topic)
}

// looksFirst reports whether the value must be read from Kafka before the attempt, because it may be an envelope.
func looksFirst(out *entity.Outgoing) bool {
	r := &out.Message.Record
	return r.State == entity.ValueOverLimit && r.Size <= deadletter.MaxEnvelope && out.Message.Origin.Confidence != entity.FromHeader &&
		(out.Edit == nil || !out.Edit.SetValue)
}

// topicRefusal returns the reason for which no message may be sent to a topic; nil if there is none.
func (r *Republisher) topicRefusal(topic string) error {
	switch {
	case topic == "":
		return refuse(entity.UnknownTopic, "the original topic is not known; map it first")
	case !entity.ValidTopic(topic):
		return refuse(entity.UnknownTopic, "%q cannot be the name of a topic", topic)
	case r.deadLetters.Match(topic):
		return refuse(entity.LoopRefused, "topic %q is a dead-letter topic", topic)
	case entity.IsInternalTopic(topic) && !r.allowed.names(topic):
		return refuse(entity.Unauthorized, "topic %q is internal, and republish_allow does not name it", topic)
	case !r.allowed.topic(topic):
		return refuse(entity.Unauthorized, "topic %q is not in republish_allow", topic)
	}
	return nil
}

// CheckTarget returns why nothing can be sent to a topic now, by the rules of Plan; nil when records can be sent.
func (r *Republisher) CheckTarget(ctx context.Context, topic string) error {
	if err := r.topicRefusal(topic); err != nil {
		return err
	}
	target := []entity.Target{{Topic: topic}}
	r.queryTopics(ctx, target)
	return target[0].Err
}

// valueRefusal returns why there is no value to send.
func valueRefusal(m *entity.Message) error {
	switch {
	case deadletter.IsPointer(m.Record):
		if _, known := pointsTo(m); !known {
			return refuse(entity.BadRecord, "the dead letter names its record but does not carry it, and the record's position is not known")
		}
	case m.Record.State == entity.ValueMissing:
		return refuse(entity.BadRecord, "the message has neither bytes nor a payload")
	case m.Record.State == entity.ValueNotLoaded:
		return refuse(entity.BadRecord, "the value was not loaded")
	case m.Record.State == entity.ValueUnreadable:
		return refuse(entity.BadRecord, "offsets %d to %d of the dead-letter topic cannot be read: %s", m.Source.Offset, m.Record.LastOffset, m.Record.Unreadable)
	case m.Record.State == entity.ValueOverLimit && m.Record.Size > broker.ReadLimit:
		return refuse(entity.BadRecord, "the value of %d bytes is larger than the %d that can be replayed", m.Record.Size, int64(broker.ReadLimit))
	case m.Record.State == entity.ValueOverLimit && !m.Source.Known():
		return refuse(entity.BadRecord, "the value is not stored")
	}
	return nil
}

// queryTopics requests the target topics from Kafka, and sets the errors of targets whose topic cannot be used. It asks
// each time, because a cached answer may contain a topic that was deleted; plans at the same time share an answer that
// none of them finds too old.
func (r *Republisher) queryTopics(ctx context.Context, targets []entity.Target) map[string]broker.Topic {
	names := open(targets, func(i int) string { return targets[i].Topic })
	found := make(map[string]broker.Topic, len(names))
	if len(names) == 0 {
		return found
	}
	topics, err := r.asked.topics.Ask(ctx, strings.Join(names, " "), func(ctx context.Context) ([]broker.Topic, error) {
		return r.cluster.Topics(ctx, names...)
	})
	for _, t := range topics {
		found[t.Name] = t
	}
	for i := range targets {
		if targets[i].Err == nil {
			topic, ok := found[targets[i].Topic]
			targets[i].Err = missing(targets[i].Topic, topic, ok, err)
		}
	}
	return found
}

// missing returns the reason for which Kafka's answer does not allow a topic as a target, for example because it does
// not exist; nil when there is none.
func missing(name string, topic broker.Topic, ok bool, err error) error {
	if err == nil && ok {
		err = topic.Err
	}
	if err == nil && len(topic.Partitions) == 0 {
		err = broker.ErrUnknownTopic
	}
	if err != nil {
		return targetError(name, err)
	}
	return nil
}

func (r *Republisher) saveEnds(ctx context.Context, targets []entity.Target) {
	at := func(i int) broker.TopicPartition {
		return broker.TopicPartition{Topic: targets[i].Topic, Partition: targets[i].Partition}
	}
	parts := open(targets, at)
	if len(parts) == 0 {
		return
	}
	ends, err := r.ends(ctx, parts)
	for i := range targets {
		if targets[i].Err != nil {
			continue
		}
		end, ok := ends[at(i)]
		if !ok {
			targets[i].Err = targetError(targets[i].Topic, noAnswer(at(i), err))
		}
		targets[i].EndOffset = end
	}
}

// ends requests the end offsets of partitions. During a leader election it repeats the request a few times.
func (r *Republisher) ends(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	for try, delay := 1, electionPause; ; try, delay = try+1, 2*delay {
		ends, err := r.asked.ends.Ask(ctx, fmt.Sprint(parts), func(ctx context.Context) (map[broker.TopicPartition]int64, error) {
			return r.cluster.EndOffsets(ctx, parts)
		})
		if try == electionTries || !electing(err) || !wait.Sleep(ctx, delay) {
			return ends, err
		}
	}
}

// During a leader election, requests for end offsets are repeated after pauses, which take 0.7 s together.
const (
	electionTries = 4
	electionPause = 100 * time.Millisecond
)

// open calls of for each target that is not refused, and returns each different result once, without zero values.
func open[T comparable](targets []entity.Target, of func(i int) T) []T {
	var none T
	var list []T
	seen := map[T]bool{none: true}
	for i, t := range targets {
		if t.Err != nil {
			continue
		}
		if v := of(i); !seen[v] {
			seen[v] = true
			list = append(list, v)
		}
	}
	return list
}
