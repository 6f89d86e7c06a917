package objects

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
)

// Reader finds archive objects, converts their rows to messages, and restores and erases these messages.
type Reader struct {
	db       *conn.DB
	messages *messages.Messages
}

// NewReader returns a Reader that sends its statements to db.
func NewReader(db *conn.DB, m *messages.Messages) *Reader { return &Reader{db, m} }

// objectQuery selects entries of the manifest, each with its topics and hidden messages, from one snapshot.
const objectQuery = `
	SELECT o.id, o.object_key, o.bucket, o.day::text AS day, o.messages, o.bytes, o.sha256, o.first_id, o.last_id,
		o.first_created_at, o.last_created_at, o.first_archived_at, o.last_archived_at,
		coalesce((SELECT json_agg(t) FROM dlq.archive_object_topics t WHERE t.object_id = o.id AND t.messages > 0), '[]')::text AS topics,
		CASE WHEN o.hidden = 0 THEN '[]' ELSE
			coalesce((SELECT json_agg(h.message_id) FROM dlq.archive_hidden h WHERE h.object_id = o.id), '[]')::text END AS hidden
	FROM dlq.archive_objects o`

func find(ctx context.Context, db *conn.DB, doing, query string, args ...any) ([]repository.ArchiveObject, error) {
	var found []struct {
		repository.ArchiveObject
		TopicsText string `db:"topics"`
		HiddenText string `db:"hidden"`
	}
	if err := db.Select(ctx, &found, query, args...); err != nil {
		return nil, conn.Translate(doing, err)
	}
	objects := make([]repository.ArchiveObject, len(found))
	for i, f := range found {
		objects[i] = f.ArchiveObject
		if err := json.Unmarshal([]byte(f.TopicsText), &objects[i].Topics); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		if err := json.Unmarshal([]byte(f.HiddenText), &objects[i].Hidden); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	return objects, nil
}

// FindObject returns the object that contains an archived message; ok is false when no object contains it.
func (s *Reader) FindObject(ctx context.Context, id uuid.UUID) (o repository.ArchiveObject, ok bool, err error) {
	found, err := find(ctx, s.db, "find the object of a message", objectQuery+`
		JOIN dlq.archive_ids kept ON kept.object_id = o.id WHERE kept.id = $1 AND o.purged_at IS NULL`, id)
	if err != nil || len(found) == 0 {
		return repository.ArchiveObject{}, false, err
	}
	return found[0], true, nil
}

// ObjectsOf returns, by the id of an object, those of the given messages that are in this object.
func (s *Reader) ObjectsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID][]uuid.UUID, error) {
	var found []struct {
		Message uuid.UUID `db:"id"`
		Object  uuid.UUID `db:"object_id"`
	}
	err := s.db.Select(ctx, &found, `SELECT id, object_id FROM dlq.archive_ids WHERE id = ANY ($1::uuid[]) AND object_id IS NOT NULL`,
		codec.UUIDArray(ids))
	objects := map[uuid.UUID][]uuid.UUID{}
	for _, f := range found {
		objects[f.Object] = append(objects[f.Object], f.Message)
	}
	return objects, conn.Translate("find the objects of messages", err)
}

// HasObjects reports whether the manifest contains an object that is not purged.
func (s *Reader) HasObjects(ctx context.Context) (bool, error) {
	var has []bool
	err := s.db.Select(ctx, &has, `SELECT EXISTS (SELECT FROM dlq.archive_objects WHERE purged_at IS NULL)`)
	return len(has) > 0 && has[0], conn.Translate("find objects of the archive", err)
}

// HidingObjects returns the objects that still contain a message which is marked as hidden in them, because it left the
// archive.
func (s *Reader) HidingObjects(ctx context.Context, id uuid.UUID) ([]repository.ArchiveObject, error) {
	return find(ctx, s.db, "find the objects of a hidden message", objectQuery+`
		JOIN dlq.archive_hidden h ON h.object_id = o.id WHERE h.message_id = $1 AND o.purged_at IS NULL ORDER BY o.id`, id)
}

// Objects returns the objects that may contain messages that match a query. The object with the newest message comes
// first.
func (s *Reader) Objects(ctx context.Context, q repository.ObjectQuery) ([]repository.ArchiveObject, error) {
	var ids any
	if len(q.MessageIDs) > 0 {
		ids = codec.UUIDArray(q.MessageIDs)
	}
	return find(ctx, s.db, "find objects of the archive", objectQuery+`
		WHERE o.purged_at IS NULL
		  AND ($1::timestamptz IS NULL OR o.last_created_at >= $1) AND ($2::timestamptz IS NULL OR o.first_created_at < $2)
		  AND ($3::text = '' OR EXISTS (SELECT FROM dlq.archive_object_topics t
			WHERE t.object_id = o.id AND t.messages > 0 AND (t.original_topic = $3 OR t.dlq_topic = $3)))
		  AND ($4::uuid[] IS NULL OR o.id = ANY (ARRAY(SELECT a.object_id FROM dlq.archive_ids a WHERE a.id = ANY ($4))))
		ORDER BY o.last_created_at DESC, o.id DESC`, optional(q.CreatedAfter), optional(q.CreatedBefore), codec.Clean(q.Topic), ids)
}

func optional(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return entity.TruncateTime(t)
}

const statsQuery = `
	SELECT count(*) AS objects, coalesce(sum(messages - hidden), 0)::bigint AS messages, coalesce(sum(bytes), 0)::bigint AS bytes,
		least((SELECT min(hidden_at) FROM dlq.archive_hidden),
			(SELECT min(created_at) FROM dlq.archive_deletions
			 WHERE (replaced OR begun) AND (retained_until IS NULL OR retained_until < now()))) AS waiting_since
	FROM dlq.archive_objects`

// ObjectStats returns the numbers of objects, messages and bytes in the manifest, and since when objects wait to be
// rewritten or deleted.
func (s *Reader) ObjectStats(ctx context.Context) (repository.ObjectStats, error) {
	var found []struct {
		repository.ObjectStats
		Waiting sql.NullTime `db:"waiting_since"`
	}
	if err := s.db.Select(ctx, &found, statsQuery); err != nil || len(found) == 0 {
		return repository.ObjectStats{}, conn.Translate("describe the objects of the archive", err)
	}
	stats := found[0].ObjectStats
	stats.WaitingSince = codec.TimeOf(found[0].Waiting)
	return stats, nil
}

// documentOf returns the JSON that PostgreSQL converts to a row of dlq_messages_archive. It contains neither the key
// nor the value nor the headers of the record.
func documentOf(r *repository.ArchivedRow) ([]byte, error) {
	state := *r
	state.Key, state.Value, state.Packed = nil, nil, nil
	return json.Marshal(state)
}

// showQuery converts rows of objects to messages as if they were in the archive's table. When a replay came back after
// its message had moved to an object, only the database contains the outcome returned, so the query looks it up.
var showQuery = `
	SELECT ` + codec.StateColumns + `, ` + codec.ConsumptionColumns + `
	FROM (
		SELECT r.*, e.ord FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS e (document, ord)
		CROSS JOIN LATERAL jsonb_populate_record(NULL::dlq.dlq_messages_archive, CASE WHEN EXISTS (
			SELECT FROM dlq.attempts a JOIN dlq.returns b ON b.attempt_id = a.attempt_id
			WHERE a.message_id = (e.document ->> 'id')::uuid AND a.attempt_no = (e.document ->> 'attempt_no')::int
		) THEN e.document || '{"outcome": "returned"}' ELSE e.document END) r
	) m
	LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + codec.ConsumptionOf + `
	ORDER BY m.ord`

// Show converts rows of objects to messages, in the same order. It reserves no memory for the messages.
func (s *Reader) Show(ctx context.Context, rows []repository.ArchivedRow, limits repository.ShownLimits) ([]entity.Message, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	documents := make([]json.RawMessage, len(rows))
	for i := range rows {
		var err error
		if documents[i], err = documentOf(&rows[i]); err != nil {
			return nil, fmt.Errorf("show archived messages: %w", err)
		}
	}
	text, err := json.Marshal(documents)
	if err != nil {
		return nil, fmt.Errorf("show archived messages: %w", err)
	}
	found := make([]entity.Message, 0, len(rows))
	var shown codec.ShownPage
	size := int64(0)
	err = codec.EachRow(ctx, s.db, showQuery, []any{string(text)}, nil, func(r *codec.Row) error {
		row := rows[len(found)]
		packHeaders(&row)
		size += r.SetBytes(&row, limits, limits.Page > 0 && size > limits.Page)
		m, err := r.MessageToShow()
		if err != nil {
			return err
		}
		if limits.Page > 0 {
			shown.BoundHeaders(&m.Record)
		}
		found = append(found, m)
		return nil
	})
	return found, conn.Translate("show archived messages", err)
}

// restoreQuery moves a message of an object to the live table in one statement, as messages.RestoreQuery does. In the
// same statement it marks the message as hidden in the object. When the message's error group was purged meanwhile, the
// message has no group, and the indexer assigns it to one again.
var restoreQuery = `
	WITH gone AS MATERIALIZED (
		SELECT r.* FROM jsonb_populate_record(NULL::dlq.dlq_messages_archive, $9::jsonb || jsonb_build_object(
			'payload', $11::jsonb, 'defect', $12::jsonb,
			'group_id', (SELECT g.id FROM dlq.error_groups g WHERE g.id = ($9::jsonb ->> 'group_id')::uuid))) r
		WHERE dlq.hide_archived($1, $8, r.original_topic, $10)
	), bytes AS (
		INSERT INTO dlq.records (message_id, key, value, headers) SELECT id, $13::bytea, $14::bytea, $15::bytea FROM gone
	), back AS (
		INSERT INTO dlq.dlq_messages (` + messages.RestoredColumns + `, status, retry_count, updated_at, next_attempt_at)
		SELECT ` + messages.RestoredColumns + `, 'PENDING', 0, c.moment, ` + codec.NextAttempt("gone", "c.moment + $16::bigint * interval '1 microsecond'") + `
		FROM gone, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		RETURNING *
	)` + messages.PointerStep + `, audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT m.updated_at, 'restore', 'message', m.id, g.status, m.status, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + audit.CauseFrom3 + `
		FROM back m JOIN gone g ON g.id = m.id
	)
	SELECT ` + codec.StateColumns + ` FROM back m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// RestoreRow moves a message from its object to the live table, as repository.Archive describes for Restore. The
// parameter r is the message's row in the object. The message is due for automatic retry when the time hold is over.
// When the message is no longer in the object, the error is a *entity.NotFoundError, unless the same operation has
// restored the message already.
func (s *Reader) RestoreRow(
	ctx context.Context, object uuid.UUID, r *repository.ArchivedRow, hold time.Duration, cause entity.AuditInfo,
) (entity.Message, error) {
	document, err := documentOf(r)
	if err != nil {
		return entity.Message{}, fmt.Errorf("restore message: %w: %w", entity.ErrRefused, err)
	}
	cause = audit.WithOperation(cause)
	args := append([]any{r.ID, s.db.Clock()}, audit.CauseArgs(cause)...)
	packHeaders(r)
	args = append(args, object, string(document), r.DLQTopic, r.Payload, r.Defect, bytesArg(r.Key), bytesArg(r.Value), bytesArg(r.Packed),
		hold.Microseconds())
	var back []codec.Row
	if err := s.db.Select(ctx, &back, restoreQuery, args...); err != nil {
		return entity.Message{}, messages.RestoreError(err)
	}
	if len(back) > 0 {
		return back[0].Message(), nil
	}
	again, err := audit.ChangedBy(ctx, s.db, cause.Operation, entity.ActionRestore, []uuid.UUID{r.ID})
	if err != nil {
		return entity.Message{}, conn.Translate("restore message", err)
	}
	if len(again) > 0 {
		return s.messages.Get(ctx, r.ID, 0)
	}
	return entity.Message{}, &entity.NotFoundError{ID: r.ID}
}

// EraseRow erases a message that is in an object, as repository.Archive describes for Erase, and marks it as hidden in
// the object. The parameter r is the message's row in the object.
func (s *Reader) EraseRow(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow, cause entity.AuditInfo) error {
	in := messages.InObject{ID: object, Topic: r.OriginalTopic, DeadTopic: r.DLQTopic, CreatedAt: r.CreatedAt.Time()}
	return messages.EraseFrom(ctx, s.db, r.ID, in, cause)
}

// bytesArg returns b as the argument for a bytea. It returns NULL for nil, because the driver would send empty bytes.
func bytesArg(b repository.Bytes) any {
	if b == nil {
		return nil
	}
	return []byte(b)
}
