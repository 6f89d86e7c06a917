package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// What retry-all is held against: the least SQL that a claim, an attempt row and
// a result are, in the same table, with its indexes and triggers, by the same
// driver. It reads no record, sends nothing, keeps no audit trail, no redrive and
// no results of it, and trusts that nobody else is at work.

const (
	bareBatch   = 500
	bareWorkers = 4
)

const bareClaim = `
	UPDATE dlq.dlq_messages m SET
		status = 'RETRYING', retry_count = m.retry_count + 1, attempt_no = m.attempt_no + 1,
		claim_id = w.claim_id, claim_expires_at = now() + interval '30 seconds',
		claim_partition = w.partition, claim_end_offset = 0, last_retry_at = now(), updated_at = now()
	FROM unnest($1::uuid[], $2::uuid[], $3::int4[]) AS w (id, claim_id, partition)
	WHERE m.id = w.id AND (m.status = 'PENDING') IS TRUE`

const bareResult = `
	WITH result AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int8[]) AS r (id, claim_id, partition, log_offset)
	), ended AS (
		UPDATE dlq.dlq_messages m SET
			status = 'RESOLVED', outcome = 'published', updated_at = now(),
			claim_id = NULL, claim_expires_at = NULL, claim_partition = NULL, claim_end_offset = NULL
		FROM result r WHERE m.id = r.id AND m.claim_id = r.claim_id AND (m.status = 'RETRYING') IS NOT FALSE
		RETURNING m.id, m.attempt_no, r.claim_id, m.retry_count, m.last_retry_at, m.updated_at, m.original_topic,
			r.partition, r.log_offset
	)
	INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, verdict, actor, started_at, ended_at,
		from_status, to_status, target_topic, target_partition, target_offset)
	SELECT id, attempt_no, claim_id, retry_count, 1, 'bare', last_retry_at, updated_at,
		'RETRYING', 'RESOLVED', original_topic, partition, log_offset
	FROM ended`

// bareSQL does to a topic of the same size what retry-all did to its own.
func (p *retryPart) bareSQL(ctx context.Context) error {
	p.say("claims and results by bare SQL")
	ids, err := p.live.pending(ctx, names[1], p.opts.retry)
	if err != nil {
		return err
	}
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	before, err := p.live.number(ctx, countAttempts)
	if err != nil {
		return err
	}
	p.live.SetMaxIdleConns(bareWorkers)
	p.bare, err = timed(func() (int, error) { return len(ids), p.live.bare(ctx, ids) })
	if err != nil {
		return err
	}
	return p.live.expect(ctx,
		expectation{"attempts by bare SQL", countAttempts, before + int64(len(ids))},
		expectation{"resolved by bare SQL", `SELECT count(*) FROM dlq.dlq_messages
			WHERE status = 'RESOLVED' AND original_topic = '` + originalTopic(names[1]) + `'`, int64(len(ids))})
}

const countAttempts = `SELECT count(*) FROM dlq.attempts`

// pending returns the ids of up to limit PENDING messages of a topic, oldest
// first.
func (d *database) pending(ctx context.Context, name string, limit int) (ids []uuid.UUID, err error) {
	rows, err := d.QueryContext(ctx, `SELECT id FROM dlq.dlq_messages WHERE original_topic = $1 AND status = 'PENDING'
		ORDER BY created_at, id LIMIT $2`, originalTopic(name), limit)
	if err != nil {
		return nil, fmt.Errorf("find messages of %s: %w", name, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("find messages of %s: %w", name, err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (d *database) bare(ctx context.Context, ids []uuid.UUID) error {
	claim, err := d.PrepareContext(ctx, bareClaim)
	if err != nil {
		return fmt.Errorf("prepare a bare claim: %w", err)
	}
	defer func() { _ = claim.Close() }()
	result, err := d.PrepareContext(ctx, bareResult)
	if err != nil {
		return fmt.Errorf("prepare a bare result: %w", err)
	}
	defer func() { _ = result.Close() }()
	return inBatches(bareWorkers, bareBatch, ids, func(some []uuid.UUID) error {
		return bareStep(ctx, claim, result, some)
	})
}

func bareStep(ctx context.Context, claim, result *sql.Stmt, ids []uuid.UUID) error {
	n := len(ids)
	messages, claims := make([]string, n), make([]string, n)
	parts, offsets := make([]int64, n), make([]int64, n)
	for i, id := range ids {
		messages[i], claims[i] = id.String(), uuid.NewString()
		parts[i], offsets[i] = int64(i%partitions), int64(i)
	}
	if err := changes(n)(claim.ExecContext(ctx, pq.Array(messages), pq.Array(claims), pq.Array(parts))); err != nil {
		return fmt.Errorf("bare claim: %w", err)
	}
	if err := changes(n)(result.ExecContext(ctx, pq.Array(messages), pq.Array(claims), pq.Array(parts), pq.Array(offsets))); err != nil {
		return fmt.Errorf("bare result: %w", err)
	}
	return nil
}

// changes wants a statement to have changed n rows.
func changes(n int) func(sql.Result, error) error {
	return func(res sql.Result, err error) error {
		if err != nil {
			return err
		}
		got, err := res.RowsAffected()
		if err == nil && got != int64(n) {
			err = fmt.Errorf("%d rows were changed, want %d", got, n)
		}
		return err
	}
}

// inBatches hands batches of all to so many workers, and returns the first error;
// what is not begun then is left.
func inBatches[T any](workers, size int, all []T, do func([]T) error) error {
	batches := make(chan []T, (len(all)+size-1)/size)
	for from := 0; from < len(all); from += size {
		batches <- all[from:min(from+size, len(all))]
	}
	close(batches)
	var group sync.WaitGroup
	failed := make(chan error, workers)
	for range workers {
		group.Go(func() {
			for some := range batches {
				if len(failed) > 0 {
					return
				}
				if err := do(some); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}
