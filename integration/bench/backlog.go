package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

const (
	backlogWorkers = 4
	backlogBatch   = 500

	// fillConnections write the backlog in steps, so that none takes long.
	fillConnections = 2
	fillStep        = 20_000
)

// backlog is how a table of nothing but waiting messages is worked off.
type backlog struct {
	work
	claims, looks []time.Duration // each statement's, ascending
	before, after int64           // bytes of the table, with all that belongs to it
	profile       profile         // of the statements alone; the workers are the bench's
}

// backlogPart is the part of a run that works such a table off.
type backlogPart struct {
	*bench
	backlog
}

// growth is how many times as large the table is in the end.
func (b backlog) growth() float64 { return quotient(float64(b.after), float64(b.before)) }

// percentile of sorted times: the least of them that so many of a hundred do not
// exceed; 0 of none.
func percentile(sorted []time.Duration, of float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	at := int(float64(len(sorted))*of/100+0.999999) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// fillBacklog writes messages $1 to $2 in the order of their ids and times.
// Nothing is compressed, so it does not matter that the values repeat themselves.
const fillBacklog = `
	INSERT INTO dlq.dlq_messages (id, original_topic, error_message, created_at, updated_at,
		key, value, headers, payload, origin_confidence, dialect, consumer_group)
	SELECT ('018f' || lpad(to_hex(n), 8, '0') || '70008000' || substr(md5(n::text), 1, 12))::uuid,
		$4::text, $5::text, moment, moment,
		convert_to('key-' || n, 'UTF8'), convert_to(text, 'UTF8'), '\x00', text::jsonb, 'header', 'spring-dlt', 'bench'
	FROM (
		SELECT n, $3::timestamptz + n * interval '1 millisecond' AS moment,
			format('{"id": %s, "note": "%s"}', n, repeat(md5(n::text), 31)) AS text
		FROM generate_series($1::int, $2::int) AS n OFFSET 0
	) made`

// run claims every message by cursor and finishes it, with the product's
// statements and without Kafka.
func (p *backlogPart) run(ctx context.Context) (err error) {
	p.say("working off %d messages", p.opts.backlog)
	d, err := p.database(ctx, "bench_backlog")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.drop(ctx, d)) }()
	if err := d.fill(ctx, p.opts.backlog); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	out := &p.backlog
	if out.before, err = d.size(ctx); err != nil {
		return err
	}
	store, pool, err := d.store(asItIs)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	if _, err := d.ExecContext(ctx, trackStatements); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	pass := &cursorPass{store: store}
	if out.work, err = timed(func() (int, error) { return pass.run(ctx) }); err != nil {
		return err
	}
	if out.after, err = d.size(ctx); err != nil {
		return err
	}
	if out.profile.statements, err = d.statements(ctx); err != nil {
		return err
	}
	out.claims, out.looks = slices.Sorted(slices.Values(pass.claims)), slices.Sorted(slices.Values(pass.looks))
	n := int64(p.opts.backlog)
	return d.expect(ctx,
		expectation{"resolved by cursor", `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED'`, n},
		expectation{"counters of them", `SELECT sum(messages) FROM dlq.message_counters WHERE status = 'RESOLVED'`, n},
		expectation{"attempts on them", countAttempts, n},
		expectation{"lines of the audit trail", `SELECT count(*) FROM dlq.audit`, n},
	)
}

func (d *database) fill(ctx context.Context, rows int) error {
	begin := time.Now().Add(-time.Duration(rows) * time.Millisecond).UTC()
	var steps []int
	for from := 1; from <= rows; from += fillStep {
		steps = append(steps, from)
	}
	err := inBatches(fillConnections, 1, steps, func(from []int) error {
		_, err := d.ExecContext(ctx, fillBacklog, from[0], min(from[0]+fillStep-1, rows), begin,
			originalTopic(names[from[0]/fillStep%len(names)]), errorMessage)
		return err
	})
	if err != nil {
		return fmt.Errorf("fill the backlog: %w", err)
	}
	return d.expectRows(ctx, int64(rows))
}

// size is what the table takes on disk with what is out of line and its indexes.
func (d *database) size(ctx context.Context) (int64, error) {
	return d.number(ctx, `SELECT pg_total_relation_size('dlq.dlq_messages')`)
}

// cursorPass is workers that go through the backlog together. They share one
// cursor, as those of automatic retry do.
type cursorPass struct {
	store *postgres.Store

	mu            sync.Mutex // guards what follows
	cursor        repository.Place
	over          bool
	claims, looks []time.Duration
	done          int
}

func (p *cursorPass) run(ctx context.Context) (int, error) {
	errs := make([]error, backlogWorkers)
	var all sync.WaitGroup
	for w := range backlogWorkers {
		all.Go(func() { errs[w] = p.worker(ctx) })
	}
	all.Wait()
	return p.done, errors.Join(errs...)
}

func (p *cursorPass) worker(ctx context.Context) error {
	for {
		ids, err := p.take(ctx)
		if err != nil || len(ids) == 0 {
			return err
		}
		claiming, err := attempt(ctx, p.store, ids)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.claims = append(p.claims, claiming)
		p.done += len(ids)
		p.mu.Unlock()
	}
}

// take returns the next ids; none at the end.
func (p *cursorPass) take(ctx context.Context) ([]uuid.UUID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var topics []string
	for _, name := range names {
		topics = append(topics, originalTopic(name))
	}
	for !p.over {
		start := time.Now()
		ids, next, err := p.store.Due(ctx, repository.DueQuery{Topics: topics, After: p.cursor, Limit: backlogBatch})
		if err != nil {
			p.over = true
			return nil, err
		}
		p.looks = append(p.looks, time.Since(start))
		p.cursor, p.over = next, next == repository.Place{}
		if len(ids) > 0 {
			return ids, nil
		}
	}
	return nil, nil
}

func (p *backlogPart) lines() []line {
	b := p.backlog
	title := fmt.Sprintf("claiming %s by cursor, %d workers, %d at a time", thousands(b.n), backlogWorkers, backlogBatch)
	slow := percentile(b.claims, 99)
	return []line{
		{
			work: title, figure: "p99 " + millis(slow),
			beside: fmt.Sprintf("p50 %s, longest %s", millis(percentile(b.claims, 50)), millis(percentile(b.claims, 100))),
			ratio:  noDemand, wanted: "p99 < " + millis(wantClaim), reached: slow > 0 && slow < wantClaim,
			limits: b.cpu.limits(b.n, "message", backlogWorkers),
		},
		{
			work: "the same, claimed and finished", figure: each(b.perSecond()),
			beside: noDemand, ratio: noDemand,
			wanted: noDemand, reached: true, limits: "as above",
		},
		{
			work: "size of that table when all is done", figure: gigabytes(b.after), beside: "before: " + gigabytes(b.before),
			ratio:  fmt.Sprintf("%.2f", b.growth()),
			wanted: fmt.Sprintf("ratio < %d", wantGrowth), reached: b.growth() > 0 && b.growth() < wantGrowth,
			limits: "versions of rows that vacuum has not removed yet",
		},
	}
}

func (p *backlogPart) profiles() []profile { return []profile{p.profile} }

func (p *backlogPart) method() string {
	b := p.backlog
	return fmt.Sprintf("- **Claiming by cursor.** A database of its own with %s PENDING messages of 1 KB, written by\n"+
		"  SQL, and nothing else. %d workers share one cursor; each takes the next %d ids, claims\n"+
		"  them and ends them as acknowledged, with the statements that the programs use: attempts\n"+
		"  and audit lines are stored, Kafka is not asked. A claim's time is the caller's, waiting\n"+
		"  for a processor included; %d of them, and the statement that finds the ids takes %s\n"+
		"  (p99 %s). Autovacuum and checkpoints run as configured. The size is that of the table,\n"+
		"  what is stored out of line, and all indexes, right after the last message, with no\n"+
		"  vacuum by hand.\n",
		thousands(b.n), backlogWorkers, backlogBatch, len(b.claims),
		millis(percentile(b.looks, 50)), millis(percentile(b.looks, 99)))
}
