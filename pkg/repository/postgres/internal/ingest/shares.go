package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Shares implements repository.Shares.
type Shares struct {
	db         *conn.DB
	returns    returns
	projection projection
}

// NewShares returns Shares that send their statements to db. The column payload is filled in the given mode, for values
// of at most limit bytes.
func NewShares(db *conn.DB, mode PayloadMode, limit int) *Shares {
	return &Shares{db, returns{db}, projection{mode, limit}}
}

// takePointersQuery leases rows of dlq.share_records that are due: at most $2 rows, and no further row when the headers
// of the leased rows' messages have $4 bytes. Rows that were never tried come first, because rows that failed may fail
// again. When the message of a row is not live, the row is not due again until the message is restored.
const takePointersQuery = `
	WITH moment AS MATERIALIZED (
		SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment
	), fresh AS MATERIALIZED (
		SELECT s.message_id, s.due_at FROM dlq.share_records s
		WHERE s.tries = 0 AND s.due_at <= (SELECT moment FROM moment) ORDER BY s.due_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED
	), again AS MATERIALIZED (
		SELECT s.message_id, s.due_at FROM dlq.share_records s
		WHERE s.tries > 0 AND s.due_at <= (SELECT moment FROM moment) ORDER BY s.due_at
		LIMIT $2 - (SELECT count(*) FROM fresh) FOR UPDATE OF s SKIP LOCKED
	), sized AS MATERIALIZED (
		SELECT d.message_id, n.moment, sum(octet_length(r.headers)) OVER (
			ORDER BY d.part, d.due_at, d.message_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
		FROM (SELECT 1 AS part, * FROM fresh UNION ALL SELECT 2, * FROM again) d CROSS JOIN moment n
		LEFT JOIN dlq.records r ON r.message_id = d.message_id
	), taken AS (
		UPDATE dlq.share_records s SET tries = s.tries + 1,
			due_at = CASE WHEN EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = s.message_id) THEN d.moment + $3::bigint * interval '1 microsecond' END
		FROM sized d WHERE s.message_id = d.message_id AND coalesce(d.before, 0) < $4 RETURNING s.message_id, s.tries - 1 AS tries, s.digest, s.last_death,
			extract(epoch FROM d.moment - s.reason_at)::float8 AS reason_age
	)
	SELECT x.tries, x.digest, x.last_death, coalesce(x.reason_age, 0) AS reason_age, `

type pointerRow struct {
	Tries     int          `db:"tries"`
	Digest    []byte       `db:"digest"`
	LastDeath sql.NullTime `db:"last_death"`
	ReasonAge float64      `db:"reason_age"` // in seconds
	codec.Row
}

// TakePointers implements repository.Shares. It also calls indexAgain for completed messages that are still due,
// because the process that completed them did not get to call indexAgain.
func (s *Shares) TakePointers(ctx context.Context, limit int, maxBytes int64, lease time.Duration) ([]repository.Pointer, error) {
	var found []pointerRow
	query := takePointersQuery + codec.StateColumns + `, ` + codec.ByteColumnsWith(codec.KeyUpTo("0"), "0::bigint", codec.HeadersUpTo("-1")) + `
		FROM taken x JOIN dlq.messages m ON m.id = x.message_id LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`
	if err := s.db.Select(ctx, &found, query, s.db.Clock(), limit, lease.Microseconds(), maxBytes); err != nil {
		return nil, conn.Translate("take pointers", err)
	}
	pointers := make([]repository.Pointer, 0, len(found))
	var completed []uuid.UUID
	for i := range found {
		m, err := found[i].MessageWithBytes()
		switch {
		case err != nil:
			return nil, conn.Translate("take pointers", err)
		case m.Share == nil: // the message was deleted since the row was leased
		case m.Record.Completed:
			completed = append(completed, m.ID)
		default:
			m.Share.Digest = found[i].Digest
			pointers = append(pointers, repository.Pointer{
				Message: m, Tries: found[i].Tries, LastDeath: codec.TimeOf(found[i].LastDeath),
				ReasonAge: time.Duration(found[i].ReasonAge * float64(time.Second)),
			})
		}
	}
	return pointers, conn.Translate("take pointers", s.indexAgain(ctx, completed))
}

// completeQuery stores the records to which the pointers of messages point. The caller must then call indexAgain; until
// it has done so, the rows of dlq.share_records stay due.
//
// A message that is a return continues the retry count of its parent. Attempts that were made on the message before its
// record was stored, and sent an edit, are added to that count. A message that became final, or is claimed, keeps its
// status and its retry count.
//
// The table dlq.activity counts a message when its first document is stored. If the message's record was not stored
// then, it was not counted as a return, and storeDocumentsQuery has set share_records.counted; this query then counts
// the return. It reads counted from the row that it has locked. Its snapshot does not contain a document that was
// stored while it waited for this lock.
var completeQuery = `
	WITH x AS MATERIALIZED (
		SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS note, unnest($3::timestamptz[]) AS original_timestamp,
			unnest($4::int8[]) AS record_hash, unnest($5::uuid[]) AS parent_id, unnest($6::uuid[]) AS root_id,
			unnest($7::int4[]) AS parent_count
	), held AS MATERIALIZED (
		SELECT m.id, m.max_retries, m.parent_id, m.retry_count, m.status FROM dlq.dlq_messages m WHERE m.id = ANY ($1::uuid[])
		ORDER BY m.id FOR NO KEY UPDATE
	), taken AS (
		UPDATE dlq.share_records s SET state = 'completed', reason = NULL,
			due_at = coalesce($8::timestamptz, clock_timestamp()) + $9::bigint * interval '1 microsecond'
		FROM held h WHERE s.message_id = h.id AND s.state <> 'completed' RETURNING s.message_id AS id, s.counted
	), bytes AS (
		UPDATE dlq.records r SET key = b.key, headers = b.headers, value = b.value
		FROM (SELECT unnest($1::uuid[]) AS id, unnest($10::bytea[]) AS key, unnest($11::bytea[]) AS headers, unnest($12::bytea[]) AS value) b
		JOIN taken USING (id) WHERE r.message_id = b.id
	), record AS MATERIALIZED (
		SELECT x.id, x.note, x.original_timestamp, x.record_hash, h.max_retries, x.parent_id, x.root_id, n.retry_count, taken.counted,
			CASE WHEN x.parent_id IS NOT NULL AND h.status = 'PENDING' AND n.retry_count >= h.max_retries THEN 'DEAD' ELSE h.status END AS status
		FROM x JOIN held h USING (id) JOIN taken USING (id) CROSS JOIN LATERAL (
			SELECT CASE WHEN x.parent_id IS NOT NULL AND h.status = 'PENDING' THEN h.retry_count + x.parent_count ELSE h.retry_count END AS retry_count
		) n
	), stored AS (
		UPDATE dlq.dlq_messages m SET original_timestamp = coalesce(r.original_timestamp, m.original_timestamp),
			record_hash = r.record_hash, payload_note = r.note, parent_id = coalesce(r.parent_id, m.parent_id),
			root_id = coalesce(r.root_id, m.root_id), retry_count = r.retry_count, status = r.status
		FROM record r WHERE m.id = r.id
	), counted AS (
		INSERT INTO dlq.activity AS a (original_topic, minutes, at, arrived, returned)
		SELECT m.original_topic, l.minutes, n.at, 0, count(*)
		FROM record r JOIN dlq.dlq_messages m ON m.id = r.id CROSS JOIN (VALUES ` + activityLives + `) AS l (minutes, life)
		CROSS JOIN LATERAL (SELECT date_bin(l.minutes * interval '1 minute', m.created_at, 'epoch') AS at) n
		WHERE r.parent_id IS NOT NULL AND r.counted AND n.at >= coalesce($8::timestamptz, clock_timestamp()) - l.life
		GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
		ON CONFLICT (original_topic, minutes, at) DO UPDATE SET returned = a.returned + excluded.returned
	), queued AS (
		INSERT INTO dlq.payload_queue (message_ids, messages)
		SELECT array_agg(id), count(*) FROM record WHERE note = '` + notePending + `' HAVING count(*) > 0
	)` + placed(returnSteps, 8, 13) + `
	SELECT id, retry_count, status FROM record`

// activityLives lists the step lengths of dlq.activity in minutes, each with the time for which its rows are kept.
var activityLives = fmt.Sprintf(`(1::smallint, interval '%d s'), (5::smallint, interval '%d s'), (60::smallint, interval '%d s')`,
	int(repository.ArrivalsMinuteLife.Seconds()), int(repository.FineArrivalsLife.Seconds()), int(repository.ArrivalsLife.Seconds()))

// completedRow is a message whose record completeQuery has stored.
type completedRow struct {
	ID         uuid.UUID     `db:"id"`
	RetryCount int           `db:"retry_count"`
	Status     entity.Status `db:"status"`
}

// indexAgainQuery makes the indexer index completed messages again. It finds all documents that were stored before
// their message was completed, because storeDocumentsQuery waits until completeQuery has ended.
const indexAgainQuery = `
	WITH done AS (
		UPDATE dlq.share_records SET due_at = NULL WHERE message_id = ANY ($1::uuid[]) AND state = 'completed' RETURNING message_id
	), old AS (
		UPDATE dlq.message_documents d SET version = -1
		FROM done JOIN dlq.dlq_messages m ON m.id = done.message_id
		WHERE d.message_id = m.id AND d.created_at = m.created_at RETURNING d.message_id
	)
	INSERT INTO dlq.late_messages (message_id) SELECT message_id FROM old ORDER BY 1 ON CONFLICT DO NOTHING`

func (s *Shares) indexAgain(ctx context.Context, completed []uuid.UUID) error {
	if len(completed) == 0 {
		return nil
	}
	return s.db.Exec(ctx, indexAgainQuery, codec.UUIDArray(completed))
}

const saveStatesQuery = `
	UPDATE dlq.share_records s SET state = x.state, reason = x.reason, tries = s.tries - x.untried,
		reason_at = CASE WHEN s.reason IS NOT DISTINCT FROM x.reason THEN s.reason_at ELSE coalesce($5::timestamptz, clock_timestamp()) END,
		due_at = CASE WHEN x.again > 0 THEN coalesce($5::timestamptz, clock_timestamp()) + x.again * interval '1 microsecond' END
	FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int8[], $6::int4[]) AS x (id, state, reason, again, untried)
	WHERE s.message_id = x.id AND s.state <> 'completed'`

// SaveCompletions implements repository.Shares.
func (s *Shares) SaveCompletions(
	ctx context.Context, done []repository.Completion, declared func(*entity.Message) bool,
) ([]repository.Arrival, error) {
	var read, others []repository.Completion
	for _, c := range done {
		if c.State == entity.Completed {
			read = append(read, c)
		} else {
			others = append(others, c)
		}
	}
	if err := s.saveStates(ctx, others); err != nil || len(read) == 0 {
		return nil, conn.Translate("save completions", err)
	}
	var all []repository.Arrival
	for len(read) > 0 {
		first, rest := withoutParents(read)
		arrivals, err := s.completeUntil(ctx, first, declared)
		if all = append(all, arrivals...); err != nil {
			return all, conn.Translate("save completions", err)
		}
		read = rest
	}
	return all, nil
}

// withoutParents returns as first the completions that one statement may store together, and as rest all others. A
// statement must not change the row of a message twice: as the message whose record is stored, and as the parent of a
// return.
func withoutParents(read []repository.Completion) (first, rest []repository.Completion) {
	ids := make(map[uuid.UUID]bool, len(read))
	for _, c := range read {
		ids[c.Message.ID] = true
	}
	for _, c := range read {
		if back := c.Message.Return; back != nil && ids[back.Parent] {
			rest = append(rest, c)
		} else {
			first = append(first, c)
		}
	}
	if len(first) == 0 { // headers may name any message, so each completion may name another one as its parent
		return rest[:1], rest[1:]
	}
	return first, rest
}

func (s *Shares) completeUntil(
	ctx context.Context, read []repository.Completion, declared func(*entity.Message) bool,
) ([]repository.Arrival, error) {
	for range storeTries {
		arrivals, err := s.complete(ctx, read, declared)
		if !takenMeanwhile(err) {
			return arrivals, err
		}
	}
	return nil, entity.ErrContended
}

func (s *Shares) saveStates(ctx context.Context, all []repository.Completion) error {
	if len(all) == 0 {
		return nil
	}
	n := len(all)
	ids, states := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 8)
	reasons, again := codec.NewArray(codec.OIDText, n, 64), codec.NewArray(codec.OIDInt8, n, 8)
	untried := codec.NewArray(codec.OIDInt4, n, 4)
	for _, c := range all {
		ids.UUID(c.Message.ID)
		states.Text(string(c.State))
		reasons.OptionalText(codec.Clean(c.Reason))
		again.Int64(c.Again.Microseconds())
		if c.Untried {
			untried.Int32(1)
		} else {
			untried.Int32(0)
		}
	}
	return s.db.Exec(ctx, saveStatesQuery, ids.Arg(), states.Arg(), reasons.Arg(), again.Arg(), s.db.Clock(), untried.Arg())
}

// completionLease is the time that a process has after completeQuery to call indexAgain; after it, another process may
// do so.
const completionLease = 30 * time.Second

func (s *Shares) complete(
	ctx context.Context, read []repository.Completion, declared func(*entity.Message) bool,
) ([]repository.Arrival, error) {
	batch := repository.Batch{Declared: declared, Messages: make([]entity.Message, len(read))}
	for i, c := range read {
		m := c.Message
		if m.Parent != uuid.Nil {
			m.Return = nil
		}
		batch.Messages[i] = m
	}
	in := incoming{Batch: batch, prepared: &prepared{}}
	var err error
	if in.Messages, in.back, err = s.returns.withParents(ctx, batch, nil); err != nil {
		return nil, err
	}
	var stored []completedRow
	args := append(s.completionArgs(in.Messages, read), returnArgs(in)...)
	if err := s.db.Select(ctx, &stored, completeQuery, args...); err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(stored))
	rows := make(map[uuid.UUID]completedRow, len(stored))
	for i, row := range stored {
		ids[i], rows[row.ID] = row.ID, row
	}
	if err := s.indexAgain(ctx, ids); err != nil {
		return nil, err
	}
	return in.arrivalsOf(func(m *entity.Message) bool {
		row, found := rows[m.ID]
		m.RetryCount, m.Status = row.RetryCount, row.Status
		return found
	}), nil
}

func (s *Shares) completionArgs(messages []entity.Message, read []repository.Completion) []any {
	n, bytes := len(read), 0
	for i := range read {
		bytes += len(read[i].Record.Value)
	}
	size := bytes/max(n, 1) + 1 // the average size of a value; NewArray reserves memory for n values of this size
	ids, notes := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 8)
	times, hashes := codec.NewArray(codec.OIDTimestamptz, n, 8), codec.NewArray(codec.OIDInt8, n, 8)
	parents, roots := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16)
	counts := codec.NewArray(codec.OIDInt4, n, 4)
	keys, headers, values := codec.NewArray(codec.OIDBytea, n, 64), codec.NewArray(codec.OIDBytea, n, 256), codec.NewArray(codec.OIDBytea, n, size)
	for i, c := range read {
		m := &messages[i]
		ids.UUID(m.ID)
		notes.OptionalText(s.note(c))
		times.Time(c.Timestamp)
		optionalHash(hashes, entity.RecordHash(c.Record.Key, c.Record.Value))
		if c.Message.Parent == uuid.Nil {
			parents.OptionalUUID(m.Parent)
			roots.OptionalUUID(m.Root)
		} else { // the headers of the dead letter have named the parent already, so it does not change
			parents.Null()
			roots.Null()
		}
		counts.Int32(int32(m.RetryCount))
		keys.Bytes(c.Record.Key)
		headers.Headers(append(c.Record.Headers[:len(c.Record.Headers):len(c.Record.Headers)], m.Record.Headers...))
		values.Bytes(c.Record.Value)
	}
	return []any{
		ids.Arg(), notes.Arg(), times.Arg(), hashes.Arg(), parents.Arg(), roots.Arg(), counts.Arg(),
		s.db.Clock(), completionLease.Microseconds(), keys.Arg(), headers.Arg(), values.Arg(),
	}
}

// note returns the reason why the message has no payload; notePending when FillPayloads fills the payload later, ""
// when the record has no value.
func (s *Shares) note(c repository.Completion) string {
	m := c.Message
	m.Record = c.Record
	if note := s.projection.note(&m); note != "" || c.Record.Value == nil {
		return note
	}
	return notePending
}

// CountPointers implements repository.Shares.
func (s *Shares) CountPointers(ctx context.Context, removed map[string]time.Time) ([]repository.PointerCount, error) {
	topics, times := codec.NewArray(codec.OIDText, len(removed), 24), codec.NewArray(codec.OIDTimestamptz, len(removed), 8)
	for topic, at := range removed {
		topics.Text(topic)
		times.Time(at)
	}
	var found []struct {
		Topic  string       `db:"original_topic"`
		State  string       `db:"state"`
		Count  int64        `db:"messages"`
		Oldest sql.NullTime `db:"oldest"`
	}
	err := s.db.Select(ctx, &found, `
		SELECT m.original_topic, s.state, count(*) AS messages,
			min(m.dlq_timestamp) FILTER (WHERE s.state = 'waiting' OR x.removed IS NULL OR m.dlq_timestamp > x.removed) AS oldest
		FROM dlq.share_records s JOIN dlq.dlq_messages m ON m.id = s.message_id
		LEFT JOIN unnest($1::text[], $2::timestamptz[]) AS x (topic, removed) ON x.topic = m.original_topic
		WHERE s.state IN ('waiting', 'refused') GROUP BY 1, 2 ORDER BY 1, 2`, topics.Arg(), times.Arg())
	counts := make([]repository.PointerCount, len(found))
	for i, f := range found {
		counts[i] = repository.PointerCount{Topic: f.Topic, State: entity.Completion(f.State), Count: f.Count, OldestDeath: codec.TimeOf(f.Oldest)}
	}
	return counts, conn.Translate("count pointers", err)
}

// ForgetPointers implements repository.Shares. It keeps the rows of archived messages, even when their record is in an
// object and no longer in the database.
func (s *Shares) ForgetPointers(ctx context.Context, limit int) (int, error) {
	var gone []uuid.UUID
	err := s.db.Select(ctx, &gone, `
		DELETE FROM dlq.share_records WHERE message_id = ANY (ARRAY(
			SELECT s.message_id FROM dlq.share_records s
			WHERE NOT EXISTS (SELECT FROM dlq.records r WHERE r.message_id = s.message_id)
			  AND NOT EXISTS (SELECT FROM dlq.archive_ids a WHERE a.id = s.message_id) LIMIT $1))
		RETURNING message_id`, limit)
	return len(gone), conn.Translate("forget pointers", err)
}
