package insight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Bookkeeping deletes rows that are kept for a limited time.
type Bookkeeping struct{ db *conn.DB }

// NewBookkeeping returns Bookkeeping that sends its statements to db.
func NewBookkeeping(db *conn.DB) *Bookkeeping { return &Bookkeeping{db} }

// Queries that delete rows older than some period. $1 is the present time, or NULL to use the database's clock.
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

	// Deleting a redrive also deletes its batches; each batch is a row for some hundreds of messages.
	purgeRedrivesQuery = `
	WITH gone AS (
		DELETE FROM dlq.redrives WHERE id = ANY (ARRAY(
			SELECT id FROM dlq.redrives
			WHERE ended_at < coalesce($1::timestamptz, now()) - make_interval(days => $2)
			LIMIT least($3::int, 10) FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	// A return is deleted together with its attempt. But when the return was stored while its parent was being deleted,
	// its attempt is gone already. This query deletes such a return, because it proves nothing without the attempt.
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

	// This query deletes the row of an unconfirmed return when the message that is the return no longer exists.
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

	// The index of stored_at says only roughly where old rows are, and a further statement would read the places of deleted
	// rows again. So one statement deletes many batches; no other statement waits for it.
	purgeRecentQuery = `
	WITH gone AS (
		DELETE FROM dlq.recent_records WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM dlq.recent_records
			WHERE stored_at < coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
			LIMIT 100 * $3::bigint FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

	purgeGroupsQuery = `SELECT dlq.purge_groups($1, $2)`

	purgeArrivalsQuery = `SELECT dlq.purge_arrivals($1, $2)`
)

// purgeStrays returns a query that deletes rows of the table whose message_id is that of no message. It reads the whole
// table. Edits are deleted together with their message, unless an older version of a program, which does not know edits,
// deletes the message; repeats are always left.
func purgeStrays(table string) string {
	return `
	WITH gone AS (
		DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(
			SELECT r.ctid FROM ` + table + ` r
			WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = r.message_id)
			  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = r.message_id)
			LIMIT $1 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`
}

// minAuditDays is the minimum number of days that dlq.purge_audit accepts.
const minAuditDays = 365

const trendDays = int(repository.TrendLife / (24 * time.Hour))

// PurgeBookkeeping deletes rows that are kept for a limited time: idempotency keys after repository.KeyLife; ended
// redrives, returns without an attempt, and unconfirmed returns without a message, after redriveDays; audit entries
// after auditDays (at least 365); documents of messages that do not exist or are in an object, edits without a message,
// and empty partitions of documents; records of dead letters that are too old to have repeats, and repeats without a
// message; hourly arrivals after repository.TrendLife; error groups without messages (see repository.Groups); archive runs
// after repository.ArchiveRunLife; ended sessions whose token has expired; drafts of the console after a day. Each transaction deletes at most batch rows, or 10 redrives with their batches.
// PurgeBookkeeping returns the number of deleted rows. When the deletion of one kind of row fails, it continues with
// the others, unless ctx has ended.
func (s *Bookkeeping) PurgeBookkeeping(ctx context.Context, redriveDays, auditDays, batch int) (int64, error) {
	if redriveDays < 0 || auditDays < minAuditDays || batch < 1 {
		return 0, fmt.Errorf("purge bookkeeping: redrive days %d, audit days %d, batch %d", redriveDays, auditDays, batch)
	}
	var total int64
	var errs []error
	for _, kind := range []struct {
		where, query string
		args         []any
	}{
		{"purge idempotency keys", purgeKeysQuery, []any{s.db.Clock(), repository.KeyLife.Microseconds(), batch}},
		{"purge redrives", purgeRedrivesQuery, []any{s.db.Clock(), redriveDays, batch}},
		{"purge returns", purgeReturnsQuery, []any{s.db.Clock(), redriveDays, batch}},
		{"purge unconfirmed returns", purgeUnconfirmedQuery, []any{s.db.Clock(), redriveDays, batch}},
		{"purge the audit trail", purgeAuditQuery, []any{auditDays, batch}},
		{"purge documents of nothing", search.PurgeStraysQuery, []any{batch}},
		{"purge edits of nothing", purgeStrays("dlq.edits"), []any{batch}},
		{"purge recent records", purgeRecentQuery, []any{s.db.Clock(), entity.RepeatWindow.Microseconds(), batch}},
		{"purge repeats of nothing", purgeStrays("dlq.repeats"), []any{batch}},
		{"purge error groups", purgeGroupsQuery, []any{trendDays, batch}},
		{"purge hourly arrivals", purgeArrivalsQuery, []any{trendDays, batch}},
		{"purge archive runs", purgeArchiveRunsQuery, []any{s.db.Clock(), int(repository.ArchiveRunLife / (24 * time.Hour)), batch}},
		{"purge ended sessions", purgeSessionsQuery, []any{s.db.Clock(), batch}},
		{"purge drafts", purgeDraftsQuery, []any{s.db.Clock(), batch}},
	} {
		n, err := s.db.DeleteInBatches(ctx, kind.where, kind.query, kind.args...)
		total += n
		errs = append(errs, err)
		if ctx.Err() != nil {
			return total, errors.Join(errs...)
		}
	}
	var dropped int
	if err := s.db.GetUnprepared(ctx, &dropped, `SELECT dlq.drop_document_partitions()`); err != nil {
		errs = append(errs, conn.Translate("drop partitions of the search index", err))
	}
	return total, errors.Join(errs...)
}
