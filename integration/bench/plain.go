package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What the figures of the programs are held against: the same kind of records
// written to the same table, with its indexes and triggers, by the same driver,
// and nothing else: no Kafka, no decoding, no positions.

// insertRow is what a consumer without batches does for every record. Columns
// are the documents' ten and the record's bytes.
const insertRow = `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries,
	payload, status, created_at, updated_at, last_retry_at, value)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// copyRows writes what the ingester writes of a record: key and headers as well.
const copyRows = `COPY dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries,
	payload, status, created_at, updated_at, last_retry_at, value, key, headers) FROM STDIN`

// pool is so many different letters; repeats do not matter to the database, and
// making letters is not what is measured.
func pool() []*kgo.Record {
	l := newLetters()
	out := make([]*kgo.Record, 2000)
	for n := range out {
		out[n] = l.letter(names[n%len(names)], n)
	}
	return out
}

// row is a letter in the columns of insertRow, with a new id in the order of
// time, as the ingester makes them.
func row(r *kgo.Record, n int) ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	return []any{
		id.String(), originalTopic(names[n%len(names)]), errorMessage, 0, 3,
		string(r.Value), "PENDING", now, now, nil, r.Value,
	}, nil
}

// singleInserts is the loop's first half, into an empty table. Ingest begins at
// the same size.
func (b *bench) singleInserts(ctx context.Context) error { return b.insertEach(ctx, b.plain) }

// singleInsertsAgain is its other half, into the table that the ingester has
// filled. So the loop has met both ends of what ingest met, and its figure does
// not hang on one moment of the machine.
func (b *bench) singleInsertsAgain(ctx context.Context) error { return b.insertEach(ctx, b.live) }

func (b *bench) insertEach(ctx context.Context, d *database) error {
	n := b.opts.single / 2
	b.say("writing %d rows with one INSERT each", n)
	if err := d.settle(ctx); err != nil {
		return err
	}
	letters := pool()
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	before, err := d.number(ctx, countRows)
	if err != nil {
		return err
	}
	start := time.Now()
	for i := range n {
		args, err := row(letters[i%len(letters)], i)
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, insertRow, args...); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	b.result.single = b.result.single.plus(rate{n, time.Since(start)})
	return d.expectRows(ctx, before+int64(n))
}

func (d *database) expectRows(ctx context.Context, rows int64) error {
	return d.expect(ctx,
		expectation{"rows", countRows, rows},
		expectation{"counters", countCounters, rows})
}

// copyConnections is as many as the ingester has writers.
const copyConnections = 2

// copyBatch is as many rows as the ingester stores at once.
const copyBatch = 1000

// copyRows is the fastest way into the table that the driver has.
func (b *bench) copyRows(ctx context.Context) error {
	b.say("writing %d rows with COPY", b.opts.copied)
	if err := b.plain.settle(ctx); err != nil {
		return err
	}
	letters := pool()
	before, err := b.plain.number(ctx, countRows)
	if err != nil {
		return err
	}
	errs := make([]error, copyConnections)
	var all sync.WaitGroup
	start := time.Now()
	for c := range copyConnections {
		n := b.opts.copied * (c + 1) / copyConnections
		n -= b.opts.copied * c / copyConnections
		all.Go(func() { errs[c] = b.plain.copyIn(ctx, letters, n) })
	}
	all.Wait()
	b.result.copied = rate{b.opts.copied, time.Since(start)}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return b.plain.expectRows(ctx, before+int64(b.opts.copied))
}

func (d *database) copyIn(ctx context.Context, letters []*kgo.Record, n int) error {
	for done := 0; done < n; done += copyBatch {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		if err := copyInto(ctx, tx, letters, min(copyBatch, n-done)); err != nil {
			return fmt.Errorf("copy: %w", errors.Join(err, tx.Rollback()))
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	return nil
}

func copyInto(ctx context.Context, tx *sql.Tx, letters []*kgo.Record, n int) error {
	copying, err := tx.PrepareContext(ctx, copyRows)
	if err != nil {
		return err
	}
	defer func() { _ = copying.Close() }()
	for i := range n {
		r := letters[i%len(letters)]
		args, err := row(r, i)
		if err != nil {
			return err
		}
		if _, err := copying.ExecContext(ctx, append(args, r.Key, joined(r.Headers))...); err != nil {
			return err
		}
	}
	_, err = copying.ExecContext(ctx) // sends the rest
	return err
}

// joined is as many bytes as the headers have.
func joined(headers []kgo.RecordHeader) []byte {
	var out []byte
	for _, h := range headers {
		out = append(append(out, h.Key...), h.Value...)
	}
	return out
}
