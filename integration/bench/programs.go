package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produceBacklog fills the dead-letter topics before anybody reads them.
func (b *bench) produceBacklog(ctx context.Context) error {
	b.say("producing %d dead letters", b.opts.records)
	var all []string
	for _, name := range names {
		all = append(all, deadLetterTopic(name), originalTopic(name))
	}
	if err := b.kafka.create(ctx, all...); err != nil {
		return err
	}
	letters := newLetters()
	start := time.Now()
	for i, n := range quota(b.opts.records, b.opts.retry) {
		bytes, err := b.kafka.produce(ctx, n, func(n int) *kgo.Record { return letters.letter(names[i], n) })
		if err != nil {
			return err
		}
		b.result.ingest.bytes += bytes
	}
	b.result.produce = rate{b.opts.records, time.Since(start)}
	sample := letters.letter(names[0], 0)
	b.result.ingest.value, b.result.ingest.headers = len(sample.Value), headerBytes(sample)
	return b.expectHeld(ctx, deadLetterTopic, int64(b.opts.records))
}

func (b *bench) expectHeld(ctx context.Context, topic func(string) string, want int64) error {
	var topics []string
	for _, name := range names {
		topics = append(topics, topic(name))
	}
	got, err := b.kafka.held(ctx, topics...)
	if err == nil && got != want {
		err = fmt.Errorf("the run is worthless: %d records in %v, want %d", got, topics, want)
	}
	return err
}

// ingested is how the ingester did.
type ingested struct {
	rate
	bytes          int64 // of all values
	value, headers int   // bytes of one record
	steps          []rate
	memory         int64 // most that was resident, in bytes
	cpu            usage
}

// ingestSteps is into how many equal parts of the work the time is split: what
// is fast at first may not stay so.
const ingestSteps = 5

// ingestBacklog times one ingester with default settings, from its being ready
// to the last record's being stored; joining the group is part of it.
func (b *bench) ingestBacklog(ctx context.Context) (err error) {
	b.say("ingesting")
	if err := b.live.settle(ctx); err != nil {
		return err
	}
	ingester, err := b.program("ingester", b.live).serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.stop()) }()
	before, err := cpuNow()
	if err != nil {
		return err
	}
	if err := b.watch(ctx, ingester); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	after, err := cpuNow()
	if err != nil {
		return err
	}
	in := &b.result.ingest
	in.cpu = after.since(before)
	if in.memory, err = peakMemory(ingester.Pid()); err != nil {
		return err
	}
	return b.expectIngested(ctx)
}

// watch waits until everything is counted. The counters move in the statement
// that stores, and cost nothing to ask.
func (b *bench) watch(ctx context.Context, ingester *running) error {
	in, all := &b.result.ingest, b.opts.records
	start := time.Now()
	last := rate{}
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		if err := ingester.alive(); err != nil {
			return false, err
		}
		n, err := b.live.number(ctx, countCounters)
		if err != nil {
			return false, err
		}
		now := rate{int(n), time.Since(start)}
		if next := all * (len(in.steps) + 1) / ingestSteps; now.n >= next && len(in.steps) < ingestSteps {
			in.steps = append(in.steps, rate{now.n - last.n, now.took - last.took})
			last = now
		}
		in.rate = now
		return now.n >= all, nil
	})
	return err
}

func (b *bench) expectIngested(ctx context.Context) error {
	all := int64(b.opts.records)
	return b.live.expect(ctx,
		expectation{"stored rows", countRows, all},
		expectation{"counters", countCounters, all},
		expectation{"different offsets", `SELECT count(*) FROM (
			SELECT DISTINCT dlq_incarnation_id, dlq_partition, dlq_offset FROM dlq.dlq_messages) d`, all},
		expectation{"positions", `SELECT sum(next_offset) FROM dlq.ingest_positions`, all},
		expectation{"bytes of values", `SELECT sum(octet_length(value)) FROM dlq.dlq_messages`, b.result.ingest.bytes},
		expectation{"rows that were not read whole", `SELECT count(*) FROM dlq.dlq_messages
			WHERE status <> 'PENDING' OR dialect IS DISTINCT FROM 'spring-dlt' OR payload IS NULL
			   OR headers IS NULL OR key IS NULL OR original_offset IS NULL`, 0},
		expectation{"rows of the topic to retry", `SELECT count(*) FROM dlq.dlq_messages
			WHERE original_topic = '` + originalTopic(names[0]) + `'`, int64(b.opts.retry)},
	)
}
