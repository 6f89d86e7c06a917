package messages

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Schedule finds messages whose next attempt is due, and counts messages whose attempt takes too long.
type Schedule struct{ db *conn.DB }

// NewSchedule returns a Schedule that sends its statements to db.
func NewSchedule(db *conn.DB) *Schedule { return &Schedule{db} }

// dueWalk is the maximum number of PENDING messages that one call of Due reads to find messages that were never
// attempted. The next call continues after them. The limit keeps the call short, some milliseconds, even when a million
// messages of topics without automatic retry come first.
const dueWalk = 1000

// dueQuery has two sources. Messages with earlier attempts come from an index by topic and due time. Messages that were
// never attempted come from a walk of at most dueWalk PENDING messages of all topics after the cursor, the oldest
// first. The last row of the result is the message at which the walk ended; it is missing when fewer than dueWalk
// messages were left. The walk reads, and then leaves out, messages whose original topic ($7) and dead-letter topic
// ($8) are a pair of DueQuery.Except, unless an operator has set the original topic, repeats, and messages of share
// groups whose record is not stored yet.
var dueQuery = `
	WITH excepted AS MATERIALIZED (
		SELECT e.original, t.id FROM unnest($7::text[], $8::text[]) AS e (original, dlq) JOIN dlq.topics t ON t.name = e.dlq
	), waited AS (
		SELECT w.id, w.created_at FROM (SELECT DISTINCT unnest($1::text[]) AS topic) t CROSS JOIN LATERAL (
			SELECT m.id, m.created_at, m.next_attempt_at FROM dlq.dlq_messages m
			WHERE m.status = 'PENDING' AND m.original_topic = t.topic AND m.next_attempt_at IS NOT NULL
			  AND m.next_attempt_at <= coalesce($2::timestamptz, now()) AND m.retry_count < m.max_retries AND NOT ` + codec.LacksRecord("m") + ` AND NOT ` + codec.IsRepeat("m") + `
			  AND (m.origin_confidence IS DISTINCT FROM 'operator'
			       AND (m.original_topic, m.dlq_topic_id) IN (SELECT original, id FROM excepted)) IS NOT TRUE
			ORDER BY m.next_attempt_at LIMIT $5
		) w
		ORDER BY w.next_attempt_at LIMIT $5
	), walked AS MATERIALIZED (
		SELECT id, created_at, original_topic = ANY ($1::text[]) AND next_attempt_at IS NULL AND retry_count < max_retries AND NOT ` + codec.LacksRecord("m") + ` AND NOT ` + codec.IsRepeat("m") + `
			AND (origin_confidence IS DISTINCT FROM 'operator'
			     AND (original_topic, dlq_topic_id) IN (SELECT original, id FROM excepted)) IS NOT TRUE AS fits
		FROM dlq.dlq_messages m
		WHERE status = 'PENDING' AND (created_at, id) > (coalesce($3::timestamptz, '-infinity'), $4::uuid)
		ORDER BY created_at, id LIMIT $6
	)
	(SELECT 'waited' AS source, id, created_at FROM waited)
	UNION ALL
	(SELECT 'fresh', id, created_at FROM walked WHERE fits ORDER BY created_at, id LIMIT $5)
	UNION ALL
	(SELECT 'end', id, created_at FROM walked ORDER BY created_at, id OFFSET $6 - 1)`

type dueRow struct {
	Source    string    `db:"source"`
	ID        uuid.UUID `db:"id"`
	CreatedAt time.Time `db:"created_at"`
}

func (r *dueRow) cursor() repository.Cursor {
	return repository.Cursor{CreatedAt: entity.TruncateTime(r.CreatedAt), ID: r.ID}
}

// Due implements repository.Attempts. Of the messages with earlier attempts, it considers the q.Limit that have been
// due longest.
func (s *Schedule) Due(ctx context.Context, q repository.DueQuery) ([]uuid.UUID, repository.Cursor, error) {
	if len(q.Topics) == 0 || q.Limit < 1 {
		return nil, repository.Cursor{}, nil
	}
	topics := codec.NewArray(codec.OIDText, len(q.Topics), 24)
	for _, t := range q.Topics {
		topics.Text(t)
	}
	originals, dlqs := codec.NewArray(codec.OIDText, len(q.Except), 24), codec.NewArray(codec.OIDText, len(q.Except), 24)
	for _, pair := range q.Except {
		originals.Text(pair.Original)
		dlqs.Text(pair.DLQ)
	}
	after := sql.NullTime{Time: q.After.CreatedAt, Valid: !q.After.CreatedAt.IsZero()}
	var found []dueRow
	if err := s.db.Select(ctx, &found, dueQuery, topics.Arg(), s.db.Clock(), after, q.After.ID, q.Limit, dueWalk, originals.Arg(), dlqs.Arg()); err != nil {
		return nil, repository.Cursor{}, conn.Translate("find due messages", err)
	}
	ids, next := mergeDue(found, q)
	return ids, next, nil
}

// mergeDue merges the messages of both sources of dueQuery in the order of created_at, up to the limit. next is the
// cursor at which the walk of the next call begins: the end of this walk or, if the limit may have left out messages
// that were never attempted, the last of them that is returned (q.After when none is).
func mergeDue(found []dueRow, q repository.DueQuery) (ids []uuid.UUID, next repository.Cursor) {
	var due []dueRow
	met := 0
	for _, r := range found {
		switch r.Source {
		case "end":
			next = r.cursor()
			continue
		case "fresh":
			met++
		}
		due = append(due, r)
	}
	slices.SortFunc(due, func(a, b dueRow) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	last, returned := q.After, 0
	for _, r := range due[:min(q.Limit, len(due))] {
		ids = append(ids, r.ID)
		if r.Source == "fresh" {
			returned++
			last = r.cursor()
		}
	}
	if returned < met || met == q.Limit {
		next = last
	}
	return ids, next
}

// stuckQuery uses the index of statuses, because only few messages are RETRYING at any time.
const stuckQuery = `
	SELECT count(*) FROM dlq.dlq_messages
	WHERE status = 'RETRYING'
	  AND coalesce(last_retry_at, '-infinity') < coalesce($1::timestamptz, clock_timestamp()) - $2::bigint * interval '1 microsecond'`

// Stuck implements repository.Attempts.
func (s *Schedule) Stuck(ctx context.Context, age time.Duration) (int64, error) {
	var found []int64
	if err := s.db.Select(ctx, &found, stuckQuery, s.db.Clock(), age.Microseconds()); err != nil {
		return 0, conn.Translate("count stuck messages", err)
	}
	return found[0], nil
}
