package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// An ingester with very many partitions in which nothing happens.
const (
	idleTopics     = 1000
	idlePartitions = 5 // of each
	idleFor        = 30 * time.Second
	idleRest       = 3 * time.Second // between the last position and the look at the processor
	idleWoken      = 12              // partitions that get a record after that, at most

	// createBatch is how many topics one request makes: a controller refuses more than
	// it can note at once.
	createBatch = 100

	wantIdle  = 0.01 // of one core, less than
	wantFirst = time.Second
	wantWoken = time.Second // from the record's acknowledgement, less than
)

// idlePart lets an ingester wait, and then start with a record everywhere.
type idlePart struct {
	*bench
	topics                     int
	created, opened            time.Duration // the topics by Kafka; the positions by the ingester
	waited                     time.Duration
	ingester, postgres, broker time.Duration // processor time of the wait
	woken                      int           // partitions that got a record while the ingester waited
	storedIn                   time.Duration // those, after the last was acknowledged
	first                      firstRecords
}

// firstRecords is how fast an ingester begins.
type firstRecords struct {
	cpu              usage
	ready, fromReady time.Duration // from the start of the process, and from there to the last first record
}

func (f firstRecords) fromStart() time.Duration { return f.ready + f.fromReady }

func (p *idlePart) run(ctx context.Context) (err error) {
	p.topics = max(p.opts.share(idleTopics), 1)
	d, err := p.database(ctx, "bench_idle")
	if err != nil {
		return err
	}
	defer func() { err = joinDrop(ctx, p.bench, d, err) }()
	if err := p.createTopics(ctx); err != nil {
		return err
	}
	if err := p.wait(ctx, d); err != nil {
		return err
	}
	return p.startWithRecords(ctx, d)
}

func (p *idlePart) partitions() int { return p.topics * idlePartitions }

func idleTopic(n int) string { return fmt.Sprintf("idle-%04d.dlq.v1", n) }

// program is an ingester for these topics alone.
func (p *idlePart) program(d *database) program {
	return p.bench.program("ingester", d).with("DLQ_KAFKA_DLQ_TOPIC_PATTERN=idle-*.dlq.v1", "DLQ_KAFKA_CONSUMER_GROUP=bench.idle")
}

func (p *idlePart) createTopics(ctx context.Context) error {
	p.say("creating %d topics with %d partitions", p.topics, idlePartitions)
	start := time.Now()
	for from := 0; from < p.topics; from += createBatch {
		request := &kafka.CreateTopicsRequest{}
		for n := from; n < min(from+createBatch, p.topics); n++ {
			request.Topics = append(request.Topics, kafka.TopicConfig{
				Topic: idleTopic(n), NumPartitions: idlePartitions, ReplicationFactor: 1,
			})
		}
		answer, err := p.kafka.admin.CreateTopics(ctx, request)
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		for topic, err := range answer.Errors {
			if err != nil {
				return fmt.Errorf("create topic %s: %w", topic, err)
			}
		}
	}
	p.created = time.Since(start)
	return nil
}

const countPositions = `SELECT count(*) FROM dlq.ingest_positions`

// wait looks at the processor while the ingester has every partition and none has
// anything.
func (p *idlePart) wait(ctx context.Context, d *database) (err error) {
	p.say("an ingester with %d empty partitions", p.partitions())
	start := time.Now()
	ingester, err := p.program(d).serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.stop()) }()
	if err := ingester.awaitNumber(ctx, d, countPositions, int64(p.partitions())); err != nil {
		return fmt.Errorf("open the positions: %w", err)
	}
	p.opened = time.Since(start)
	if err := ingester.rest(ctx, idleRest); err != nil {
		return err
	}
	w, err := timed(func() (int, error) { return 1, ingester.rest(ctx, idleFor) })
	if err != nil {
		return err
	}
	p.waited, p.ingester, p.postgres, p.broker = w.took, w.cpu.by["ingester"], w.cpu.by["postgres"], w.cpu.by["java"]
	if err := d.expect(ctx, expectation{"rows of empty topics", countRows, 0}); err != nil {
		return err
	}
	return p.wake(ctx, d, ingester)
}

// wake shows that the ingester that used so little still reads: partitions all
// over its topics get a record.
func (p *idlePart) wake(ctx context.Context, d *database, ingester *running) error {
	p.woken = min(idleWoken, p.partitions())
	letters := newLetters()
	if _, err := p.kafka.produce(ctx, p.woken, func(n int) *kgo.Record {
		return idleLetter(letters, n*(p.partitions()/p.woken))
	}); err != nil {
		return err
	}
	start := time.Now()
	if err := ingester.awaitNumber(ctx, d, countCounters, int64(p.woken)); err != nil {
		return fmt.Errorf("records after the wait: %w", err)
	}
	p.storedIn = time.Since(start)
	return d.expect(ctx, expectation{"rows after the wait", countRows, int64(p.woken)})
}

// idleLetter is a record for the n-th of all partitions.
func idleLetter(letters *letters, n int) *kgo.Record {
	r := letters.letter(names[0], n)
	r.Topic, r.Partition = idleTopic(n/idlePartitions), int32(n%idlePartitions)
	return r
}

// rest waits, and fails when the program ends meanwhile.
func (r *running) rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.alive()
	case <-r.Done():
		return r.alive()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitNumber waits until a query has such a number as its answer.
func (r *running) awaitNumber(ctx context.Context, d *database, query string, want int64) error {
	return poll(ctx, 20*time.Millisecond, func() (bool, error) {
		if err := r.alive(); err != nil {
			return false, err
		}
		n, err := d.number(ctx, query)
		return n >= want, err
	})
}

// startWithRecords times an ingester that finds a record in every partition.
func (p *idlePart) startWithRecords(ctx context.Context, d *database) (err error) {
	n := p.partitions()
	p.say("starting it anew with a record in each")
	letters := newLetters()
	if _, err := p.kafka.produce(ctx, n, func(n int) *kgo.Record {
		return idleLetter(letters, n)
	}); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	before, err := cpuNow()
	if err != nil {
		return err
	}
	start := time.Now()
	ingester, err := p.program(d).serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.stop()) }()
	p.first.ready = time.Since(start)
	if err := ingester.awaitNumber(ctx, d, countCounters, int64(n+p.woken)); err != nil {
		return fmt.Errorf("the first records: %w", err)
	}
	p.first.fromReady = time.Since(start) - p.first.ready
	after, err := cpuNow()
	if err != nil {
		return err
	}
	p.first.cpu = after.since(before)
	return d.expect(ctx,
		expectation{"first records", countRows, int64(n + p.woken)},
		expectation{"partitions with one", `SELECT count(DISTINCT (dlq_incarnation_id, dlq_partition)) FROM dlq.dlq_messages`, int64(n)},
		expectation{"positions behind one", `SELECT count(*) FROM dlq.ingest_positions WHERE next_offset >= 1`, int64(n)},
		expectation{"all positions", `SELECT sum(next_offset) FROM dlq.ingest_positions`, int64(n + p.woken)},
	)
}

// share is how much of one core the ingester used while it waited.
func (p *idlePart) share() float64 { return quotient(p.ingester.Seconds(), p.waited.Seconds()) }

func (p *idlePart) lines() []line {
	title := fmt.Sprintf("ingester with %s topics × %d partitions, ", thousands(p.topics), idlePartitions)
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.1f %%", 100*quotient(d.Seconds(), p.waited.Seconds()))
	}
	return []line{
		{
			work: title + "idle", figure: fmt.Sprintf("%.2f %% of a core", 100*p.share()),
			beside: fmt.Sprintf("Kafka meanwhile %s, PostgreSQL %s", percent(p.broker), percent(p.postgres)), ratio: noDemand,
			wanted: fmt.Sprintf("< %.0f %%", 100*wantIdle), reached: p.waited > 0 && p.share() < wantIdle, limits: noDemand,
		},
		{
			work: title + "then a record in " + thousands(p.woken), figure: "stored in " + seconds(p.storedIn),
			beside: "the same process, after the wait", ratio: noDemand, wanted: "< " + seconds(wantWoken),
			reached: p.woken > 0 && p.storedIn > 0 && p.storedIn < wantWoken, limits: noDemand,
		},
		{
			work: title + "first record of each stored", figure: seconds(p.first.fromStart()) + " after its start",
			beside: fmt.Sprintf("%s after it was ready", seconds(p.first.fromReady)), ratio: noDemand,
			wanted: "< " + seconds(wantFirst), reached: p.first.fromReady > 0 && p.first.fromStart() < wantFirst,
			limits: p.first.cpu.limits(p.partitions(), "record", ingestWriters),
		},
	}
}

func (p *idlePart) method() string {
	return fmt.Sprintf("- **Idle.** %s topics with %d partitions each, which Kafka made in %s, hold nothing. An ingester has a\n"+
		"  position for each of them %s after its start, and rests for %s; of the next %s the system's clock says\n"+
		"  how much processor time it used. That it was not asleep for good: then %d partitions get a record, and\n"+
		"  the same process stores them in %s after the last acknowledgement.\n"+
		"- **First records.** The ingester is stopped, every one of the %s partitions gets another record of 1 KB, and\n"+
		"  another ingester is started. The time is from the start of its process until the last record is\n"+
		"  counted; it was ready after %s. The broker does not hold a new group back for others that may join\n"+
		"  (`group.initial.rebalance.delay.ms=0`; with Kafka's default it is three seconds).\n",
		thousands(p.topics), idlePartitions, seconds(p.created), seconds(p.opened), seconds(idleRest), seconds(idleFor), p.woken, seconds(p.storedIn),
		thousands(p.partitions()), seconds(p.first.ready))
}
