package messages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Archive moves messages to the archive, and reads, restores, erases and purges archived messages.
type Archive struct {
	db       *conn.DB
	messages *Messages
}

// NewArchive returns an Archive that sends its statements to db.
func NewArchive(db *conn.DB, messages *Messages) *Archive { return &Archive{db, messages} }

// archiveLock is the number of the advisory lock that allows only one archiver to run at a time. Other products that
// use the same database are unlikely to use this number.
const archiveLock = 0x646c71617263 // "dlqarc"

// TryLock takes the archiver's lock. ok is false when another archiver has the lock. The lock ends with its connection,
// so a process that dies leaves no lock.
func (s *Archive) TryLock(ctx context.Context) (unlock func(), ok bool, err error) {
	connection, err := s.db.Pool.Conn(ctx)
	if err != nil {
		return nil, false, conn.Translate("lock the archive", err)
	}
	if err := connection.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(archiveLock)).Scan(&ok); err != nil || !ok {
		_ = connection.Close()
		return nil, false, conn.Translate("lock the archive", err)
	}
	return func() {
		// The lock is released even when the caller was cancelled. If this statement fails, the connection is broken,
		// and the lock has ended with it.
		_, _ = connection.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(archiveLock))
		_ = connection.Close()
	}, true, nil
}

// ArchiveOld moves to the archive the messages in a final state that have not changed for the given number of days.
// Each transaction moves at most batch messages. ArchiveOld returns the number of moved messages. It leaves locked
// messages for the next run. When ctx ends or a batch fails, the messages of earlier batches stay in the archive and
// are counted. When the connection is lost, these messages stay in the archive as well, but the returned number is too
// low.
func (s *Archive) ArchiveOld(ctx context.Context, days, batch int) (int64, error) {
	connection, err := s.db.Pool.Conn(ctx)
	if err != nil {
		return 0, conn.Translate("archive messages", err)
	}
	defer func() { _ = connection.Close() }()
	var total int64
	err = conn.Retry(ctx, func() error { // the messages that a failed call has moved stay in the archive, so they are counted
		n, err := s.archiveOnce(ctx, connection, days, batch)
		total += n
		return err
	})
	return total, conn.Translate("archive messages", err)
}

// archiveOnce calls the archive procedure once, and returns the number of messages that it has moved.
func (s *Archive) archiveOnce(ctx context.Context, connection *sql.Conn, days, batch int) (int64, error) {
	var session int
	// The count of moved messages is set to 0 first. Otherwise, if this call fails at once, the count of an earlier
	// call in the same session would be read.
	if err := connection.QueryRowContext(ctx, `SELECT pg_backend_pid() FROM set_config('dlq.archived', '0', false)`).Scan(&session); err != nil {
		return 0, err
	}
	failed := s.callArchive(ctx, connection, session, days, batch)
	n, err := archived(ctx, connection)
	if failed != nil { // when the call has failed, an error of archived is probably a consequence of that
		return n, failed
	}
	return n, err
}

// callArchive calls the archive procedure once and waits for its end. When ctx ends, it asks the server to cancel the
// call. With ctx itself, the driver would close the connection, and the count of moved messages would be lost, because
// it is stored in the session.
func (s *Archive) callArchive(ctx context.Context, connection *sql.Conn, session, days, batch int) error {
	detached, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	ended := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() {
		select {
		case <-ended:
		case <-ctx.Done():
			s.stopSession(detached, session, ended)
			abandon()
		}
	})
	_, err := connection.ExecContext(detached, `CALL dlq.archive_old_dlq_messages($1, $2)`, days, batch)
	close(ended)
	stopping.Wait()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// stopTimeout is the time in which a cancelled call of the archive procedure must end; otherwise its connection is
// closed. The count of moved messages must be read within the same time.
const stopTimeout = 2 * time.Second

// stopSession cancels the statement of a session, again and again until the statement has ended, for at most
// stopTimeout.
func (s *Archive) stopSession(ctx context.Context, session int, ended <-chan struct{}) {
	bounded, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for { // repeated, because a cancellation that arrives before the statement begins has no effect
		_, err := s.db.Pool.ExecContext(bounded, `SELECT pg_cancel_backend($1)`, session)
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

// archived returns the number of messages that the last call of the archive procedure in this session has moved. The
// procedure stores this number after every batch.
func archived(ctx context.Context, connection *sql.Conn) (int64, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
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

// PurgeQuery deletes at most $2 messages that have been in the archive for longer than $1 days. Both the SELECT and the
// DELETE contain the cut-off time, so that neither of them reads partitions with later times.
const PurgeQuery = `
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

// CreatePartitions creates the partitions of the archive that are missing: that of the present quarter, and those of
// the given number of quarters after it. It returns the number of new partitions.
func (s *Archive) CreatePartitions(ctx context.Context, ahead int) (made int64, err error) {
	err = s.db.GetUnprepared(ctx, &made, `SELECT dlq.create_archive_partitions($1)`, ahead)
	return made, conn.Translate("create partitions of the archive", err)
}

// PurgePartitions detaches the partitions whose messages have all been in the archive for longer than days. Like
// PurgeArchive, it then deletes the rows of other tables that belong to these messages. It returns the number of
// deleted messages. It does not detach partitions that other sessions are reading; the next call detaches them. It also
// completes the work of an earlier call that was interrupted.
func (s *Archive) PurgePartitions(ctx context.Context, days, batch int) (int64, error) {
	if days < 0 || batch < 1 {
		return 0, fmt.Errorf("purge partitions of the archive: days %d, batch %d", days, batch)
	}
	var taken int64
	err := s.db.GetUnprepared(ctx, &taken, `SELECT dlq.detach_archive_partitions($1)`, days)
	total, purged := s.db.DeleteInBatches(ctx, "purge partitions of the archive", `SELECT dlq.purge_detached($1)`, batch)
	return total, errors.Join(conn.Translate("detach partitions of the archive", err), purged)
}

// PurgeArchive deletes messages that have been in the archive for longer than days, with their attempts, edits and
// returns. Each transaction deletes at most batch messages. PurgeArchive returns the number of deleted messages.
func (s *Archive) PurgeArchive(ctx context.Context, days, batch int) (int64, error) {
	if days < 0 || batch < 1 {
		return 0, fmt.Errorf("purge the archive: days %d, batch %d", days, batch)
	}
	return s.db.DeleteInBatches(ctx, "purge the archive", PurgeQuery, days, batch)
}
