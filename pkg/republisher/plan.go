package republisher

import (
	"context"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Plan says where each message would go, in the order of messages, or in
// Target.Err why no attempt may start: a *entity.RefusedError, or an error of
// kind entity.ErrUnavailable when Kafka or the partition's leader cannot be
// reached; the partition is then -1 when not even that could be chosen.
// Messages need their bytes. bulk means that nobody looked at each of them; then
// an original topic that was only guessed is refused.
//
// An end offset is asked for every target partition, all of them at once.
func (r *Republisher) Plan(ctx context.Context, messages []entity.Message, bulk bool) []entity.Target {
	targets := make([]entity.Target, len(messages))
	for i, m := range messages {
		targets[i] = entity.Target{Topic: m.OriginalTopic, Partition: -1, Err: r.refusal(m, bulk)}
	}
	r.choosePartitions(ctx, messages, targets)
	r.checkValues(ctx, messages, targets)
	r.noteEnds(ctx, targets)
	return targets
}

// refusal says what is against a replay and can be told without asking Kafka.
func (r *Republisher) refusal(m entity.Message, bulk bool) error {
	topic := m.OriginalTopic
	switch {
	case topic == "":
		return refuse(entity.UnknownTopic, "the original topic is not known; map it first")
	case !deadletter.ValidTopic(topic):
		return refuse(entity.UnknownTopic, "%q cannot be the name of a topic", topic)
	case r.deadLetters.Match(topic):
		return refuse(entity.LoopRefused, "topic %q is a dead-letter topic", topic)
	case strings.HasPrefix(topic, "_") && !r.allowed.names(topic):
		return refuse(entity.Unauthorized, "topic %q is internal, and republish_allow does not name it", topic)
	case !r.allowed.topic(topic):
		return refuse(entity.Unauthorized, "topic %q is not in republish_allow", topic)
	case bulk && m.Origin.Confidence == entity.FromName:
		return refuse(entity.UnknownTopic, "original topic %q was derived from a name; retry one message at a time, or map it", topic)
	case deadletter.IsPointer(m.Record):
		return refuse(entity.BadRecord, "the dead letter names its record but does not carry it")
	case m.Record.State == entity.ValueMissing:
		return refuse(entity.BadRecord, "the message has neither bytes nor a payload")
	case m.Record.State == entity.ValueNotLoaded:
		return refuse(entity.BadRecord, "the value was not loaded")
	case m.Record.State == entity.ValueOverLimit && !m.Source.Known():
		return refuse(entity.BadRecord, "the value is stored nowhere")
	}
	return nil
}

// choosePartitions looks the target topics up anew, for nothing may be sent to
// one that is gone.
func (r *Republisher) choosePartitions(ctx context.Context, messages []entity.Message, targets []entity.Target) {
	names := open(targets, func(i int) string { return targets[i].Topic })
	if len(names) == 0 {
		return
	}
	topics, err := r.cluster.Topics(ctx, names...)
	found := make(map[string]broker.Topic, len(topics))
	for _, t := range topics {
		found[t.Name] = t
	}
	for i := range targets {
		if targets[i].Err != nil {
			continue
		}
		topic, ok := found[targets[i].Topic]
		if targets[i].Err = missing(targets[i].Topic, topic, ok, err); targets[i].Err == nil {
			targets[i].TopicID = topic.ID
			targets[i].Partition = r.partition(messages[i], len(topic.Partitions))
		}
	}
}

// missing returns why a topic cannot be used, nil when it can.
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

// checkValues refuses messages whose value was too large to store and is no
// longer in the dead-letter topic.
func (r *Republisher) checkValues(ctx context.Context, messages []entity.Message, targets []entity.Target) {
	overLimit := func(i int) bool { return messages[i].Record.State == entity.ValueOverLimit }
	parts := open(targets, func(i int) broker.TopicPartition {
		if !overLimit(i) {
			return broker.TopicPartition{}
		}
		return sourceOf(messages[i])
	})
	if len(parts) == 0 {
		return
	}
	starts, err := r.cluster.StartOffsets(ctx, parts)
	for i, m := range messages {
		if targets[i].Err != nil || !overLimit(i) {
			continue
		}
		start, ok := starts[sourceOf(m)]
		switch {
		case !ok:
			targets[i].Err = targetError(m.Source.Topic, noAnswer(sourceOf(m), err))
		case m.Source.Offset < start:
			targets[i].Err = refuse(entity.BadRecord, "the value was too large to store, and the dead-letter topic no longer has it")
		}
	}
}

func sourceOf(m entity.Message) broker.TopicPartition {
	return broker.TopicPartition{Topic: m.Source.Topic, Partition: m.Source.Partition}
}

func (r *Republisher) noteEnds(ctx context.Context, targets []entity.Target) {
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

// ends asks for end offsets, a few times while a leader is being elected: that
// takes moments, and is no reason to send an operator away.
func (r *Republisher) ends(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	for try, wait := 1, electionPause; ; try, wait = try+1, 2*wait {
		ends, err := r.cluster.EndOffsets(ctx, parts)
		if try == electionTries || !electing(err) || !pause(ctx, wait) {
			return ends, err
		}
	}
}

// How long an election is waited for: 0.7 s in all.
const (
	electionTries = 4
	electionPause = 100 * time.Millisecond
)

// pause waits for d, or less when ctx ends first; then it answers false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// open returns what of gives for the targets that nothing is against, each
// value once; zero values are left out.
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
