package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// archiveLock is the advisory lock that allows one archiver at a time. The number is specific to this product.
const archiveLock = 0x646c71617263 // "dlqarc"

// TryLock takes the lock of the archiver; ok is false when another holds it. The lock ends with its connection, so a
// process that dies leaves no lock.
func (s *Store) TryLock(ctx context.Context) (unlock func(), ok bool, err error) {
	connection, err := s.db.Conn(ctx)
	if err != nil {
		return nil, false, translate("lock the archive", err)
	}
	if err := connection.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(archiveLock)).Scan(&ok); err != nil || !ok {
		_ = connection.Close()
		return nil, false, translate("lock the archive", err)
	}
	return func() {
		// A cancelled caller still unlocks; if that fails, the connection is broken and its lock has ended with it.
		_, _ = connection.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(archiveLock))
		_ = connection.Close()
	}, true, nil
}

// ArchiveOld moves final messages that last changed longer than days ago into the archive, batch rows a transaction,
// and returns how many. Locked rows wait for the next run. When ctx ends or a batch fails, what was moved is kept and
// counted, unless the connection is lost.
func (s *Store) ArchiveOld(ctx context.Context, days, batch int) (int64, error) {
	connection, err := s.db.Conn(ctx)
	if err != nil {
		return 0, translate("archive messages", err)
	}
	defer func() { _ = connection.Close() }()
	var total int64
	err = again(ctx, func() error { // what a call moved before a conflict with other sessions is kept
		n, err := s.archiveOnce(ctx, connection, days, batch)
		total += n
		return err
	})
	return total, translate("archive messages", err)
}

// archiveOnce calls the procedure, and returns how many messages it moved.
func (s *Store) archiveOnce(ctx context.Context, connection *sql.Conn, days, batch int) (int64, error) {
	var session int
	// Reset the count: if this call fails at once, that of an earlier call must not be used.
	if err := connection.QueryRowContext(ctx, `SELECT pg_backend_pid() FROM set_config('dlq.archived', '0', false)`).Scan(&session); err != nil {
		return 0, err
	}
	failed := s.callArchive(ctx, connection, session, days, batch)
	n, err := archived(ctx, connection)
	if failed != nil { // so the count may not be known
		return n, failed
	}
	return n, err
}

// callArchive calls the procedure until it is done or ctx ends. The driver would close the connection on which the
// count is stored, so the server is asked to stop first.
func (s *Store) callArchive(ctx context.Context, connection *sql.Conn, session, days, batch int) error {
	patient, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	ended := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() {
		select {
		case <-ended:
		case <-ctx.Done():
			s.stopSession(patient, session, ended)
			giveUp()
		}
	})
	_, err := connection.ExecContext(patient, `CALL dlq.archive_old_dlq_messages($1, $2)`, days, batch)
	close(ended)
	stopping.Wait()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// stopPatience is how long a statement may take to stop.
const stopPatience = 2 * time.Second

// stopSession cancels the statement of a session until it has ended, for at most stopPatience.
func (s *Store) stopSession(ctx context.Context, session int, ended <-chan struct{}) {
	bounded, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	for { // a statement that had not started must be cancelled again
		_, err := s.db.ExecContext(bounded, `SELECT pg_cancel_backend($1)`, session)
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ended:
		case <-bounded.Done():
		case <-again.C:
			if err == nil {
				continue
			}
		}
		again.Stop()
		return
	}
}

// archived returns how many messages the last call in a session moved; every batch stored the count.
func archived(ctx context.Context, connection *sql.Conn) (int64, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	var moved string
	if err := connection.QueryRowContext(bounded, `SELECT current_setting('dlq.archived')`).Scan(&moved); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(moved, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count %q: %w", moved, err)
	}
	return n, nil
}

// The cut-off is in both conditions, so that neither reads a later partition.
const purgeQuery = `
	WITH due AS MATERIALIZED (
		SELECT id, archived_at FROM dlq.dlq_messages_archive
		WHERE archived_at < now() - make_interval(days => $1)
		ORDER BY archived_at LIMIT $2 FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM dlq.dlq_messages_archive a USING due
		WHERE a.id = due.id AND a.archived_at = due.archived_at AND a.archived_at < now() - make_interval(days => $1)
		RETURNING a.id
	), history AS (
		DELETE FROM dlq.attempts a USING gone WHERE a.message_id = gone.id RETURNING a.attempt_id
	), edited AS (
		DELETE FROM dlq.edits e USING gone WHERE e.message_id = gone.id
	), returned AS (
		DELETE FROM dlq.returns r USING history WHERE r.attempt_id = history.attempt_id
	)
	SELECT count(*) FROM gone`

// CreatePartitions creates the partition of the archive for the present quarter and for ahead more quarters, where
// they are missing, and returns how many it created.
func (s *Store) CreatePartitions(ctx context.Context, ahead int) (made int64, err error) {
	err = s.selectOne(ctx, &made, `SELECT dlq.create_archive_partitions($1)`, ahead)
	return made, translate("create partitions of the archive", err)
}

// PurgePartitions detaches the partitions whose messages have all been in the archive longer than days, and deletes
// the rows of those messages as PurgeArchive does; it returns the number of messages. A partition that is being read
// is left. It also completes what an earlier call began.
func (s *Store) PurgePartitions(ctx context.Context, days, batch int) (int64, error) {
	if days < 0 || batch < 1 {
		return 0, fmt.Errorf("purge partitions of the archive: days %d, batch %d", days, batch)
	}
	var taken int64
	err := s.selectOne(ctx, &taken, `SELECT dlq.detach_archive_partitions($1)`, days)
	total, purged := s.purge(ctx, "purge partitions of the archive", `SELECT dlq.purge_detached($1)`, batch)
	return total, errors.Join(translate("detach partitions of the archive", err), purged)
}

// PurgeArchive deletes messages that have been in the archive longer than days, with their attempts, edits and
// returns, batch rows a transaction, and returns how many messages.
func (s *Store) PurgeArchive(ctx context.Context, days, batch int) (int64, error) {
	if days < 0 || batch < 1 {
		return 0, fmt.Errorf("purge the archive: days %d, batch %d", days, batch)
	}
	return s.purge(ctx, "purge the archive", purgeQuery, days, batch)
}

// purge runs a query that deletes a batch and returns its number of rows, until that is 0.
func (s *Store) purge(ctx context.Context, where, query string, args ...any) (total int64, err error) {
	for {
		var n int64
		if err := s.selectOne(ctx, &n, query, args...); err != nil {
			return total, translate(where, err)
		}
		if total += n; n == 0 {
			return total, nil
		}
	}
}

// selectOne runs a query that returns one value, without keeping it prepared.
func (s *Store) selectOne(ctx context.Context, dest any, query string, args ...any) error {
	return again(ctx, func() error { return s.db.GetContext(ctx, dest, query, args...) })
}

// A cut-off is relative to the time of the store's clock, $1.
const (
	purgeKeysQuery = `
	WITH gone AS (
		DELETE FROM dlq.idempotency_keys WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM dlq.idempotency_keys
			WHERE created_at <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
			ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	// Redrives are deleted with their batches, a row for some hundreds of messages each.
	purgeRedrivesQuery = `
	WITH gone AS (
		DELETE FROM dlq.redrives WHERE id = ANY (ARRAY(
			SELECT id FROM dlq.redrives
			WHERE ended_at < coalesce($1::timestamptz, now()) - make_interval(days => $2)
			LIMIT least($3::int, 10) FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	// Returns are deleted with their attempts. A return that arrived while its message was being deleted has no
	// attempt; it proves nothing and is found here.
	purgeReturnsQuery = `
	WITH gone AS (
		DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(
			SELECT r.attempt_id FROM dlq.returns r
			WHERE r.returned_at < coalesce($1::timestamptz, now()) - make_interval(days => $2)
			  AND NOT EXISTS (SELECT FROM dlq.attempts a WHERE a.message_id = r.parent_id AND a.attempt_id = r.attempt_id)
			LIMIT $3 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	// The row of an unconfirmed return is deleted after the returned message.
	purgeUnconfirmedQuery = `
	WITH gone AS (
		DELETE FROM dlq.unconfirmed_returns WHERE child_id = ANY (ARRAY(
			SELECT r.child_id FROM dlq.unconfirmed_returns r
			WHERE r.returned_at < coalesce($1::timestamptz, now()) - make_interval(days => $2)
			  AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = r.child_id)
			  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = r.child_id)
			LIMIT $3 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	purgeAuditQuery = `SELECT dlq.purge_audit($1, $2)`

	// Edits are deleted with their message, unless an older program that knows no edits deleted it. The query scans
	// all edits.
	purgeEditsQuery = `
	WITH gone AS (
		DELETE FROM dlq.edits WHERE ctid = ANY (ARRAY(
			SELECT e.ctid FROM dlq.edits e
			WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = e.message_id)
			  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = e.message_id)
			LIMIT $1 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	purgeGroupsQuery = `SELECT dlq.purge_groups($1, $2)`

	purgeArrivalsQuery = `SELECT dlq.purge_arrivals($1, $2)`
)

// minAuditDays is the minimum that dlq.purge_audit accepts, in days.
const minAuditDays = 365

const trendDays = int(repository.TrendLife / (24 * time.Hour))

// PurgeBookkeeping deletes rows that are kept for a limited time: idempotency keys after their life; ended redrives,
// and returns without an attempt, after redriveDays; audit entries after auditDays (at least 365); documents and
// edits without a message, and empty partitions of documents; hourly arrivals after repository.TrendLife; error
// groups that may be deleted (repository.Groups); archive runs after repository.ArchiveRunLife; ended sessions whose
// token has expired. It deletes at most batch rows a transaction (of redrives 10, with their batches) and returns how
// many rows. When one kind fails it continues with the others.
func (s *Store) PurgeBookkeeping(ctx context.Context, redriveDays, auditDays, batch int) (int64, error) {
	if redriveDays < 0 || auditDays < minAuditDays || batch < 1 {
		return 0, fmt.Errorf("purge bookkeeping: redrive days %d, audit days %d, batch %d", redriveDays, auditDays, batch)
	}
	var total int64
	var errs []error
	for _, kind := range []struct {
		where, query string
		args         []any
	}{
		{"purge idempotency keys", purgeKeysQuery, []any{s.clock(), repository.KeyLife.Microseconds(), batch}},
		{"purge redrives", purgeRedrivesQuery, []any{s.clock(), redriveDays, batch}},
		{"purge returns", purgeReturnsQuery, []any{s.clock(), redriveDays, batch}},
		{"purge unconfirmed returns", purgeUnconfirmedQuery, []any{s.clock(), redriveDays, batch}},
		{"purge the audit trail", purgeAuditQuery, []any{auditDays, batch}},
		{"purge documents of nothing", purgeStraysQuery, []any{batch}},
		{"purge edits of nothing", purgeEditsQuery, []any{batch}},
		{"purge error groups", purgeGroupsQuery, []any{trendDays, batch}},
		{"purge hourly arrivals", purgeArrivalsQuery, []any{trendDays, batch}},
		{"purge archive runs", purgeArchiveRunsQuery, []any{s.clock(), int(repository.ArchiveRunLife / (24 * time.Hour)), batch}},
		{"purge ended sessions", purgeSessionsQuery, []any{s.clock(), batch}},
	} {
		n, err := s.purge(ctx, kind.where, kind.query, kind.args...)
		total += n
		errs = append(errs, err)
		if ctx.Err() != nil {
			return total, errors.Join(errs...)
		}
	}
	var dropped int
	if err := s.selectOne(ctx, &dropped, `SELECT dlq.drop_document_partitions()`); err != nil {
		errs = append(errs, translate("drop partitions of the search index", err))
	}
	return total, errors.Join(errs...)
}

const keepArchiveRunQuery = `
	INSERT INTO dlq.archive_runs AS r (id, started_at, finished_at, result, moved, purged, bookkept, error)
	SELECT $2, CASE WHEN $3 <> 'running' THEN n.moment - $8::bigint * interval '1 microsecond' ELSE n.moment END,
		CASE WHEN $3 <> 'running' THEN n.moment END, $3, $4, $5, $6, $7
	FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) n
	ON CONFLICT (id) DO UPDATE SET finished_at = excluded.finished_at, result = excluded.result, moved = excluded.moved,
		purged = excluded.purged, bookkept = excluded.bookkept, error = excluded.error
	WHERE r.result = 'running'`

// KeepArchiveRun implements repository.ArchiveRuns.
func (s *Store) KeepArchiveRun(ctx context.Context, run repository.ArchiveRun) error {
	return translate("record an archive run", s.exec(ctx, keepArchiveRunQuery, s.clock(), run.ID, string(run.Result),
		run.Moved, run.Purged, run.Bookkept, repository.BoundArchiveError(clean(run.Error)), run.Took.Microseconds()))
}

const latestArchiveRunsQuery = `
	(SELECT true AS latest, r.* FROM dlq.archive_runs r ORDER BY r.started_at DESC, r.id DESC LIMIT 1)
	UNION ALL
	(SELECT false, r.* FROM dlq.archive_runs r WHERE r.result = 'complete' ORDER BY r.finished_at DESC, r.id DESC LIMIT 1)`

type archiveRunRow struct {
	Latest     bool         `db:"latest"`
	ID         uuid.UUID    `db:"id"`
	StartedAt  time.Time    `db:"started_at"`
	FinishedAt sql.NullTime `db:"finished_at"`
	Result     string       `db:"result"`
	Moved      int64        `db:"moved"`
	Purged     int64        `db:"purged"`
	Bookkept   int64        `db:"bookkept"`
	Error      string       `db:"error"`
}

// LatestArchiveRuns implements repository.ArchiveRuns.
func (s *Store) LatestArchiveRuns(ctx context.Context) (last, complete *repository.ArchiveRun, err error) {
	var found []archiveRunRow
	if err := s.selectRows(ctx, &found, latestArchiveRunsQuery); err != nil {
		return nil, nil, translate("read archive runs", err)
	}
	for _, r := range found {
		run := &repository.ArchiveRun{
			ID: r.ID, Result: repository.ArchiveResult(r.Result), StartedAt: entity.Moment(r.StartedAt), FinishedAt: moment(r.FinishedAt),
			Moved: r.Moved, Purged: r.Purged, Bookkept: r.Bookkept, Error: r.Error,
		}
		if r.Latest {
			last = run
		} else {
			complete = run
		}
	}
	return last, complete, nil
}

// purgeArchiveRunsQuery keeps the run that shows when the last success was.
const purgeArchiveRunsQuery = `
	WITH gone AS (
		DELETE FROM dlq.archive_runs WHERE id = ANY (ARRAY(
			SELECT id FROM dlq.archive_runs
			WHERE started_at < coalesce($1::timestamptz, now()) - make_interval(days => $2)
			  AND id IS DISTINCT FROM (
				SELECT c.id FROM dlq.archive_runs c WHERE c.result = 'complete' ORDER BY c.finished_at DESC, c.id DESC LIMIT 1)
			LIMIT $3 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`
