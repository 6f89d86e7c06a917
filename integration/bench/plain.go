package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// What ingest is held against: rows that the ingester stored are written again,
// with all their columns, to the same table with its indexes and triggers, by the
// same driver, and nothing else: no Kafka, no decoding, no positions, no look for
// equal records.

// samples is how many different rows are written again and again; making rows is
// not what is measured.
const samples = 2000

// sample is rows that the ingester stored, as text, without the columns that it
// left empty.
type sample struct {
	columns []string
	rows    [][]any
	binary  []string // names of the columns of bytes

	id, offset, created, updated int // where these columns are
	written                      atomic.Int64
}

// sample takes rows of the topics of these names, the same number of each.
func (d *database) sample(ctx context.Context, n int, originals ...string) (*sample, error) {
	s := &sample{}
	if err := d.texts(ctx, &s.columns, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = 'dlq_messages' AND is_generated = 'NEVER' ORDER BY ordinal_position`); err != nil {
		return nil, err
	}
	if err := d.texts(ctx, &s.binary, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = 'dlq_messages' AND data_type = 'bytea'`); err != nil {
		return nil, err
	}
	for _, topic := range originals {
		if err := s.take(ctx, d, topic, max(1, n/len(originals))); err != nil {
			return nil, fmt.Errorf("take rows of %s: %w", topic, err)
		}
	}
	s.shrink()
	return s, s.find()
}

// find looks for the columns that are new in every row.
func (s *sample) find() error {
	for name, at := range map[string]*int{"id": &s.id, "dlq_offset": &s.offset, "created_at": &s.created, "updated_at": &s.updated} {
		if *at = indexOf(s.columns, name); *at < 0 {
			return fmt.Errorf("the run is worthless: no stored row has %s", name)
		}
	}
	return nil
}

func (s *sample) take(ctx context.Context, d *database, topic string, n int) error {
	query := "SELECT " + strings.Join(s.columns, "::text, ") + "::text FROM dlq.messages WHERE original_topic = $1 LIMIT $2"
	rows, err := d.QueryContext(ctx, query, topic, n)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		texts, targets := make([]sql.NullString, len(s.columns)), make([]any, len(s.columns))
		for i := range texts {
			targets[i] = &texts[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		row := make([]any, len(texts))
		for i, text := range texts {
			if text.Valid {
				row[i] = text.String
			}
		}
		s.rows = append(s.rows, row)
	}
	return rows.Err()
}

// shrink leaves out the columns that no row has.
func (s *sample) shrink() {
	var kept []int
	for i := range s.columns {
		for _, row := range s.rows {
			if row[i] != nil {
				kept = append(kept, i)
				break
			}
		}
	}
	s.columns = pick(s.columns, kept)
	for i, row := range s.rows {
		s.rows[i] = pick(row, kept)
	}
}

func pick[T any](all []T, kept []int) []T {
	out := make([]T, len(kept))
	for i, at := range kept {
		out[i] = all[at]
	}
	return out
}

func indexOf(all []string, one string) int {
	for i, name := range all {
		if name == one {
			return i
		}
	}
	return -1
}

// unquoted is the same rows with bytes as bytes, which the driver sends as they
// are in place of as text of twice their size. Only an INSERT can have them so.
func (s *sample) unquoted() (*sample, error) {
	out := &sample{columns: s.columns, rows: make([][]any, len(s.rows))}
	for i, row := range s.rows {
		out.rows[i] = slices.Clone(row)
		for at, name := range s.columns {
			text, ok := row[at].(string)
			if !ok || !slices.Contains(s.binary, name) {
				continue
			}
			bytes, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
			if err != nil {
				return nil, fmt.Errorf("bytes of %s: %w", name, err)
			}
			out.rows[i][at] = bytes
		}
	}
	return out, out.find()
}

// beyond every offset that a topic of the bench has.
const beyond = 1 << 40

// next is a row that was not written yet: its own id, in the order of time as the
// ingester makes them, its own offset, and the time of now. It may be called from
// several goroutines.
func (s *sample) next() ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	n := s.written.Add(1)
	row := append([]any(nil), s.rows[int(n)%len(s.rows)]...)
	now := time.Now().UTC().Format(time.RFC3339Nano)
	row[s.id], row[s.offset] = id.String(), strconv.FormatInt(beyond+n, 10)
	row[s.created], row[s.updated] = now, now
	return row, nil
}

// insertText is what a consumer without batches sends for every record.
func (s *sample) insertText() string {
	values := make([]string, len(s.columns))
	for i := range values {
		values[i] = "$" + strconv.Itoa(i+1)
	}
	return "INSERT INTO dlq.dlq_messages (" + strings.Join(s.columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

func (s *sample) copyText() string {
	return "COPY dlq.dlq_messages (" + strings.Join(s.columns, ", ") + ") FROM STDIN"
}

// adopt makes rows of another database possible here: what they refer to.
func (d *database) adopt(ctx context.Context, from *database) error {
	for _, table := range []string{"topics", "topic_incarnations", "error_groups"} {
		var rows string
		if err := from.QueryRowContext(ctx, "SELECT coalesce(json_agg(t), '[]') FROM dlq."+table+" t").Scan(&rows); err != nil {
			return fmt.Errorf("read %s: %w", table, err)
		}
		if _, err := d.ExecContext(ctx, "INSERT INTO dlq."+table+" OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::dlq."+
			table+", $1)", rows); err != nil {
			return fmt.Errorf("write %s: %w", table, err)
		}
	}
	return nil
}

// insertEach writes n rows by one connection in auto-commit, with one statement
// that is prepared once.
func (d *database) insertEach(ctx context.Context, s *sample, n int) (w work, err error) {
	before, err := d.readyToWrite(ctx)
	if err != nil {
		return w, err
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return w, err
	}
	defer func() { _ = conn.Close() }()
	insert, err := conn.PrepareContext(ctx, s.insertText())
	if err != nil {
		return w, fmt.Errorf("prepare an insert: %w", err)
	}
	defer func() { _ = insert.Close() }()
	w, err = timed(func() (int, error) {
		for range n {
			row, err := s.next()
			if err != nil {
				return 0, err
			}
			if _, err := insert.ExecContext(ctx, row...); err != nil {
				return 0, fmt.Errorf("insert: %w", err)
			}
		}
		return n, nil
	})
	if err != nil {
		return w, err
	}
	return w, d.expectRows(ctx, before+int64(n))
}

// readyToWrite says how many rows there are before it begins.
func (d *database) readyToWrite(ctx context.Context) (int64, error) {
	if err := d.settle(ctx); err != nil {
		return 0, err
	}
	return d.number(ctx, countRows)
}

func (d *database) expectRows(ctx context.Context, rows int64) error {
	return d.expect(ctx,
		expectation{"rows", countRows, rows},
		expectation{"counters", countCounters, rows})
}

const (
	// ingestWriters is as many as the ingester has.
	ingestWriters = 4

	// copyBatch is as many rows as the ingester stores at once.
	copyBatch = 1000
)

// copyConnections is how many COPY is tried with. The faster way counts.
func copyConnections() []int { return []int{2, ingestWriters} }

// copying is COPY by so many connections.
type copying struct {
	work
	connections int
}

// copies is COPY by each of copyConnections.
type copies []copying

// add adds what the same number of connections did.
func (c *copies) add(more copying) {
	for i, have := range *c {
		if have.connections == more.connections {
			(*c)[i].work = have.plus(more.work)
			return
		}
	}
	*c = append(*c, more)
}

// fastest is nothing when there is none.
func (c copies) fastest() (best copying) {
	for _, one := range c {
		if best.n == 0 || one.perSecond() > best.perSecond() {
			best = one
		}
	}
	return best
}

// text says how fast each was, the fastest first.
func (c copies) text() string {
	best := c.fastest()
	text := fmt.Sprintf("COPY, %d connections: %s", best.connections, each(best.perSecond()))
	for _, one := range c {
		if one.connections != best.connections {
			text += fmt.Sprintf("; %d: %s", one.connections, each(one.perSecond()))
		}
	}
	return text
}

// all is how many rows were written by all, and how long that took.
func (c copies) all() (sum rate) {
	for _, one := range c {
		sum = sum.plus(one.rate)
	}
	return sum
}

// copyRows writes n rows the fastest way into the table that the driver has, so
// many in each transaction.
func (d *database) copyRows(ctx context.Context, s *sample, n, batch, connections int) (out copying, err error) {
	out.connections = connections
	before, err := d.readyToWrite(ctx)
	if err != nil {
		return out, err
	}
	d.SetMaxIdleConns(connections)
	out.work, err = timed(func() (int, error) {
		errs := make([]error, connections)
		var all sync.WaitGroup
		for c := range connections {
			share := n*(c+1)/connections - n*c/connections
			all.Go(func() { errs[c] = d.copyShare(ctx, s, share, batch) })
		}
		all.Wait()
		return n, errors.Join(errs...)
	})
	if err != nil {
		return out, fmt.Errorf("copy: %w", err)
	}
	return out, d.expectRows(ctx, before+int64(n))
}

func (d *database) copyShare(ctx context.Context, s *sample, n, batch int) error {
	for done := 0; done < n; done += batch {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := copyInto(ctx, tx, s, min(batch, n-done)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func copyInto(ctx context.Context, tx *sql.Tx, s *sample, n int) error {
	sending, err := tx.PrepareContext(ctx, s.copyText())
	if err != nil {
		return err
	}
	defer func() { _ = sending.Close() }()
	for range n {
		row, err := s.next()
		if err != nil {
			return err
		}
		if _, err := sending.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	_, err = sending.ExecContext(ctx) // sends the rest
	return err
}
