package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// The same work at sizes of the table that are far apart.
const (
	growthWork   = 20_000 // messages that are stored, claimed, and archived at every size
	growthPages  = 6000   // and single messages that are read
	growthRounds = 5      // in which each of them is done
	growthBatch  = 1000   // stored at once, and the most that is archived at once

	wantGrowthTimes = 1.5
)

var growthSizes = []int{100_000, 1_000_000, 5_000_000, 10_000_000}

// growthPart works at one size, fills the table to the next, and works again.
type growthPart struct {
	*bench
	sizes []grown
	fill  time.Duration // of all
	bytes int64         // of the table with all that belongs to it, in the end
}

// grown is how work went at one size.
type grown struct {
	rows                         int
	ingest, list, claim, archive rounds
}

// String says what one did of each kind in a second, and what that took PostgreSQL.
func (g grown) String() string {
	text := "with " + short(g.rows)
	for _, kind := range []struct {
		name string
		rounds
	}{{"ingest", g.ingest}, {"reads", g.list}, {"claims", g.claim}, {"archive", g.archive}} {
		text += fmt.Sprintf(", %s %s and %s each", kind.name, each(kind.median()), kind.server())
	}
	return text
}

// rounds are parts of the same work, one behind the other.
type rounds []work

// median is the rate of the round in the middle. What the machine had to do beside
// for a moment, or was not given, is in the slower ones.
func (r rounds) median() float64 {
	if len(r) == 0 {
		return 0
	}
	var rates []float64
	for _, w := range r {
		rates = append(rates, w.perSecond())
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

func (r rounds) total() (all work) {
	for _, w := range r {
		all = all.plus(w)
	}
	return all
}

func (p *growthPart) run(ctx context.Context) (err error) {
	d, err := p.database(ctx, "bench_growth")
	if err != nil {
		return err
	}
	defer func() { err = joinDrop(ctx, p.bench, d, err) }()
	if err := d.all(ctx, alone); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.all(context.WithoutCancel(ctx), attended)) }()
	store := postgres.New(sqlx.NewDb(d.DB, "postgres"))
	fill, err := p.newFiller(ctx, d, store)
	if err != nil {
		return err
	}
	defer fill.close()
	in, err := openFeed(ctx, store, "measured")
	if err != nil {
		return err
	}
	at := &growthWorker{database: d, store: store, in: in, fill: fill}
	at.n = max(p.opts.share(growthWork/growthRounds)/growthBatch*growthBatch, growthBatch)
	for _, size := range growthSizes {
		rows := max(p.opts.share(size), fill.rows+4*growthRounds*at.n)
		filled, err := timed(func() (int, error) { return rows, fill.to(ctx, rows, at.n) })
		if err != nil {
			return err
		}
		p.fill += filled.took
		p.say("%d messages after %s of filling, the last with %s", rows, p.fill.Round(time.Second), filled.cpu.spent())
		g, err := at.work(ctx, rows)
		if err != nil {
			return fmt.Errorf("at %d messages: %w", rows, err)
		}
		p.say("%s", g)
		p.sizes = append(p.sizes, g)
	}
	p.bytes, err = d.size(ctx)
	return err
}

// growthWorker does what is measured at every size, with the product's statements
// over one connection.
type growthWorker struct {
	*database
	store *postgres.Store
	in    *feed
	fill  *filler
	n     int              // messages of a round
	after repository.Place // where the last claim ended
	done  int              // sizes
}

func (w *growthWorker) work(ctx context.Context, rows int) (g grown, err error) {
	g.rows, w.after = rows, repository.Place{}
	for _, step := range []struct {
		out *rounds
		do  func(ctx context.Context, rows, round int) (work, error)
	}{{&g.list, w.list}, {&g.ingest, w.ingest}, {&g.claim, w.claim}, {&g.archive, w.archive}} {
		// Filling has ended with a vacuum. What a step leaves behind is the same little
		// at every size, and to vacuum ten million messages after each takes longer than
		// all steps.
		if _, err := w.ExecContext(ctx, "CHECKPOINT"); err != nil {
			return g, err
		}
		for round := range growthRounds {
			one, err := step.do(ctx, rows, round)
			if err != nil {
				return g, err
			}
			*step.out = append(*step.out, one)
		}
	}
	w.done++
	return g, w.expectDone(ctx)
}

// ingest stores as an ingester does. To make the messages is not counted.
func (w *growthWorker) ingest(ctx context.Context, _, _ int) (total work, err error) {
	for done := 0; done < w.n; done += growthBatch {
		batch := w.in.next(growthBatch)
		for i := range batch.Messages {
			batch.Messages[i].Group = readGroup(i % growthGroups)
		}
		one, err := timed(func() (int, error) {
			stored, err := w.store.Store(ctx, batch)
			if err == nil && len(stored.Ranges) != 1 {
				err = fmt.Errorf("the run is worthless: a batch was stored as %+v", stored)
			}
			return growthBatch, err
		})
		if err != nil {
			return total, err
		}
		total = total.plus(one)
	}
	return total, nil
}

// list reads by turns the first page of a topic, a page behind a place, and one
// message by its id. Topics, places and ids are drawn from all over the table for
// every request, so that they are found in a cache no more often than a table of
// that size allows.
func (w *growthWorker) list(ctx context.Context, rows, round int) (work, error) {
	random := rand.New(rand.NewPCG(uint64(rows), uint64(round)))
	asks := []func() error{
		func() error { return w.first(ctx, names[random.IntN(len(names))]) },
		func() error { return w.behind(ctx, rows/10+random.IntN(rows-rows/10)) },
		func() error { return w.one(ctx, w.fill.draw(random)) },
	}
	return timed(func() (int, error) {
		for n := range growthPages / growthRounds {
			if err := asks[n%len(asks)](); err != nil {
				return n, err
			}
		}
		return growthPages / growthRounds, nil
	})
}

func (w *growthWorker) first(ctx context.Context, name string) error {
	page, err := w.store.List(ctx, originalTopic(name), repository.Page{Number: 1, Size: listPage})
	if err == nil && len(page.Messages) != listPage {
		err = fmt.Errorf("the run is worthless: page 1 of %s has %d messages, want %d", name, len(page.Messages), listPage)
	}
	return err
}

// behind reads the page behind where message n stands.
func (w *growthWorker) behind(ctx context.Context, n int) error {
	page, err := w.store.Search(ctx, repository.SearchQuery{After: repository.Place{CreatedAt: w.fill.moment(n)}, Limit: listPage})
	if err == nil && len(page) != listPage {
		err = fmt.Errorf("the run is worthless: %d messages behind number %d, want %d", len(page), n, listPage)
	}
	return err
}

func (w *growthWorker) one(ctx context.Context, n int) error {
	_, err := w.store.Get(ctx, filledID(n), 1<<20)
	if err != nil {
		return fmt.Errorf("message number %d: %w", n, err)
	}
	return nil
}

// claim takes the oldest by cursor, claims them and ends them as acknowledged.
func (w *growthWorker) claim(ctx context.Context, _, _ int) (work, error) {
	var topics []string
	for _, name := range names {
		topics = append(topics, originalTopic(name))
	}
	return timed(func() (int, error) {
		done := 0
		for done < w.n {
			ids, next, err := w.store.Due(ctx, repository.DueQuery{Topics: topics, After: w.after, Limit: min(backlogBatch, w.n-done)})
			if err != nil {
				return done, err
			}
			if len(ids) > 0 {
				if _, err := attempt(ctx, w.store, ids); err != nil {
					return done, err
				}
			}
			done += len(ids)
			if w.after = next; next == (repository.Place{}) && done < w.n {
				return done, fmt.Errorf("the run is worthless: %d messages are due, want %d", done, w.n)
			}
		}
		return done, nil
	})
}

// archive moves what is older than what is left to the rounds to come.
func (w *growthWorker) archive(ctx context.Context, _, round int) (work, error) {
	return timed(func() (int, error) {
		n, err := w.store.ArchiveOld(ctx, archiveDays+growthOldDays*(growthRounds-1-round), growthBatch)
		if err == nil && n != int64(w.n) {
			err = fmt.Errorf("the run is worthless: %d messages were archived, want %d", n, w.n)
		}
		return int(n), err
	})
}

// expectDone wants all that was done so far to be there once. To count the rows of
// the live table at every size would take longer than the work.
func (w *growthWorker) expectDone(ctx context.Context) error {
	each := int64(growthRounds * w.n * w.done)
	return w.expect(ctx,
		expectation{"live messages by their counters", countCounters, int64(w.fill.rows)},
		expectation{"live messages by the counters of groups", `SELECT sum(messages) FROM dlq.group_counters`, int64(w.fill.rows)},
		expectation{"messages that were ingested", `SELECT count(*) FROM dlq.dlq_messages
			WHERE created_at > now() - interval '1 day'`, each},
		expectation{"positions", `SELECT sum(next_offset) FROM dlq.ingest_positions`, each},
		expectation{"attempts", countAttempts, each},
		expectation{"archived messages", `SELECT count(*) FROM dlq.dlq_messages_archive`, each},
	)
}

// apart is how many times as fast as the slowest the fastest is; 0 when one was
// not measured.
func apart(rates []float64) float64 {
	if len(rates) == 0 {
		return 0
	}
	return quotient(slices.Max(rates), slices.Min(rates))
}

// server is what one of them took PostgreSQL.
func (r rounds) server() string {
	all := r.total()
	return fmt.Sprintf("%.1f µs", float64(all.cpu.by["postgres"].Nanoseconds())/float64(1000*max(all.n, 1)))
}

func (p *growthPart) lines() []line {
	var lines []line
	for _, kind := range []struct {
		name string
		of   func(grown) rounds
	}{
		{"ingest, the statement that stores", func(g grown) rounds { return g.ingest }},
		{"reads: page 1 of a topic, a page anywhere, a message", func(g grown) rounds { return g.list }},
		{"claim and result", func(g grown) rounds { return g.claim }},
		{"archive", func(g grown) rounds { return g.archive }},
	} {
		lines = append(lines, p.growthLine(kind.name, kind.of))
	}
	return lines
}

func (p *growthPart) growthLine(name string, of func(grown) rounds) line {
	var rates []float64
	var smaller, costs []string
	spoiled := ""
	for _, g := range p.sizes {
		rate := of(g).median()
		rates, smaller = append(rates, rate), append(smaller, short(g.rows)+": "+each(rate))
		costs = append(costs, of(g).server())
		if of(g).total().cpu.foreign() >= disturbing {
			spoiled += fmt.Sprintf("; %s with %s", disturbed, short(g.rows))
		}
	}
	if len(p.sizes) == 0 {
		return line{work: name, wanted: "all sizes"}
	}
	last := p.sizes[len(p.sizes)-1]
	times, all := apart(rates), of(last).total()
	return line{
		work: fmt.Sprintf("%s, with %s messages", name, short(last.rows)), figure: each(of(last).median()),
		beside: "with " + strings.Join(smaller[:len(smaller)-1], ", "), ratio: fmt.Sprintf("%.2f", times),
		wanted:  fmt.Sprintf("within %.1f times of each other", wantGrowthTimes),
		reached: len(p.sizes) == len(growthSizes) && times > 0 && times <= wantGrowthTimes,
		limits:  all.cpu.limits(all.n, "record", 1) + "; PostgreSQL with each number: " + strings.Join(costs, ", ") + spoiled,
	}
}

// short writes 5000000 as 5M and 100000 as 100k.
func short(n int) string {
	switch {
	case n >= 1_000_000 && n%100_000 == 0:
		return fmt.Sprintf("%gM", float64(n)/1e6)
	case n >= 1000 && n%100 == 0:
		return fmt.Sprintf("%gk", float64(n)/1e3)
	}
	return thousands(n)
}

func (p *growthPart) method() string {
	var sizes []string
	for _, g := range p.sizes {
		sizes = append(sizes, short(g.rows))
	}
	return fmt.Sprintf("- **Growth.** A database of its own at %s live messages. Between the sizes it is filled by SQL in the order\n"+
		"  of times and ids, %d connections, with every index, without triggers (each statement writes the counters\n"+
		"  that they would), with `synchronous_commit` and `full_page_writes` off and few checkpoints, all of which is\n"+
		"  as before when something is measured: %s in all. Filled messages are narrow: a value of 18 bytes where dead\n"+
		"  letters have a thousand, %d topics, %d error groups, and %d days; half of them are PENDING. So this tells\n"+
		"  how the number of messages matters, not their bytes. At every size the same is done: %s reads are made, a\n"+
		"  third each of page 1 of a topic, of a page behind a place and of a message by its id, with topic, place and\n"+
		"  id drawn anew for each from all over the table; %s messages of 1 KB are stored, %s at a time, as ingesters\n"+
		"  do; the %s oldest PENDING ones are claimed and finished, %d at a time; and as many that are %d days old and\n"+
		"  older are archived. One connection, the product's statements, no Kafka and no HTTP. A checkpoint is made\n"+
		"  before each of the four. Autovacuum is off, since whether it comes into a step of a second is luck; instead\n"+
		"  all tables are vacuumed and analyzed once at every size, before the four. Each is done in %d rounds, one\n"+
		"  behind the other, and the round in the middle is the figure: for a moment after all that filling has\n"+
		"  written, a shared machine gives less. In the end the table takes %s with its indexes. The ratio is that of\n"+
		"  the fastest size to the slowest.\n",
		strings.Join(sizes, ", "), fillConnections, seconds(p.fill), len(names), growthGroups, growthDays,
		thousands(growthPages), thousands(growthWork), thousands(growthBatch), thousands(growthWork), backlogBatch,
		growthDays+growthOldDays, growthRounds, gigabytes(p.bytes))
}
