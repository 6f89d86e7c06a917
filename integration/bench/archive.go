package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// How fast finished messages move to the archive, beside the least SQL that does.
const (
	archiveRows   = 100_000 // that each way moves
	archiveBatch  = 1000    // the most that a transaction moves
	archiveRounds = 4       // of each way
	archiveDays   = 30
	archiveStep   = 5_000 // rows that one statement makes beforehand

	wantArchiveShare = 0.9
	wantArchiveLock  = 50 * time.Millisecond
)

// archivePart moves messages by the procedure and by a bare statement, by turns.
type archivePart struct {
	*bench
	procedure, bare work
	batches         []time.Duration // of the procedure, ascending
	bareBatches     []time.Duration // of the other, ascending
}

func (p *archivePart) run(ctx context.Context) (err error) {
	d, err := p.database(ctx, "bench_archive")
	if err != nil {
		return err
	}
	defer func() { err = joinDrop(ctx, p.bench, d, err) }()
	if err := d.noteBatches(ctx); err != nil {
		return err
	}
	columns, err := d.sharedColumns(ctx)
	if err != nil {
		return err
	}
	n := max(p.opts.share(archiveRows/archiveRounds), archiveBatch)
	p.say("archiving %d messages %d times with the procedure and as often without", n, archiveRounds)
	for turn := range 2 * archiveRounds {
		if err := p.fillOld(ctx, d, turn, n); err != nil {
			return err
		}
		if turn%4 == 1 || turn%4 == 2 {
			err = p.moveBare(ctx, d, columns, n)
		} else {
			err = p.call(ctx, d, n)
		}
		if err != nil {
			return err
		}
		if err := d.expectMoved(ctx, int64((turn+1)*n)); err != nil {
			return err
		}
	}
	slices.Sort(p.batches)
	slices.Sort(p.bareBatches)
	return nil
}

// joinDrop drops a database that a part had for itself, and keeps the first error.
func joinDrop(ctx context.Context, b *bench, d *database, err error) error {
	if dropped := b.drop(context.WithoutCancel(ctx), d); err == nil {
		err = dropped
	}
	return err
}

// fillResolved writes messages $1 to $2 that were resolved a day after they came.
const fillResolved = `
	WITH made AS MATERIALIZED (
		SELECT n, ('018f' || lpad(to_hex(n), 8, '0') || '70008000' || substr(md5(n::text), 1, 12))::uuid AS id,
			$3::timestamptz + n * interval '1 millisecond' AS moment,
			format('{"id": %s, "note": "%s"}', n, repeat(md5(n::text), 31)) AS text
		FROM generate_series($1::int, $2::int) AS n
	), bytes AS (
		INSERT INTO dlq.records (message_id, key, value, headers)
		SELECT id, convert_to('key-' || n, 'UTF8'), convert_to(text, 'UTF8'), '\x00' FROM made
	)
	INSERT INTO dlq.dlq_messages (id, original_topic, error_message, status, retry_count, attempt_no, created_at, updated_at, last_retry_at,
		payload, origin_confidence, dialect, consumer_group, outcome, group_id)
	SELECT id, $4::text, $5::text, 'RESOLVED', 1, 1, moment, moment + interval '1 day', moment + interval '1 day',
		text::jsonb, 'header', 'spring-dlt', 'bench', 'published',
		('67726f7570206f66207265616473' || lpad(to_hex(n % 100), 4, '0'))::uuid
	FROM made`

// fillOld writes messages that were resolved long ago, with every trigger and
// index, and gives the timed part its start.
func (p *archivePart) fillOld(ctx context.Context, d *database, turn, n int) error {
	first := turn*n + 1
	begin := time.Now().AddDate(0, 0, -2*archiveDays).UTC()
	var steps []int
	for at := first; at < first+n; at += archiveStep {
		steps = append(steps, at)
	}
	err := inBatches(fillConnections, 1, steps, func(at []int) error {
		_, err := d.ExecContext(ctx, fillResolved, at[0], min(at[0]+archiveStep, first+n)-1, begin,
			originalTopic(names[turn%len(names)]), errorMessage)
		return err
	})
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := d.expectRows(ctx, int64(n)); err != nil {
		return err
	}
	return d.settle(ctx)
}

// call runs the procedure as the archiver does.
func (p *archivePart) call(ctx context.Context, d *database, n int) error {
	before, err := d.number(ctx, countBatches)
	if err != nil {
		return err
	}
	w, err := timed(func() (int, error) {
		_, err := d.ExecContext(ctx, `CALL dlq.archive_old_dlq_messages(p_retention_days => $1::int, p_batch_size => $2::int)`,
			archiveDays, archiveBatch)
		return n, err
	})
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	p.procedure = p.procedure.plus(w)
	batches, err := d.notedBatches(ctx, before)
	if err == nil && len(batches) < n/archiveBatch {
		err = fmt.Errorf("the run is worthless: %d batches of the procedure were noted, want %d or more", len(batches), n/archiveBatch)
	}
	p.batches = append(p.batches, batches...)
	return err
}

// moveBare is what one would write without the product: the oldest that are due
// are deleted and put into the archive, so many in a statement and each time from
// where the last one ended, until there are none.
func (p *archivePart) moveBare(ctx context.Context, d *database, columns []string, n int) error {
	stmt, err := d.PrepareContext(ctx, bareMove(columns))
	if err != nil {
		return fmt.Errorf("move: %w", err)
	}
	defer func() { _ = stmt.Close() }()
	cutoff := time.Now().AddDate(0, 0, -archiveDays).UTC()
	w, err := timed(func() (moved int, err error) {
		var last repository.Place
		for {
			start := time.Now()
			var some int
			err := stmt.QueryRowContext(ctx, cutoff, archiveBatch, last.CreatedAt, last.ID.String()).Scan(&last.CreatedAt, &last.ID, &some)
			if errors.Is(err, sql.ErrNoRows) {
				return moved, nil
			}
			if err != nil {
				return moved, err
			}
			p.bareBatches = append(p.bareBatches, time.Since(start))
			moved += some
		}
	})
	if err != nil {
		return fmt.Errorf("move: %w", err)
	}
	if w.n != n {
		return fmt.Errorf("the run is worthless: %d rows were moved by bare SQL, want %d", w.n, n)
	}
	p.bare = p.bare.plus(w)
	return nil
}

// bareMove moves $2 messages that were updated before $1, behind the place $3 and
// $4. It returns the place of the last of them and how many there were; no row when
// there were none.
func bareMove(columns []string) string {
	list := strings.Join(columns, ", ")
	return `WITH gone AS (
		DELETE FROM dlq.dlq_messages WHERE id IN (
			SELECT id FROM dlq.dlq_messages WHERE status = 'RESOLVED' AND updated_at < $1::timestamptz
				AND (created_at, id) > ($3::timestamptz, $4::uuid)
			ORDER BY created_at, id LIMIT $2::int)
		RETURNING *
	), kept AS (
		INSERT INTO dlq.dlq_messages_archive (` + list + `, archived_at) SELECT ` + list + `, clock_timestamp() FROM gone
	)
	SELECT created_at, id, (SELECT count(*) FROM gone) FROM gone ORDER BY created_at DESC, id DESC LIMIT 1`
}

// sharedColumns are those that a message has in both tables.
func (d *database) sharedColumns(ctx context.Context) (names []string, err error) {
	rows, err := d.QueryContext(ctx, `
		SELECT live.column_name FROM information_schema.columns live
		JOIN information_schema.columns kept USING (table_schema, column_name)
		WHERE live.table_schema = 'dlq' AND live.table_name = 'dlq_messages' AND kept.table_name = 'dlq_messages_archive'
		ORDER BY live.ordinal_position`)
	if err != nil {
		return nil, fmt.Errorf("columns of a message: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// noteBatches lets every statement that fills the archive note when its
// transaction began. A batch of the procedure locks its rows after that, and lets
// go of them before the next one begins.
func (d *database) noteBatches(ctx context.Context) error {
	for _, statement := range []string{
		`CREATE TABLE public.batches (n BIGINT GENERATED ALWAYS AS IDENTITY, began TIMESTAMPTZ NOT NULL)`,
		`CREATE FUNCTION public.note_batch() RETURNS TRIGGER LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO public.batches (began) VALUES (now());
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER note_batch AFTER INSERT ON dlq.dlq_messages_archive
			FOR EACH STATEMENT EXECUTE FUNCTION public.note_batch()`,
	} {
		if _, err := d.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("note batches: %w", err)
		}
	}
	return nil
}

const countBatches = `SELECT count(*) FROM public.batches`

// notedBatches are how long the transactions took that were noted after so many
// others, until now.
func (d *database) notedBatches(ctx context.Context, after int64) (all []time.Duration, err error) {
	rows, err := d.QueryContext(ctx, `SELECT extract(epoch FROM lead(began, 1, clock_timestamp()) OVER (ORDER BY n) - began)::float8
		FROM (SELECT n, began FROM public.batches ORDER BY n OFFSET $1::bigint) noted`, after)
	if err != nil {
		return nil, fmt.Errorf("read the batches: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var took float64
		if err := rows.Scan(&took); err != nil {
			return nil, fmt.Errorf("read the batches: %w", err)
		}
		all = append(all, time.Duration(took*float64(time.Second)))
	}
	return all, rows.Err()
}

// expectMoved wants so many messages in the archive and none elsewhere.
func (d *database) expectMoved(ctx context.Context, n int64) error {
	return d.expect(ctx,
		expectation{"rows that were not archived", countRows, 0},
		expectation{"counters of them", countCounters, 0},
		expectation{"archived rows", `SELECT count(DISTINCT id) FROM dlq.archived_messages
			WHERE value IS NOT NULL AND payload IS NOT NULL AND headers IS NOT NULL AND archived_at > now() - interval '1 hour'`, n},
	)
}

func (p *archivePart) lines() []line {
	share := quotient(p.procedure.perSecond(), p.bare.perSecond())
	longest := percentile(p.batches, 100)
	title := fmt.Sprintf("archiving %s × 1 KB, at most %s at a time", thousands(p.procedure.n), thousands(archiveBatch))
	return []line{
		{
			work: title, figure: each(p.procedure.perSecond()),
			beside: "bare DELETE .. RETURNING into INSERT: " + each(p.bare.perSecond()), ratio: fmt.Sprintf("%.2f", share),
			wanted: fmt.Sprintf("ratio ≥ %.1f", wantArchiveShare), reached: share >= wantArchiveShare,
			limits: p.procedure.cpu.limits(p.procedure.n, "record", 1),
		},
		{
			work: "the longest lock of it", figure: fine(longest),
			beside: fmt.Sprintf("p50 %s of %d batches; bare SQL: p50 %s, longest %s of %d", fine(percentile(p.batches, 50)), len(p.batches),
				fine(percentile(p.bareBatches, 50)), fine(percentile(p.bareBatches, 100)), len(p.bareBatches)),
			ratio: noDemand, wanted: "< " + millis(wantArchiveLock), reached: longest > 0 && longest < wantArchiveLock,
			limits: "one batch: rows are locked until its transaction has ended, and the procedure makes it shorter when one took longer than 20 ms",
		},
	}
}

func (p *archivePart) method() string {
	return fmt.Sprintf("- **Archive.** A database of its own. %d times each, by turns, %s messages of 1 KB that were resolved long\n"+
		"  ago are moved by `CALL dlq.archive_old_dlq_messages(%d, %d)` and by one connection that sends the bare\n"+
		"  statement until it moves nothing: the oldest that are due are deleted and inserted, %s at a time, each\n"+
		"  time from where the last ended, in the same tables with the same indexes and triggers. It skips no row\n"+
		"  that is locked, looks for one status only, and makes no batch shorter. Its p50 is of batches that moved something; the last look,\n"+
		"  which finds nothing, is in the rate of both.\n"+
		"- **The longest lock.** A statement trigger of the bench notes when the transaction began of every batch\n"+
		"  that comes to the archive. A batch locks its rows after that and has let go of them when the next one\n"+
		"  begins, so from one beginning to the next is the longest for which anybody can have waited for a row;\n"+
		"  the commit is in it. All %d batches count. Another session that tries for locks would meet only some of\n"+
		"  them, and the procedure would leave the rows that it has.\n",
		archiveRounds, thousands(p.procedure.n/archiveRounds), archiveDays, archiveBatch, thousands(archiveBatch), len(p.batches))
}
