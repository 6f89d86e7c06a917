package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

const actor = "bench"

// maxRetries lets a message fail in every round.
const maxRetries = 100

// againShare is how many times fewer rows a choice has whose rows are claimed in every
// round.
const againShare = 4

// trial is a choice with its database.
type trial struct {
	choice  choice
	name    string
	pool    *sqlx.DB
	store   *postgres.Store
	changed atomic.Int64
	meter   meter

	letters *letters
	ref     repository.TopicRef
	next    [partitions]int64
	ids     []uuid.UUID

	stored, retried []part // one a round
}

func (b *bench) open(ctx context.Context, c choice, name string) (*trial, error) {
	if _, err := b.admin.ExecContext(ctx, "CREATE DATABASE "+name+" TEMPLATE "+templateName); err != nil {
		return nil, err
	}
	t := &trial{choice: c, name: name, letters: newLetters()}
	if err := t.prepare(ctx, b.at(name)); err != nil {
		return nil, err
	}
	var err error
	if t.pool, err = openPool(b.at(name), c, &t.changed); err != nil {
		return nil, err
	}
	t.store = postgres.New(t.pool, c.store...)
	if err := t.openTopic(ctx); err != nil {
		return nil, errors.Join(err, t.pool.Close())
	}
	t.meter = meter{t.pool, name, c.writers}
	return t, nil
}

// prepare changes the schema, by a connection that the measured ones come after.
func (t *trial) prepare(ctx context.Context, url string) error {
	db, err := sqlx.Open("postgres", url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	statements := t.choice.setup
	if t.choice.fill != "" {
		statements = append(statements, "SET session_replication_role = replica;"+t.choice.fill, "VACUUM (ANALYZE) dlq.dlq_messages")
	}
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) openTopic(ctx context.Context) error {
	refs, err := t.store.OpenTopics(ctx, []repository.Topic{{Name: deadLetterTopic, Incarnation: "one"}})
	if err != nil {
		return err
	}
	t.ref = refs[0]
	var starts []repository.Position
	for p := range partitions {
		starts = append(starts, repository.Position{Partition: t.partition(int32(p))})
	}
	_, err = t.store.OpenPosition(ctx, starts)
	return err
}

func (t *trial) partition(p int32) repository.Partition {
	return repository.Partition{Incarnation: t.ref.Incarnation, Partition: p}
}

func (t *trial) close(b *bench) error {
	_ = t.pool.Close()
	_, err := b.admin.Exec("DROP DATABASE " + t.name + " WITH (FORCE)")
	return err
}

// round stores rows, and claims and finishes them.
func (t *trial) round(ctx context.Context, round int, opts options) error {
	rows := opts.rows / opts.rounds
	if t.choice.again {
		rows = opts.rows / againShare
	}
	if !t.choice.again || round == 0 {
		if err := t.ingest(ctx, rows); err != nil {
			return err
		}
	}
	if t.choice.again && round == 0 {
		if _, err := t.pool.ExecContext(ctx, "VACUUM (ANALYZE) dlq.dlq_messages"); err != nil {
			return err
		}
	}
	p, err := t.timed(ctx, rows, func() error { return t.each(ctx, t.retry) })
	t.retried = append(t.retried, p)
	return err
}

// timed measures work, after a checkpoint if the choice is about that.
func (t *trial) timed(ctx context.Context, rows int, work func() error) (part, error) {
	if t.choice.checkpoint {
		if _, err := t.pool.ExecContext(ctx, "CHECKPOINT"); err != nil {
			return part{}, err
		}
	}
	return t.meter.measure(ctx, rows, work)
}

// ingest makes the batches before it measures how they are stored.
func (t *trial) ingest(ctx context.Context, rows int) error {
	if !t.choice.again {
		t.ids = t.ids[:0]
	}
	batches := make([][]repository.Batch, t.choice.writers)
	for w := range t.choice.writers {
		for left := rows / t.choice.writers; left > 0; left -= t.choice.batch {
			batches[w] = append(batches[w], t.batch(w, min(left, t.choice.batch)))
		}
	}
	p, err := t.timed(ctx, rows, func() error {
		return t.parallel(func(w int) error {
			for _, b := range batches[w] {
				stored, err := t.store.Store(ctx, b)
				if err != nil {
					return err
				}
				if len(stored.Ranges) != len(b.Ranges) {
					return fmt.Errorf("%d of %d ranges were stored", len(stored.Ranges), len(b.Ranges))
				}
			}
			return nil
		})
	})
	t.stored = append(t.stored, p)
	return err
}

// batch is the next messages of a writer, from every partition that is its own.
func (t *trial) batch(writer, n int) repository.Batch {
	var own []int32
	for p := writer; p < partitions; p += t.choice.writers {
		own = append(own, int32(p))
	}
	before := t.next
	b := repository.Batch{ReturnWindow: 24 * time.Hour} // the default
	for i := range n {
		p := own[i%len(own)]
		m := t.letters.message(t.choice.id(), t.ref, p, t.next[p])
		b.Messages = append(b.Messages, m)
		t.ids = append(t.ids, m.ID)
		t.next[p]++
	}
	for _, p := range own {
		if t.next[p] > before[p] {
			b.Ranges = append(b.Ranges, repository.Range{Partition: t.partition(p), From: before[p], To: t.next[p]})
		}
	}
	return b
}

func (t *trial) parallel(work func(writer int) error) error {
	errs := make([]error, t.choice.writers)
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() { errs[w] = work(w) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// each gives every writer its part of the ids, some at a time.
func (t *trial) each(ctx context.Context, work func(context.Context, []uuid.UUID) error) error {
	share := (len(t.ids) + t.choice.writers - 1) / t.choice.writers
	return t.parallel(func(w int) error {
		own := t.ids[w*share : min((w+1)*share, len(t.ids))]
		for len(own) > 0 {
			n := min(t.choice.claim, len(own))
			if err := work(ctx, own[:n]); err != nil {
				return err
			}
			own = own[n:]
		}
		return nil
	})
}

// retry claims messages and finishes them, without Kafka.
func (t *trial) retry(ctx context.Context, ids []uuid.UUID) error {
	claims, results := make([]repository.Claim, len(ids)), make([]repository.Result, len(ids))
	for i, id := range ids {
		p := int32(i % partitions)
		claims[i] = repository.Claim{MessageID: id, ID: entity.NewID(), Topic: originalTopic, Partition: p}
		results[i] = repository.Result{MessageID: id, ClaimID: claims[i].ID, Verdict: entity.Acknowledged, Partition: p, Offset: int64(i)}
		if t.choice.again {
			results[i].Verdict, results[i].RetryIn, results[i].Offset = entity.Failed, time.Minute, -1
		}
	}
	cause := entity.By(actor)
	claimed, err := t.store.Claim(ctx, claims, repository.Claiming{Expiry: time.Minute, Cause: cause})
	if err != nil {
		return err
	}
	finished, err := t.store.Finish(ctx, results, cause)
	if err == nil && (len(claimed) != len(ids) || len(finished) != len(ids)) {
		err = fmt.Errorf("%d claimed and %d finished of %d", len(claimed), len(finished), len(ids))
	}
	return err
}

// verify fails when rows were lost or doubled, or a change did not reach the server.
func (t *trial) verify(ctx context.Context, opts options) error {
	status, n, least := "RESOLVED", int64(0), int64(opts.rows-opts.rounds*t.choice.writers)
	for _, next := range t.next {
		n += next
	}
	if t.choice.again {
		status, least = "PENDING", int64(opts.rows/againShare)
	}
	var got int64
	err := t.pool.GetContext(ctx, &got, `SELECT count(*) FROM dlq.dlq_messages WHERE status = $1 AND dlq_topic_id IS NOT NULL`, status)
	switch {
	case err != nil:
		return err
	case got != n || n < least:
		return fmt.Errorf("%d rows are %s, want %d", got, status, n)
	case (len(t.choice.rewrite) > 0 || t.choice.text) && t.changed.Load() == 0:
		return errors.New("no statement was changed")
	}
	return t.verifyHistory(ctx)
}

// verifyHistory looks whether attempts and audit lines are there, or not when a
// choice is to be without them.
func (t *trial) verifyHistory(ctx context.Context) error {
	want := map[string]bool{"attempts": true, "audit": true}
	for _, r := range t.choice.rewrite {
		if r == attemptsInsert {
			want["attempts"] = false
		}
		if r == auditInsert {
			want["audit"] = false
		}
	}
	for table, want := range want {
		var some bool
		if err := t.pool.GetContext(ctx, &some, "SELECT EXISTS (SELECT FROM dlq."+table+")"); err != nil {
			return err
		}
		if some != want {
			return fmt.Errorf("dlq.%s has rows: %t, want %t", table, some, want)
		}
	}
	return nil
}
