package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ingestPart fills the table from Kafka, which the parts after it work on, and
// sets that beside writing the same rows without Kafka.
type ingestPart struct {
	*bench
	ingested
	sent sent

	single work // one INSERT a record
	copied copies
}

// sent is what waits in Kafka.
type sent struct {
	rate
	bytes          int64 // of all values
	value, headers int   // bytes of one record
}

// ingested is how the ingester did.
type ingested struct {
	work
	steps   []rate
	memory  int64 // most that was resident, in bytes
	profile profile
}

func (p *ingestPart) run(ctx context.Context) (err error) {
	if p.live, err = p.database(ctx, "bench"); err != nil {
		return err
	}
	if err := p.produceBacklog(ctx); err != nil {
		return err
	}
	p.say("ingesting")
	if p.ingested, err = p.ingestAll(ctx, p.live, p.program("ingester", p.live), p.opts.records); err != nil {
		return err
	}
	p.say("%s", p.pace())
	if err := p.expectIngested(ctx); err != nil {
		return err
	}
	if err := p.fillPayloads(ctx); err != nil {
		return err
	}
	return p.writePlain(ctx)
}

// end makes room: nothing measured after it needs this database.
func (p *ingestPart) end(ctx context.Context) error {
	d := p.live
	p.live = nil
	return p.drop(ctx, d)
}

// produceBacklog fills the dead-letter topics before anybody reads them.
func (p *ingestPart) produceBacklog(ctx context.Context) error {
	p.say("producing %d dead letters", p.opts.records)
	var all []string
	for _, name := range names {
		all = append(all, deadLetterTopic(name), originalTopic(name))
	}
	if err := p.kafka.create(ctx, all...); err != nil {
		return err
	}
	letters := newLetters()
	start := time.Now()
	for i, n := range quota(p.opts.records, p.opts.retry) {
		bytes, err := p.kafka.produce(ctx, n, func(n int) *kgo.Record { return letters.letter(names[i], n) })
		if err != nil {
			return err
		}
		p.sent.bytes += bytes
	}
	p.sent.rate = rate{p.opts.records, time.Since(start)}
	one := letters.letter(names[0], 0)
	p.sent.value, p.sent.headers = len(one.Value), headerBytes(one)
	return p.expectHeld(ctx, deadLetterTopic, int64(p.opts.records))
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

// writePlain writes as many rows to an empty table as to the one that the ingester
// filled: so they have met both ends of what ingest met. They are of topics that
// no other part counts.
func (p *ingestPart) writePlain(ctx context.Context) (err error) {
	var topics []string
	for _, name := range names[5:] {
		topics = append(topics, originalTopic(name))
	}
	rows, err := p.live.sample(ctx, samples, topics...)
	if err != nil {
		return err
	}
	raw, err := rows.unquoted()
	if err != nil {
		return err
	}
	empty, err := p.database(ctx, "bench_plain")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.drop(ctx, empty)) }()
	if err := empty.adopt(ctx, p.live); err != nil {
		return err
	}
	for _, d := range []*database{empty, p.live} {
		p.say("writing %d rows with one INSERT each and %d with COPY", p.opts.single/2, p.opts.copied/2)
		single, err := d.insertEach(ctx, raw, p.opts.single/2)
		if err != nil {
			return err
		}
		p.single = p.single.plus(single)
		if err := p.copyEach(ctx, d, rows, p.opts.copied/2); err != nil {
			return err
		}
	}
	return nil
}

// copyEach writes n rows in all, as many by each number of connections.
func (p *ingestPart) copyEach(ctx context.Context, d *database, rows *sample, n int) error {
	ways := copyConnections()
	for i, connections := range ways {
		got, err := d.copyRows(ctx, rows, n*(i+1)/len(ways)-n*i/len(ways), copyBatch, connections)
		if err != nil {
			return err
		}
		p.copied.add(got)
	}
	return nil
}

// rows are how many the live table has after the part ingest.
func (o options) rows() int { return o.records + o.single/2 + o.copied/2 }

// ingestSteps is into how many equal parts of the work the time is split: what
// is fast at first may not stay so.
const ingestSteps = 5

// ingestAll times one ingester, from its being ready to the last of n records'
// being stored in an empty table; joining the group is part of it.
func (b *bench) ingestAll(ctx context.Context, d *database, prog program, n int) (in ingested, err error) {
	if err := d.settle(ctx); err != nil {
		return in, err
	}
	noting, err := b.note(ctx, d, &prog)
	if err != nil {
		return in, err
	}
	ingester, err := prog.serve(ctx)
	if err != nil {
		return in, err
	}
	in.work, err = timed(func() (int, error) {
		err := in.watch(ctx, d, ingester, n)
		return n, err
	})
	if err == nil {
		in.memory, err = peakMemory(ingester.Pid())
	}
	if err = errors.Join(err, ingester.stop()); err != nil {
		return in, fmt.Errorf("ingest: %w", err)
	}
	in.profile, err = noting.done(ctx)
	return in, err
}

// watch waits until everything is counted. The counters move in the statement
// that stores, and cost nothing to ask.
func (in *ingested) watch(ctx context.Context, d *database, ingester *running, all int) error {
	start := time.Now()
	last := rate{}
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		if err := ingester.alive(); err != nil {
			return false, err
		}
		n, err := d.number(ctx, countCounters)
		if err != nil {
			return false, err
		}
		now := rate{int(n), time.Since(start)}
		if next := all * (len(in.steps) + 1) / ingestSteps; now.n >= next && len(in.steps) < ingestSteps {
			in.steps = append(in.steps, rate{now.n - last.n, now.took - last.took})
			last = now
		}
		return now.n >= all, nil
	})
}

// pace tells whether ingest kept its pace.
func (in *ingested) pace() string {
	var parts []string
	for _, s := range in.steps {
		parts = append(parts, thousands(int(s.perSecond())))
	}
	return "records a second in each fifth of the work: " + strings.Join(parts, ", ")
}

// expectIngestedRows wants n records and so many bytes of values in a table that
// an ingester filled, each once, and nothing left to do.
func (d *database) expectIngestedRows(ctx context.Context, n int, bytes int64) error {
	all := int64(n)
	return d.expect(ctx,
		expectation{"stored rows", countRows, all},
		expectation{"counters", countCounters, all},
		expectation{"different offsets", `SELECT count(*) FROM (
			SELECT DISTINCT dlq_incarnation_id, dlq_partition, dlq_offset FROM dlq.dlq_messages) d`, all},
		expectation{"positions", `SELECT sum(next_offset) FROM dlq.ingest_positions`, all},
		expectation{"bytes of values", `SELECT sum(octet_length(value)) FROM dlq.messages`, bytes},
		expectation{"rows that were not read whole", `SELECT count(*) FROM dlq.messages
			WHERE status <> 'PENDING' OR dialect IS DISTINCT FROM 'spring-dlt' OR group_id IS NULL
			   OR headers IS NULL OR key IS NULL OR original_offset IS NULL`, 0},
	)
}

// fillPayloads does what the API's processes would do beside the parts that come later.
func (p *ingestPart) fillPayloads(ctx context.Context) error {
	store, pool, err := p.live.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	filled := 0
	for found := true; found; {
		var n int
		if n, found, err = store.FillPayloads(ctx); err != nil {
			return err
		}
		filled += n
	}
	p.say("filled the payloads of %d", filled)
	return nil
}

func (p *ingestPart) expectIngested(ctx context.Context) error {
	if err := p.live.expectIngestedRows(ctx, p.opts.records, p.sent.bytes); err != nil {
		return err
	}
	return p.live.expect(ctx,
		expectation{"rows that neither have a payload nor wait for one", `SELECT count(*) FROM dlq.dlq_messages
			WHERE payload IS NULL AND payload_note IS DISTINCT FROM 'pending'`, 0},
		expectation{"rows of the topic to retry", `SELECT count(*) FROM dlq.dlq_messages
			WHERE original_topic = '` + originalTopic(names[0]) + `'`, int64(p.opts.retry)},
	)
}
