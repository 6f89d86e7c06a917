package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Operators look while dead letters pour in.
const (
	mixedRows       = 200_000 // that are there before
	mixedCallers    = 200
	mixedQuiet      = 15 * time.Second
	mixedLoaded     = 20 * time.Second
	mixedRate       = 20_000 // records a second that are produced
	mixedTick       = 25 * time.Millisecond
	mixedTopics     = 10
	mixedWarm       = 3 * time.Second // under load, and not counted
	mixedGetIDs     = 5_000
	wantMixedTimes  = 3
	mixedPageSize   = 20
	mixedStartAfter = 30 * time.Second // the ingester has its partitions by then, or never
)

// mixedPart compares reads on a quiet system with the same while records come in.
type mixedPart struct {
	*bench
	rows          int
	quiet, loaded load
	produced      rate // that Kafka has acknowledged
	stored        rate
}

// load is how reads did.
type load struct {
	work
	times []time.Duration // ascending
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
	reads, err := d.mixedReads(ctx)
	if err != nil {
		return err
	}
	api, err := p.bench.program("api", d).with("DLQ_REDRIVE_WORKERS=0").serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	callers, err := dialAll(ctx, api.url, mixedCallers)
	defer closeAll(callers)
	if err != nil {
		return err
	}
	ask := mixedAsk(callers, reads)
	if _, _, err := hammer(ctx, mixedCallers, mixedWarm, ask); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := d.vacuumAll(ctx); err != nil {
		return err
	}
	p.say("%d connections read, nothing comes in", mixedCallers)
	if p.quiet, err = readLoad(ctx, mixedQuiet, ask); err != nil {
		return fmt.Errorf("quiet: %w", err)
	}
	return p.underLoad(ctx, d, ask)
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

func readLoad(ctx context.Context, d time.Duration, ask func(worker, n int) error) (l load, err error) {
	l.work, err = timed(func() (int, error) {
		done, times, err := hammer(ctx, mixedCallers, d, ask)
		l.times = times
		return done.n, err
	})
	slices.Sort(l.times)
	return l, err
}

// underLoad reads while one ingester takes in what is produced.
func (p *mixedPart) underLoad(ctx context.Context, d *database, ask func(worker, n int) error) error {
	ingester, err := p.bench.program("ingester", d).
		with("DLQ_KAFKA_DLQ_TOPIC_PATTERN=mixed-*.dlq.v1", "DLQ_KAFKA_CONSUMER_GROUP=bench.mixed").serve(ctx)
	if err != nil {
		return err
	}
	sent, err := p.readAndIngest(ctx, d, ingester, ask)
	if err = errors.Join(err, ingester.stop()); err != nil {
		return fmt.Errorf("under load: %w", err)
	}
	return p.expectStored(ctx, d, sent)
}

// readAndIngest returns how many records were produced.
func (p *mixedPart) readAndIngest(ctx context.Context, d *database, ingester *running, ask func(worker, n int) error) (int64, error) {
	opening, stop := context.WithTimeout(ctx, mixedStartAfter)
	defer stop()
	if err := ingester.awaitNumber(opening, d, countPositions, mixedTopics*partitions); err != nil {
		return 0, fmt.Errorf("open the positions: %w", err)
	}
	p.say("the same while %d records a second are produced", mixedRate)
	flow := startFlow(ctx, p.kafka, mixedRate)
	defer func() { _, _ = flow.stop() }()
	if _, _, err := hammer(ctx, mixedCallers, mixedWarm, ask); err != nil {
		return 0, err
	}
	sent := flow.sent()
	before, err := d.number(ctx, countCounters)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if p.loaded, err = readLoad(ctx, mixedLoaded, ask); err != nil {
		return 0, err
	}
	after, err := d.number(ctx, countCounters)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	p.produced, p.stored = rate{int(flow.sent() - sent), took}, rate{int(after - before), took}
	if p.stored.n == 0 {
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
	if stored < int64(p.stored.n) || stored > sent {
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

// flow is records that are produced at a steady rate.
type flow struct {
	cancel context.CancelFunc
	over   chan struct{}
	acked  atomic.Int64
	err    error // after over
}

// startFlow produces in small batches, as many a second as it is told whatever
// becomes of them, until it is stopped.
func startFlow(ctx context.Context, to *cluster, perSecond int) *flow {
	ctx, cancel := context.WithCancel(ctx)
	f := &flow{cancel: cancel, over: make(chan struct{})}
	letters, pool := newLetters(), make([]*kgo.Record, 2000)
	for n := range pool {
		pool[n] = letters.letter(mixedName(n%mixedTopics), n)
	}
	go func() {
		defer close(f.over)
		f.err = f.produce(ctx, to, pool, perSecond)
	}()
	return f
}

func (f *flow) produce(ctx context.Context, to *cluster, pool []*kgo.Record, perSecond int) error {
	var failed atomic.Pointer[error]
	ticker := time.NewTicker(mixedTick)
	defer ticker.Stop()
	start, made := time.Now(), 0
	for failed.Load() == nil {
		for due := dueBy(time.Since(start), perSecond); made < due && ctx.Err() == nil; made++ {
			r := *pool[made%len(pool)]
			r.Partition = int32(made / mixedTopics % partitions)
			to.client.Produce(context.WithoutCancel(ctx), &r, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
					return
				}
				f.acked.Add(1)
			})
		}
		select {
		case <-ctx.Done():
			return errors.Join(to.client.Flush(context.WithoutCancel(ctx)), cause(failed.Load()))
		case <-ticker.C:
		}
	}
	return cause(failed.Load())
}

// dueBy is how many records of a steady rate are due after some time.
func dueBy(after time.Duration, perSecond int) int { return int(after.Seconds() * float64(perSecond)) }

func cause(err *error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("produce: %w", *err)
}

// sent is how many records Kafka has acknowledged.
func (f *flow) sent() int64 { return f.acked.Load() }

// stop ends the flow and waits for the last acknowledgement. It may be called
// again.
func (f *flow) stop() (int64, error) {
	f.cancel()
	<-f.over
	return f.sent(), f.err
}

// mixedRead is one of the questions of the mix.
type mixedRead struct {
	name  string
	of    int    // so many of a hundred
	list  string // what is counted in the answer; empty: the id is looked for
	least int
	paths []string // by turns
}

// mixedReads is what operators and their tools ask, all of it answered from the
// table that is written to.
func (d *database) mixedReads(ctx context.Context) ([]mixedRead, error) {
	ids, err := d.someIDs(ctx, mixedGetIDs)
	if err != nil {
		return nil, err
	}
	return mix(messagePaths(ids)), nil
}

// mix is what is asked how often, single messages by these paths.
func mix(messages []string) []mixedRead {
	var topics, searches []string
	for n := range readTopics {
		topics = append(topics, fmt.Sprintf("/api/v1/dlq/%s?page_size=%d", readTopic(n), mixedPageSize))
		searches = append(searches,
			fmt.Sprintf("/api/v1/messages?limit=%d&status=PENDING&topic=%s", mixedPageSize, readTopic(n)),
			fmt.Sprintf("/api/v1/messages?limit=%d&q=%s", mixedPageSize, url.QueryEscape("order charged")))
	}
	return []mixedRead{
		{name: "list page", of: 40, list: "messages", least: mixedPageSize, paths: topics},
		{name: "search page", of: 20, list: "messages", least: 1, paths: searches},
		{name: "message", of: 30, paths: messages},
		{name: "topics", of: 5, list: "topics", least: readTopics, paths: []string{"/api/v1/topics"}},
		{name: "error groups", of: 5, list: "groups", least: mixedPageSize, paths: []string{fmt.Sprintf("/api/v1/groups?limit=%d", mixedPageSize)}},
	}
}

func messagePaths(ids []uuid.UUID) (paths []string) {
	for _, id := range ids {
		paths = append(paths, "/api/v1/dlq/messages/"+id.String())
	}
	return paths
}

// drawn is the question of a number below 100.
func drawn(reads []mixedRead, of int) mixedRead {
	for _, r := range reads {
		if of -= r.of; of < 0 {
			return r
		}
	}
	return reads[len(reads)-1]
}

// mixedAsk lets every connection ask a sequence of its own.
func mixedAsk(callers []*caller, reads []mixedRead) func(worker, n int) error {
	random := make([]*rand.Rand, len(callers))
	for w := range random {
		random[w] = rand.New(rand.NewPCG(uint64(w), 5))
	}
	return func(worker, n int) error {
		r := drawn(reads, random[worker].IntN(100))
		path := r.paths[random[worker].IntN(len(r.paths))]
		body, err := callers[worker].get(path)
		if err != nil {
			return err
		}
		if r.list == "" {
			if id := path[strings.LastIndexByte(path, '/')+1:]; !strings.Contains(string(body), id) {
				return fmt.Errorf("the run is worthless: no message %s in %.100s", id, body)
			}
			return nil
		}
		return checkList(n, body, r.list, r.least)
	}
}

func (p *mixedPart) lines() []line {
	quiet, loaded := percentile(p.quiet.times, 99), percentile(p.loaded.times, 99)
	times := quotient(loaded.Seconds(), quiet.Seconds())
	return []line{
		{
			work:   fmt.Sprintf("mixed reads, %d connections, while %s records/s arrive", mixedCallers, thousands(mixedRate)),
			figure: "p99 " + fine(loaded),
			beside: fmt.Sprintf("quiet: p99 %s; answers %s, quiet %s", fine(quiet), each(p.loaded.perSecond()), each(p.quiet.perSecond())),
			ratio:  fmt.Sprintf("%.1f", times), wanted: fmt.Sprintf("ratio ≤ %d, no errors", wantMixedTimes),
			reached: times > 0 && times <= wantMixedTimes, limits: p.loaded.cpu.limits(p.loaded.n + p.stored.n),
		},
		{
			work: "ingested meanwhile", figure: each(p.stored.perSecond()), beside: "produced: " + each(p.produced.perSecond()),
			ratio:  fmt.Sprintf("%.2f", quotient(p.stored.perSecond(), p.produced.perSecond())),
			wanted: "≥ " + each(mixedRate), reached: p.stored.perSecond() >= mixedRate*0.99, limits: "as above",
		},
	}
}

func (p *mixedPart) method() string {
	return fmt.Sprintf("- **Mixed reads.** A database of its own with %s messages of %d topics and %s error groups, catalogued for\n"+
		"  search. %d connections ask one API, each as soon as it has its answer: 40 %% page 1 of a topic, 30 %% a\n"+
		"  message, 20 %% a search (by status and topic, or for words), 5 %% the topics, 5 %% the error groups. First for\n"+
		"  %s on the quiet system, then for %s while a producer sends 1 KB dead letters at a fixed rate and one\n"+
		"  ingester takes them in; the first %s of that do not count. Any answer that is not a good one ends the run,\n"+
		"  and in the end every record in front of the positions must be there once. *Arrive* is what is produced; what\n"+
		"  is stored in the same seconds stands in the next row.\n",
		thousands(p.rows), readTopics, thousands(readGroups), mixedCallers, seconds(mixedQuiet), seconds(mixedLoaded), seconds(mixedWarm))
}
