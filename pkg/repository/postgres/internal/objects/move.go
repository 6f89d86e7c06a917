package objects

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Mover selects the archived messages that move to objects, and deletes their rows when their object is in the
// manifest.
type Mover struct{ db *conn.DB }

// NewMover returns a Mover that sends its statements to db.
func NewMover(db *conn.DB) *Mover { return &Mover{db} }

// movable is the SQL condition that the archived message m can be stored in an object: its times have years of four
// digits, it has no claim, and its payload is not the JSON null when the payload is its only value. Users of the
// database may have inserted other rows; these stay in the database.
const movable = `m.claim_id IS NULL AND NOT m.unsettled AND (m.dlq_topic_id IS NOT NULL OR m.payload IS NULL OR m.payload <> 'null')
	AND m.created_at BETWEEN '0001-01-02' AND '9999-12-30' AND m.updated_at BETWEEN '0001-01-02' AND '9999-12-30'
	AND coalesce(m.last_retry_at, 'epoch') BETWEEN '0001-01-02' AND '9999-12-30'
	AND coalesce(m.dlq_timestamp, 'epoch') BETWEEN '0001-01-02' AND '9999-12-30'
	AND coalesce(m.original_timestamp, 'epoch') BETWEEN '0001-01-02' AND '9999-12-30'`

const closedDayQuery = `
	SELECT date_trunc('day', min(archived_at), 'UTC') AS day FROM dlq.dlq_messages_archive
	WHERE archived_at >= greatest($1::timestamptz, '0001-01-02') AND archived_at < date_trunc('day', coalesce($2::timestamptz, now()), 'UTC')`

// ClosedDay returns the UTC day of the earliest message in the database that was archived at the given time or later,
// but before today. ok is false when there is no such message.
func (s *Mover) ClosedDay(ctx context.Context, from time.Time) (day time.Time, ok bool, err error) {
	var found []sql.NullTime
	if err := s.db.Select(ctx, &found, closedDayQuery, entity.TruncateTime(from), s.db.Clock()); err != nil {
		return time.Time{}, false, conn.Translate("find a closed day of the archive", err)
	}
	if len(found) == 0 || !found[0].Valid {
		return time.Time{}, false, nil
	}
	return found[0].Time.UTC(), true, nil
}

// pickQuery computes the size of each message without reading its bytes. The bytes of an edit count twice, because an
// object contains them as JSON with two hexadecimal digits for each byte.
const pickQuery = `
	SELECT id, archived_at, bytes FROM (
		SELECT id, archived_at, bytes, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM (
			SELECT m.id, m.archived_at, 512 + octet_length(m.error_message) + coalesce(pg_column_size(m.payload), 0)
				+ coalesce(octet_length(r.key), octet_length(m.key), 0) + coalesce(octet_length(r.value), octet_length(m.value), 0)
				+ coalesce(octet_length(r.headers), octet_length(m.headers), 0)
				+ coalesce((
					SELECT sum(768 + coalesce(octet_length(a.error), 0) + 2 * (coalesce(octet_length(e.value), 0) + coalesce(octet_length(e.key), 0)
						+ coalesce(octet_length(e.headers), 0) + coalesce(octet_length(e.patch), 0)))
					FROM dlq.attempts a LEFT JOIN dlq.edits e ON e.message_id = a.message_id AND e.attempt_id = a.attempt_id
					WHERE a.message_id = m.id
				), 0) AS bytes
			FROM dlq.dlq_messages_archive m LEFT JOIN dlq.records r ON r.message_id = m.id
			WHERE m.archived_at >= $1::timestamptz AND m.archived_at < $1::timestamptz + interval '24 hours' AND m.id > $2::uuid
			  AND ` + movable + `
			ORDER BY m.id LIMIT $3
		) m
	) m WHERE before < $4 ORDER BY id`

// PickArchived returns movable archived messages of a day whose id is higher than after, in the order of their ids: at
// most limit messages, up to the message with which they have maxBytes bytes together.
func (s *Mover) PickArchived(ctx context.Context, day time.Time, after uuid.UUID, limit int, maxBytes int64) ([]repository.PickedRow, error) {
	var picked []repository.PickedRow
	err := s.db.SelectUnprepared(ctx, &picked, pickQuery, day.UTC(), after, limit, maxBytes)
	return picked, conn.Translate("select archived messages", err)
}

// loadQuery reads whole rows, with a copy of their attempts and edits.
const loadQuery = `
	SELECT m.id, m.archived_at, m.created_at, m.updated_at, m.original_topic, coalesce(t.name, '') AS dlq_topic, m.status,
		m.error_message, m.retry_count, m.max_retries,
		CASE WHEN r.message_id IS NULL THEN m.key ELSE r.key END AS key,
		CASE WHEN r.message_id IS NULL THEN m.value ELSE r.value END AS value,
		CASE WHEN r.message_id IS NULL THEN m.headers ELSE r.headers END AS headers,
		m.payload::text AS payload, m.payload_note, m.omitted_size, m.omitted_sha256, m.defect::text AS defect,
		m.dlq_topic_id, m.dlq_incarnation_id, m.dlq_partition, m.dlq_offset, m.dlq_timestamp, m.dlq_timestamp_ms,
		m.original_partition, m.original_offset, m.original_timestamp, m.origin_confidence,
		m.consumer_group, m.consumer_attempts, m.dialect, m.error_class, m.group_id, m.parent_id, m.root_id,
		m.attempt_no, m.rescues, m.last_retry_at, m.last_publish_error, m.last_publish_error_class, m.outcome, m.record_hash,
		m.xmin::text AS version,
		coalesce((
			SELECT json_agg(to_jsonb(a) - 'message_id' || jsonb_build_object('edit', to_jsonb(e) - 'message_id' - 'attempt_id') ORDER BY a.attempt_no)
			FROM dlq.attempts a LEFT JOIN dlq.edits e ON e.message_id = a.message_id AND e.attempt_id = a.attempt_id
			WHERE a.message_id = m.id
		), '[]')::text AS attempts
	FROM unnest($1::uuid[], $2::timestamptz[]) AS x (id, archived_at)
	JOIN dlq.dlq_messages_archive m ON m.id = x.id AND m.archived_at = x.archived_at
	LEFT JOIN dlq.records r ON r.message_id = m.id LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE m.archived_at BETWEEN $3 AND $4
	ORDER BY m.id`

// LoadArchived returns the whole rows of picked messages, in the order of their ids. Rows that are no longer in the
// archive are left out, and so are rows whose headers are damaged.
func (s *Mover) LoadArchived(ctx context.Context, picked []repository.PickedRow) ([]repository.ArchivedRow, error) {
	if len(picked) == 0 {
		return nil, nil
	}
	ids, times := make([]uuid.UUID, len(picked)), codec.NewArray(codec.OIDTimestamptz, len(picked), 8)
	first, last := picked[0].ArchivedAt, picked[0].ArchivedAt
	for i, p := range picked {
		ids[i] = p.ID
		times.Time(p.ArchivedAt)
		if p.ArchivedAt.Before(first) {
			first = p.ArchivedAt
		}
		if p.ArchivedAt.After(last) {
			last = p.ArchivedAt
		}
	}
	var rows []repository.ArchivedRow
	if err := s.db.Select(ctx, &rows, loadQuery, codec.UUIDArray(ids), times.Arg(), first, last); err != nil {
		return nil, conn.Translate("read archived messages", err)
	}
	whole := rows[:0]
	for i := range rows {
		if unpackHeaders(&rows[i]) {
			whole = append(whole, rows[i])
		}
	}
	return whole, nil
}

// unpackHeaders decodes the headers of a row. It returns false when packHeaders would not encode them to the same bytes
// again.
func unpackHeaders(r *repository.ArchivedRow) bool {
	if r.Packed == nil {
		return true
	}
	headers, err := codec.UnpackHeaders(r.Packed)
	if err != nil || !bytes.Equal(codec.PackHeaders(headers), r.Packed) {
		return false
	}
	r.Headers = make([]repository.ArchivedHeader, len(headers))
	for i, h := range headers {
		r.Headers[i].Key = append(repository.Bytes{}, h.Key...)
		if h.Value != nil {
			value := repository.Bytes(h.Value)
			r.Headers[i].Value = &value
		}
	}
	return true
}

// packHeaders encodes the headers of a row in the form in which the database stores headers.
func packHeaders(r *repository.ArchivedRow) {
	if r.Packed = nil; r.Headers == nil {
		return
	}
	headers := make([]entity.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i].Key = string(h.Key)
		if h.Value != nil {
			headers[i].Value = append([]byte{}, *h.Value...)
		}
	}
	r.Packed = codec.PackHeaders(headers)
}

// BeginObject stores the key of an object that is about to be written, and the ids of the messages that it will
// contain. If the process dies before the object is in the manifest, the object is deleted later.
func (s *Mover) BeginObject(ctx context.Context, key, bucket string, ids []uuid.UUID) error {
	err := s.db.Exec(ctx, `INSERT INTO dlq.archive_deletions (object_key, bucket, message_ids) VALUES ($1, $2, $3)`, key, bucket, codec.UUIDArray(ids))
	return conn.Translate("begin an object of the archive", err)
}

// AbandonObject gives up an object that has not entered the manifest. If the object was written, it becomes due to be
// deleted; otherwise the database forgets its key.
func (s *Mover) AbandonObject(ctx context.Context, key string, written bool) error {
	query := `DELETE FROM dlq.archive_deletions WHERE object_key = $1 AND NOT begun AND NOT replaced`
	if written {
		query = `UPDATE dlq.archive_deletions SET begun = true WHERE object_key = $1`
	}
	return conn.Translate("abandon an object of the archive", s.db.Exec(ctx, query, key))
}

// AddObject enters an object into the manifest and deletes the rows of its messages from the database, in one
// statement. It returns the number of deleted rows. Messages whose rows changed or left the archive after they were
// read are marked as hidden in the object. When the object took longer than an hour to write, it may have been deleted,
// and AddObject returns an error.
func (s *Mover) AddObject(ctx context.Context, o repository.ArchiveObject, rows []repository.ArchivedRow) (int64, error) {
	entry, err := json.Marshal(o)
	if err != nil {
		return 0, fmt.Errorf("add an object to the archive: %w", err)
	}
	ids, times, versions := make([]uuid.UUID, len(rows)), codec.NewArray(codec.OIDTimestamptz, len(rows), 8), make([]string, len(rows))
	for i := range rows {
		ids[i], versions[i] = rows[i].ID, rows[i].Version
		times.Time(rows[i].ArchivedAt.Time())
	}
	var moved []int64
	err = s.db.Select(ctx, &moved, `SELECT dlq.add_archive_object($1::jsonb, $2::uuid[], $3::timestamptz[], $4::text[])`,
		string(entry), codec.UUIDArray(ids), times.Arg(), codec.TextArray(versions))
	if err != nil || len(moved) == 0 {
		return 0, conn.Translate("add an object to the archive", err)
	}
	return moved[0], nil
}
