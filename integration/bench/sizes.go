package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sizesPart is ingest of other sizes of records, each into a database of its own.
type sizesPart struct {
	*bench
	sizes []sized
}

// sized is ingest of one size.
type sized struct {
	size
	ingested
	sent   sent
	copied copies
}

// size is a kind of records that are alike but for their keys and offsets.
type size struct {
	name  string // as the table has it
	bytes int    // of the value
	count int
	batch int // rows that the ingester stores at once: 1000, or 4 MB of them
}

func allSizes() []size {
	return []size{
		{name: "100 B", bytes: 100, count: 300_000, batch: copyBatch},
		{name: "100 KB", bytes: 100_000, count: 6_000, batch: 40},
	}
}

func (p *sizesPart) run(ctx context.Context) error {
	for _, s := range allSizes() {
		s.count = max(p.opts.share(s.count), 1)
		got, err := p.runSize(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		p.sizes = append(p.sizes, got)
	}
	return nil
}

func (p *sizesPart) runSize(ctx context.Context, s size) (got sized, err error) {
	p.say("ingesting %d of %s", s.count, s.name)
	got.size = s
	topic := heap{name: fmt.Sprintf("sized%d", s.bytes), bytes: s.bytes, count: s.count}
	if got.sent, err = p.heapUp(ctx, topic); err != nil {
		return got, err
	}
	d, err := p.database(ctx, "bench_"+topic.name)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, p.drop(ctx, d)) }()
	if got.ingested, err = p.ingestAll(ctx, d, topic.only(p.program("ingester", d)), s.count); err != nil {
		return got, err
	}
	if err := d.expectIngestedRows(ctx, s.count, got.sent.bytes); err != nil {
		return got, err
	}
	rows, err := d.sample(ctx, min(samples, 40_000_000/s.bytes), topic.original())
	if err != nil {
		return got, err
	}
	for _, connections := range copyConnections() {
		copied, err := p.copySize(ctx, d, s, rows, connections)
		if err != nil {
			return got, err
		}
		got.copied.add(copied)
	}
	return got, nil
}

// copySize writes rows of d by COPY, as many as were ingested, into an empty table.
func (p *sizesPart) copySize(ctx context.Context, d *database, s size, rows *sample, connections int) (out copying, err error) {
	empty, err := p.database(ctx, "bench_plain")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.drop(ctx, empty)) }()
	if err := empty.adopt(ctx, d); err != nil {
		return out, err
	}
	return empty.copyRows(ctx, rows, s.count, s.batch, connections)
}

func (p *sizesPart) lines() (lines []line) {
	for _, s := range p.sizes {
		name := fmt.Sprintf("ingest %s × %s, Kafka to PostgreSQL", thousands(s.count), s.name)
		lines = append(lines, s.besideCopy(name, s.copied, wantIngestSizedShare))
	}
	return lines
}

func (p *sizesPart) method() string {
	var b strings.Builder
	for _, s := range p.sizes {
		fmt.Fprintf(&b, "- **Ingest of %s.** The same with %s records of %s bytes of JSON, in one topic, an empty\n"+
			"  table each for ingest and every COPY (transactions of %s, as many as the ingester stores at once):\n"+
			"  %.1f s and, the fastest, %.1f s.\n",
			s.name, thousands(s.count), thousands(s.sent.value), thousands(s.batch), s.took.Seconds(), s.copied.fastest().took.Seconds())
	}
	return b.String()
}

// heap is a dead-letter topic of records that are alike but for their keys, which
// the programs only see when they are told of it.
type heap struct {
	name  string
	bytes int
	count int
}

func (h heap) dead() string     { return h.name + ".dead.v1" }
func (h heap) original() string { return originalTopic(h.name) }

// only tells a program of this topic alone.
func (h heap) only(p program) program {
	return p.with("DLQ_KAFKA_DLQ_TOPIC_PATTERN="+h.dead(), "DLQ_KAFKA_CONSUMER_GROUP=bench."+h.name)
}

// different is how many values there are that are not alike, or a hundredth of a
// gigabyte of them.
const different = 1000

// heapUp makes the topics and fills the dead one.
func (b *bench) heapUp(ctx context.Context, h heap) (s sent, err error) {
	if err := b.kafka.create(ctx, h.dead(), h.original()); err != nil {
		return s, err
	}
	client, err := newClient(b.stack.Brokers(), kgo.ProducerBatchMaxBytes(int32(h.bytes+1<<20)),
		kgo.MaxBufferedBytes(64<<20))
	if err != nil {
		return s, err
	}
	defer client.Close()
	l := newLetters()
	values := make([][]byte, min(different, max(3, 20_000_000/h.bytes)))
	for i := range values {
		values[i] = l.sized(h.bytes)
	}
	filling := cluster{client: client}
	w, err := timed(func() (int, error) {
		s.bytes, err = filling.produce(ctx, h.count, func(n int) *kgo.Record {
			r := l.around(h.name, n, values[n%len(values)])
			r.Topic = h.dead()
			return r
		})
		return h.count, err
	})
	if err != nil {
		return s, err
	}
	s.rate, s.value, s.headers = w.rate, len(values[0]), headerBytes(l.around(h.name, 0, nil))
	held, err := b.kafka.held(ctx, h.dead())
	if err == nil && held != int64(h.count) {
		err = fmt.Errorf("the run is worthless: %d records in %s, want %d", held, h.dead(), h.count)
	}
	return s, err
}
