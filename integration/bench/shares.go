package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/sharegroup"
)

const (
	pointerRate = 1000 // dead letters a second
	// completionLimit is a limit in seconds: every dead letter must wait less than that until its record is stored.
	completionLimit = 5.0
)

// shares measures how long the dead letters of a share group, which contain no value, wait until the ingester has
// stored their records.
func shares(ctx context.Context, s *side) []figure {
	source, dlq, group := s.topicName(90)+".shared", sharedDeadLetterTopic(s.topicName(90)), s.topicName(90)+"-group"
	s.createShareGroup(ctx, source, dlq, group)
	n := s.opts.count(recordsToComplete)
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = s.kafka.letter(s.topicName(90), i)
		records[i].Topic, records[i].Headers = source, nil
	}
	check(s.kafka.client.ProduceSync(ctx, records...).FirstErr())
	pointers := make([]*kgo.Record, n)
	for i, r := range records {
		pointers[i] = pointerTo(r, dlq, group)
	}
	d := s.database(ctx, "shares", s.id)
	d.settle(ctx)
	var work section
	var oldest float64
	s.with(ctx, "ingester", d, func(ingester program) {
		work = ingester.timed(func() int {
			oldest = s.complete(ctx, d, pointers)
			return n
		})
	})
	expect("records that are stored with their message", d.number(ctx, `SELECT sum(octet_length(value)) FROM dlq.messages`), sizeOf(records))
	wait := work.figure("share groups, longest wait of a dead letter for its record", "s", oldest).limit(completionLimit)
	return append([]figure{wait}, append(work.processors("share groups", "postgres", "ingester"),
		work.resident("share groups, memory of the ingester"))...)
}

// sharedDeadLetterTopic returns the dead-letter topic of a share group. name may be a pattern.
func sharedDeadLetterTopic(name string) string { return "dlq." + name }

// createShareGroup creates the topics, and a share group that reads the topic source and has the dead-letter topic dlq. A
// member of the group accepts one record of each partition, so that the group is listed and has a committed position in
// every partition.
func (b *bench) createShareGroup(ctx context.Context, source, dlq, group string) {
	b.kafka.create(ctx, source, dlq)
	check(sharegroup.Configure(ctx, b.kafka.client, group, map[string]string{"errors.deadletterqueue.topic.name": dlq}))
	for p := range partitions {
		check(b.kafka.client.ProduceSync(ctx, &kgo.Record{Topic: source, Partition: int32(p), Value: []byte("first")}).FirstErr())
	}
	consumer := must(sharegroup.Start(ctx, sharegroup.Options{Brokers: b.brokers, Group: group, Topics: []string{source}, Dir: b.folder}))
	defer consumer.Kill()
	await(ctx, time.Minute, 100*time.Millisecond, "the share group", func() bool { return len(consumer.Deliveries()) >= partitions })
	check(consumer.Stop())
}

// pointerTo returns a dead letter like the one that the broker would write for a record of a share group: it has
// headers, but no key and value.
func pointerTo(r *kgo.Record, dlq, group string) *kgo.Record {
	header := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: "__dlq.errors." + name, Value: []byte(value)}
	}
	return &kgo.Record{Topic: dlq, Partition: r.Partition, Headers: []kgo.RecordHeader{
		header("topic", r.Topic), header("partition", fmt.Sprint(r.Partition)), header("offset", fmt.Sprint(r.Offset)),
		header("group", group), header("delivery.count", "1"), header("message", "Offset rejected by client."),
	}}
}

// complete writes the dead letters at the rate pointerRate and waits until the records of all of them are stored. It
// returns the longest wait of a dead letter that it has observed, in seconds.
func (s *side) complete(ctx context.Context, d *database, pointers []*kgo.Record) (oldest float64) {
	const tick = 100 * time.Millisecond
	const each = pointerRate / int(time.Second/tick)
	var written []time.Time // times at which the dead letters were written, one for each tick
	var next time.Time
	await(ctx, time.Hour, tick/10, "records of share groups", func() bool {
		if now := time.Now(); len(written)*each < len(pointers) && !now.Before(next) {
			if next.IsZero() {
				next = now
			}
			next = next.Add(tick)
			written = append(written, now)
			from := (len(written) - 1) * each
			check(s.kafka.client.ProduceSync(ctx, pointers[from:min(from+each, len(pointers))]...).FirstErr())
		}
		if len(written)%5 != 0 && len(written)*each < len(pointers) {
			return false
		}
		done := int(d.number(ctx, `SELECT count(*) FROM dlq.share_records WHERE state = 'completed'`))
		if first := done / each; first < len(written) {
			oldest = max(oldest, time.Since(written[first]).Seconds())
		}
		return done == len(pointers)
	})
	return oldest
}

func sizeOf(records []*kgo.Record) (total int64) {
	for _, r := range records {
		total += int64(len(r.Value))
	}
	return total
}
