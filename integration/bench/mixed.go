package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Operators look while dead letters pour in.
const (
	mixedRows       = 100_000 // that are there before
	mixedCallers    = 200
	mixedClosed     = 5 * time.Second // each connection asks as soon as it has its answer
	mixedQuiet      = 12 * time.Second
	mixedLoaded     = 20 * time.Second
	mixedEach       = 1.0              // then each connection asks so many times a second
	mixedBearable   = 2_000            // records a second that are due first
	mixedRate       = 20_000           // and then
	mixedCatchUp    = 30 * time.Second // until all of the first are stored
	mixedTick       = 25 * time.Millisecond
	mixedRun        = 25 // records of a partition in a row
	mixedTopics     = 10
	mixedSeed       = 50              // records of each topic that are there before
	mixedWarm       = 3 * time.Second // of each state of the system, and not counted
	mixedGetIDs     = 5_000
	wantMixedTimes  = 3
	mixedPageSize   = 20
	mixedStartAfter = 30 * time.Second // the ingester has its partitions by then, or never
)

// mixedPart compares reads on a quiet system with the same while records come in.
type mixedPart struct {
	*bench
	rows     int
	closed   rate    // of all connections, each asking as soon as it can
	rate     float64 // at which is asked, a second
	quiet    load
	bearable flood
	flood    flood
	memory   int64 // peak of the API
	noted    []profile
}

// flood is how reads went while records came in.
type flood struct {
	due int // records a second
	load
	produced rate // that Kafka has acknowledged
	stored   rate
}

func (p *mixedPart) run(ctx context.Context) (err error) {
	p.rows = p.opts.share(mixedRows)
	d, err := p.database(ctx, "bench_mixed")
	if err != nil {
		return err
	}
	defer func() { err = joinDrop(ctx, p.bench, d, err) }()
	if err := p.prepare(ctx, d); err != nil {
		return err
	}
	prog := p.bench.program("ingester", d).
		with("DLQ_KAFKA_DLQ_TOPIC_PATTERN=mixed-*.dlq.v1", "DLQ_KAFKA_CONSUMER_GROUP=bench.mixed")
	noting, err := p.note(ctx, d, &prog)
	if err != nil {
		return err
	}
	ingester, err := prog.serve(ctx)
	if err != nil {
		return err
	}
	sent, err := p.seedAndRead(ctx, d, ingester)
	if err = errors.Join(err, ingester.stop()); err != nil {
		return err
	}
	if err := p.expectStored(ctx, d, sent); err != nil {
		return err
	}
	profile, err := noting.done(ctx)
	profile.statements = nil // they are shown with the API
	p.noted = append(p.noted, profile)
	return err
}

// seedAndRead gives the topics that will be written to their first messages, and
// reads. It returns how many records were produced in all.
func (p *mixedPart) seedAndRead(ctx context.Context, d *database, ingester *running) (int64, error) {
	letters := newLetters()
	if _, err := p.kafka.produce(ctx, mixedTopics*mixedSeed, func(n int) *kgo.Record {
		return letters.letter(mixedName(n%mixedTopics), n/mixedTopics)
	}); err != nil {
		return 0, err
	}
	opening, stop := context.WithTimeout(ctx, mixedStartAfter)
	defer stop()
	if err := ingester.awaitNumber(opening, d, countPositions, mixedTopics*partitions); err != nil {
		return 0, fmt.Errorf("open the positions: %w", err)
	}
	if err := ingester.awaitNumber(opening, d, countCounters, int64(p.rows+mixedTopics*mixedSeed)); err != nil {
		return 0, fmt.Errorf("store the first records: %w", err)
	}
	reads, err := d.mixedReads(ctx)
	if err != nil {
		return 0, err
	}
	sent, err := p.read(ctx, d, reads)
	return sent + mixedTopics*mixedSeed, err
}

// read asks one API in all states of the system, and looks at its memory.
func (p *mixedPart) read(ctx context.Context, d *database, reads []mixedRead) (sent int64, err error) {
	prog := p.bench.program("api", d).with("DLQ_REDRIVE_WORKERS=0")
	noting, err := p.note(ctx, d, &prog)
	if err != nil {
		return 0, err
	}
	api, err := prog.serve(ctx)
	if err != nil {
		return 0, err
	}
	sent, err = p.ask(ctx, d, api, reads)
	if err == nil {
		p.memory, err = peakMemory(api.Pid())
	}
	if err = errors.Join(err, api.stop()); err != nil {
		return sent, err
	}
	profile, err := noting.done(ctx)
	p.noted = append(p.noted, profile)
	return sent, err
}

// ask reads on the quiet system, and under two floods.
func (p *mixedPart) ask(ctx context.Context, d *database, api *running, reads []mixedRead) (sent int64, err error) {
	callers, err := dialAll(ctx, api.url, mixedCallers)
	defer closeAll(callers)
	if err != nil {
		return 0, err
	}
	ask := mixedAsk(callers, reads)
	if err := p.whileQuiet(ctx, d, ask); err != nil {
		return 0, fmt.Errorf("quiet: %w", err)
	}
	p.bearable.due, p.flood.due = mixedBearable, mixedRate
	for _, f := range []*flood{&p.bearable, &p.flood} {
		more, err := p.underLoad(ctx, d, f, ask)
		if sent += more; err != nil {
			return sent, fmt.Errorf("while %d records a second are due: %w", f.due, err)
		}
		if f == &p.bearable {
			if err := p.caughtUp(ctx, d, sent); err != nil {
				return sent, err
			}
		}
	}
	return sent, nil
}

// caughtUp waits until all that was sent is stored.
func (p *mixedPart) caughtUp(ctx context.Context, d *database, sent int64) error {
	ctx, cancel := context.WithTimeout(ctx, mixedCatchUp)
	defer cancel()
	want := int64(p.rows+mixedTopics*mixedSeed) + sent
	err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
		n, err := d.number(ctx, countCounters)
		return n >= want, err
	})
	if err != nil {
		return fmt.Errorf("store what came first: %w", err)
	}
	return nil
}

// whileQuiet finds out how much the system can answer, and then how fast it
// answers what is asked.
func (p *mixedPart) whileQuiet(ctx context.Context, d *database, ask func(worker, n int) error) (err error) {
	if _, _, err := hammer(ctx, mixedCallers, mixedWarm, ask); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := d.vacuumAll(ctx); err != nil {
		return err
	}
	p.say("%d connections read as fast as they can", mixedCallers)
	if p.closed, _, err = hammer(ctx, mixedCallers, mixedClosed, ask); err != nil {
		return err
	}
	p.rate = mixedEach * mixedCallers
	p.say("%.0f reads a second, nothing comes in", p.rate)
	p.quiet, err = steadily(ctx, mixedCallers, p.rate, mixedQuiet, ask)
	return err
}

// prepare fills the table and the catalogue, and makes the topics.
func (p *mixedPart) prepare(ctx context.Context, d *database) error {
	p.say("writing %d messages with their documents", p.rows)
	if err := p.openCatalogue(ctx, d); err != nil {
		return err
	}
	if err := d.fillReads(ctx, p.rows); err != nil {
		return err
	}
	if err := d.catalogue(ctx, p.rows); err != nil {
		return err
	}
	var topics []string
	for n := range mixedTopics {
		topics = append(topics, deadLetterTopic(mixedName(n)))
	}
	return p.kafka.create(ctx, topics...)
}

func mixedName(n int) string { return fmt.Sprintf("mixed-%d", n) }

// underLoad reads while one ingester takes in what is produced. It returns how
// many records that were.
func (p *mixedPart) underLoad(ctx context.Context, d *database, f *flood, ask func(worker, n int) error) (int64, error) {
	p.say("the same while %d records a second are due", f.due)
	flow := startFlow(ctx, p.kafka, f.due)
	defer func() { _, _ = flow.stop() }()
	if _, err := steadily(ctx, mixedCallers, p.rate, mixedWarm, ask); err != nil {
		return 0, err
	}
	sent := flow.sent()
	before, err := d.number(ctx, countCounters)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if f.load, err = steadily(ctx, mixedCallers, p.rate, mixedLoaded, ask); err != nil {
		return 0, err
	}
	after, err := d.number(ctx, countCounters)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	f.produced, f.stored = rate{int(flow.sent() - sent), took}, rate{int(after - before), took}
	if f.stored.n == 0 {
		return 0, errors.New("the run is worthless: nothing was ingested")
	}
	return flow.stop()
}

// expectStored wants every record in front of the positions once, and none beside
// them. The ingester has ended; what it had not come to stays in Kafka.
func (p *mixedPart) expectStored(ctx context.Context, d *database, sent int64) error {
	stored, err := d.number(ctx, `SELECT sum(next_offset) FROM dlq.ingest_positions`)
	if err != nil {
		return err
	}
	if stored < int64(p.bearable.stored.n+p.flood.stored.n) || stored > sent {
		return fmt.Errorf("the run is worthless: %d records were taken in of %d that were produced", stored, sent)
	}
	return d.expect(ctx,
		expectation{"rows", countRows, int64(p.rows) + stored},
		expectation{"counters", countCounters, int64(p.rows) + stored},
		expectation{"different offsets before the positions", `SELECT count(DISTINCT (m.dlq_incarnation_id, m.dlq_partition, m.dlq_offset))
			FROM dlq.dlq_messages m JOIN dlq.ingest_positions p ON p.incarnation_id = m.dlq_incarnation_id
				AND p.partition = m.dlq_partition AND m.dlq_offset < p.next_offset`, stored},
	)
}

func (p *mixedPart) lines() []line {
	return append(append(p.flooded(p.bearable), p.flooded(p.flood)...),
		memoryLine(fmt.Sprintf("memory of the API, %d connections", mixedCallers), p.memory))
}

// flooded are the lines of one flood.
func (p *mixedPart) flooded(f flood) []line {
	quiet, loaded := percentile(p.quiet.times, 99), percentile(f.times, 99)
	times := quotient(loaded.Seconds(), quiet.Seconds())
	return []line{
		{
			work: fmt.Sprintf("mixed reads, %s over %d connections, while %s records/s are produced and %s stored", each(p.rate),
				mixedCallers, thousands(int(f.produced.perSecond())), thousands(int(f.stored.perSecond()))),
			figure: "p99 " + fine(loaded),
			beside: fmt.Sprintf("p50 %s; quiet: p99 %s, p50 %s; %s; quiet %s", fine(percentile(f.times, 50)), fine(quiet),
				fine(percentile(p.quiet.times, 50)), f.answers(), p.quiet.answers()),
			ratio: fmt.Sprintf("%.1f", times), wanted: fmt.Sprintf("ratio ≤ %d, no errors", wantMixedTimes),
			reached: times > 0 && times <= wantMixedTimes && p.quiet.good() && f.good(),
			limits:  f.cpu.limits(f.n, "request", mixedCallers) + "; " + p.together(),
		},
		{
			work: fmt.Sprintf("stored meanwhile, of %s records/s that are due", thousands(f.due)), figure: each(f.stored.perSecond()),
			beside: "produced: " + each(f.produced.perSecond()),
			ratio:  fmt.Sprintf("%.2f", quotient(f.stored.perSecond(), float64(f.due))),
			wanted: "≥ " + each(float64(f.due)), reached: f.stored.n > 0 && f.stored.perSecond() >= float64(f.due)*0.99,
			limits: f.cpu.limits(f.stored.n, "record", ingestWriters),
		},
	}
}

// together says what is left for records: the same reads keep the quiet system busy
// for a part of its time.
func (p *mixedPart) together() string {
	return fmt.Sprintf("quiet, the reads alone keep the machine %.0f %% busy", 100*p.quiet.cpu.share())
}

func (p *mixedPart) profiles() []profile { return p.noted }

// answers says how many requests were answered, and what became of the others.
func (l load) answers() string {
	text := thousands(len(l.times)) + " answers"
	if l.failed > 0 {
		text += fmt.Sprintf(", %s errors (%.120q)", thousands(l.failed), l.first)
	}
	if l.late > 0 {
		text += fmt.Sprintf(", %s not asked in time", thousands(l.late))
	}
	return text
}

func (p *mixedPart) method() string {
	return fmt.Sprintf("- **Mixed reads.** A database of its own with %s messages of %d topics and %s error groups, catalogued for\n"+
		"  search; one API (`DLQ_REDRIVE_WORKERS=0`: nothing is retried, so it leaves redrives alone) and one ingester.\n"+
		"  20 %% of the requests are for page 1 of a topic in which nothing happens, 20 %% for page 1 of one of the %d\n"+
		"  topics that are written to, 30 %% for a message, 20 %% are searches (by status and topic, or for words),\n"+
		"  5 %% the topics, 5 %% the error groups. First all %d connections ask as soon as they have their answer, for %s:\n"+
		"  %s. Then each asks %g times a second: requests are due at that rate, however long answers take, on the quiet system for\n"+
		"  %s and while records come in, %s each time, after %s that do not count. The time of a\n"+
		"  request begins when it is due: waiting for a free connection is in it. A request that fails counts as one\n"+
		"  that failed and ends nothing; one in %d lists is counted, and all have the least length of what they should\n"+
		"  hold. A producer has dead letters of 1 KB to send, %d of a partition in a row, as of a consumer that fails at what it read,\n"+
		"  %s each second, and when those are stored %s: more than is left of two cores that read. It leaves out those for which it has no room. In the end every record in front of the positions must be there once.\n"+
		"  One question of the mix is for words that all old messages have and those of the flood lack: it has to get past the flood.\n"+
		"  Slow answers come in bursts of up to a second, in which PostgreSQL takes all that is left of the processors: mostly the\n"+
		"  catalogue's worker stores and merges some hundred documents of random text then, a quarter of the time while records flood in.\n",
		thousands(p.rows), readTopics, thousands(readGroups), mixedTopics, mixedCallers, seconds(mixedClosed),
		each(p.closed.perSecond()), mixedEach, seconds(mixedQuiet), seconds(mixedLoaded), seconds(mixedWarm), checkEach,
		mixedRun, thousands(mixedBearable), thousands(mixedRate))
}
