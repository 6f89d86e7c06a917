package postgres

import (
	"context"
	"fmt"
	"strconv"
)

// archiveLock is the advisory lock that keeps archivers apart. The number is the
// product's own.
const archiveLock = 0x646c71617263 // "dlqarc"

// TryLock takes the lock of the archiver; ok is false when another holds it. The
// lock goes with its connection, so a process that dies leaves none behind.
func (s *Store) TryLock(ctx context.Context) (unlock func(), ok bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, false, translate("lock the archive", err)
	}
	if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(archiveLock)).Scan(&ok); err != nil || !ok {
		_ = conn.Close()
		return nil, false, translate("lock the archive", err)
	}
	return func() {
		// A cancelled caller still unlocks; where that fails the connection is
		// broken, and its lock went with it.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(archiveLock))
		_ = conn.Close()
	}, true, nil
}

// ArchiveOld moves final messages that last changed longer than days ago into
// the archive, batch rows a transaction, and says how many. Rows that somebody
// has locked are left for the next run. When ctx ends, what was moved stays
// moved.
func (s *Store) ArchiveOld(ctx context.Context, days, batch int) (int64, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return 0, translate("archive messages", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, `CALL dlq.archive_old_dlq_messages($1, $2)`, days, batch); err != nil {
		return 0, translate("archive messages", err)
	}
	var moved string
	if err := conn.QueryRowContext(ctx, `SELECT current_setting('dlq.archived')`).Scan(&moved); err != nil {
		return 0, translate("archive messages", err)
	}
	n, err := strconv.ParseInt(moved, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("archive messages: count %q: %w", moved, err)
	}
	return n, nil
}

const purgeQuery = `
	WITH gone AS (
		DELETE FROM dlq.dlq_messages_archive WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM dlq.dlq_messages_archive
			WHERE archived_at < now() - make_interval(days => $1)
			ORDER BY archived_at LIMIT $2 FOR UPDATE SKIP LOCKED))
		RETURNING id
	), history AS (
		DELETE FROM dlq.attempts a USING gone WHERE a.message_id = gone.id
	)
	SELECT count(*) FROM gone`

// PurgeArchive deletes for good what has been in the archive longer than days,
// with its attempts, batch rows a transaction, and says how many.
func (s *Store) PurgeArchive(ctx context.Context, days, batch int) (int64, error) {
	if days < 0 || batch < 1 {
		return 0, fmt.Errorf("purge the archive: days %d, batch %d", days, batch)
	}
	var total int64
	for {
		var n int64
		if err := s.db.QueryRowContext(ctx, purgeQuery, days, batch).Scan(&n); err != nil {
			return total, translate("purge the archive", err)
		}
		if total += n; n == 0 {
			return total, nil
		}
	}
}

// PurgeBookkeeping deletes bookkeeping that has had its time. There is none yet
// that outlives its message.
func (s *Store) PurgeBookkeeping(context.Context, int) (int64, error) { return 0, nil }
