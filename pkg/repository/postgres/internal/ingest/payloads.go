package ingest

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Payloads fills the column payload of messages that were stored in the mode PayloadBackground.
type Payloads struct{ db *conn.DB }

// NewPayloads returns Payloads that send their statements to db.
func NewPayloads(db *conn.DB) *Payloads { return &Payloads{db} }

const (
	// PayloadLease is the time for which a batch of the queue belongs to the caller that has taken it.
	PayloadLease = 5 * time.Second
	// PayloadRest is the time after which FillPayloads tries again to fill messages that another session had locked.
	PayloadRest = time.Second
	// payloadRows is the number of rows that are locked at once to fill their payload. They stay locked for about 20
	// ms, and a retry of these messages has to wait for that time.
	payloadRows = 200
	// payloadBatches and PayloadMessages limit the numbers of batches and messages that one call takes from the queue.
	// When many messages arrive, the queue contains many small batches.
	payloadBatches, PayloadMessages = 100, 1000
)

// takePayloadsQuery takes batches of the queue that no caller holds, the latest first. It takes at most payloadBatches
// batches, until they contain PayloadMessages messages or more.
const takePayloadsQuery = `
	WITH free AS MATERIALIZED (
		SELECT q.id, q.messages, n.moment
		FROM dlq.payload_queue q, (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) n
		WHERE q.taken_until <= n.moment ORDER BY q.id DESC LIMIT $3 FOR UPDATE OF q SKIP LOCKED
	), next AS (
		SELECT id, moment, sum(messages) OVER (ORDER BY id DESC) - messages AS later FROM free
	), taken AS (
		UPDATE dlq.payload_queue q SET taken_until = next.moment + $2::bigint * interval '1 microsecond'
		FROM next WHERE q.id = next.id AND next.later < $4 RETURNING q.id, q.message_ids
	)
	SELECT id, unnest(message_ids) AS message_id FROM taken ORDER BY id DESC`

// fillPayloadsQuery fills the payloads of live messages. It skips rows that another session has locked.
const fillPayloadsQuery = `
	WITH held AS MATERIALIZED (
		SELECT id FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[]) AND payload_note = 'pending'
		ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
	)
	UPDATE dlq.dlq_messages m SET payload = ` + payloadOfValue + `, payload_note = nullif($2::text, '')
	FROM held LEFT JOIN dlq.records r ON r.message_id = held.id WHERE m.id = held.id RETURNING m.id`

// fillArchivedPayloadsQuery fills the payloads of messages that were archived before their payload was filled.
const fillArchivedPayloadsQuery = `
	WITH held AS MATERIALIZED (
		SELECT m.id, m.archived_at
		FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
		WHERE kept.id = ANY ($1::uuid[]) AND m.payload_note = 'pending'
		ORDER BY m.id FOR NO KEY UPDATE OF m SKIP LOCKED
	)
	UPDATE dlq.dlq_messages_archive m SET payload = ` + payloadOfValue + `, payload_note = nullif($2::text, '')
	FROM held LEFT JOIN dlq.records r ON r.message_id = held.id WHERE m.id = held.id AND m.archived_at = held.archived_at RETURNING m.id`

const payloadOfValue = `CASE WHEN $2::text = '' THEN convert_from(coalesce(r.value, m.value), 'UTF8')::jsonb END`

const pendingPayloadsQuery = `
	SELECT id FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[]) AND payload_note = 'pending'
	UNION
	SELECT m.id FROM dlq.archive_ids kept JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
	WHERE kept.id = ANY ($1::uuid[]) AND m.payload_note = 'pending'`

// donePayloadsQuery removes batches from the queue. Messages that other sessions had locked stay in the queue.
const donePayloadsQuery = `
	WITH done AS (
		DELETE FROM dlq.payload_queue WHERE id = ANY ($1::bigint[]) AND NOT message_ids && $2::uuid[]
	), waiting AS (
		SELECT id, ARRAY(SELECT unnest(message_ids) INTERSECT SELECT unnest($2::uuid[])) AS message_ids
		FROM dlq.payload_queue WHERE id = ANY ($1::bigint[]) AND message_ids && $2::uuid[]
	)
	UPDATE dlq.payload_queue q SET message_ids = waiting.message_ids, messages = cardinality(waiting.message_ids),
		taken_until = coalesce($3::timestamptz, clock_timestamp()) + $4::bigint * interval '1 microsecond'
	FROM waiting WHERE q.id = waiting.id`

// FillPayloads fills the column payload of messages that Store stored with PayloadBackground, live or archived, the
// latest first. One call takes at most payloadBatches batches of the queue, until they contain PayloadMessages messages
// or more. filled is the number of payloads that were filled or refused; found reports whether the queue contained a
// batch that no other caller held. Several callers may work at the same time, each on its own batches. When a caller
// dies, its batches are free again after PayloadLease. FillPayloads does not change updated_at.
func (s *Payloads) FillPayloads(ctx context.Context) (filled int, found bool, err error) {
	var taken []struct {
		ID        int64     `db:"id"`
		MessageID uuid.UUID `db:"message_id"`
	}
	err = s.db.Select(ctx, &taken, takePayloadsQuery, s.db.Clock(), PayloadLease.Microseconds(), payloadBatches, PayloadMessages)
	if err != nil || len(taken) == 0 {
		return 0, false, conn.Translate("fill payloads", err)
	}
	batches := codec.NewArray(codec.OIDInt8, payloadBatches, 8)
	var ids, left []uuid.UUID
	for i, row := range taken {
		ids = append(ids, row.MessageID)
		if i == 0 || row.ID != taken[i-1].ID {
			batches.Int64(row.ID)
		}
	}
	for some := range slices.Chunk(ids, payloadRows) {
		n, pending, err := s.fillPayloads(ctx, some)
		if err != nil {
			return filled, true, conn.Translate("fill payloads", err)
		}
		filled, left = filled+n, append(left, pending...)
	}
	err = s.db.Exec(ctx, donePayloadsQuery, batches.Arg(), codec.UUIDArray(left), s.db.Clock(), PayloadRest.Microseconds())
	return filled, true, conn.Translate("fill payloads", err)
}

// fillPayloads fills the payloads of messages. filled is the number of filled payloads; pending are the messages whose
// payload could not be filled yet, because other sessions have locked them.
func (s *Payloads) fillPayloads(ctx context.Context, ids []uuid.UUID) (filled int, pending []uuid.UUID, err error) {
	for _, query := range []string{fillPayloadsQuery, fillArchivedPayloadsQuery} {
		if filled == len(ids) {
			return filled, nil, nil
		}
		n, err := s.fillOrRefuse(ctx, query, ids)
		if err != nil {
			return filled, nil, err
		}
		filled += n
	}
	if filled < len(ids) { // the other messages are locked or deleted, or their payload is filled already
		err = s.db.Select(ctx, &pending, pendingPayloadsQuery, codec.UUIDArray(ids))
	}
	return filled, pending, err
}

// fillOrRefuse fills the payloads of messages. When PostgreSQL refuses a value as JSON, it halves the list of messages
// until it has found the message with this value, and sets the payload_note of that message to NoteRefused.
func (s *Payloads) fillOrRefuse(ctx context.Context, query string, ids []uuid.UUID) (int, error) {
	var done []uuid.UUID
	err := s.db.Select(ctx, &done, query, codec.UUIDArray(ids), "")
	switch half := len(ids) / 2; {
	case !conn.Refused(err):
		return len(done), err
	case half == 0:
		err = s.db.Select(ctx, &done, query, codec.UUIDArray(ids), NoteRefused)
		return len(done), err
	default:
		first, err := s.fillOrRefuse(ctx, query, ids[:half])
		if err != nil {
			return first, err
		}
		second, err := s.fillOrRefuse(ctx, query, ids[half:])
		return first + second, err
	}
}

// PayloadLag returns the time for which the oldest message has waited for its payload; 0 when no message waits.
func (s *Payloads) PayloadLag(ctx context.Context) (time.Duration, error) {
	var seconds []sql.NullFloat64
	err := s.db.Select(ctx, &seconds, `
		SELECT extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - min(stored_at))::float8 FROM dlq.payload_queue`, s.db.Clock())
	if err != nil || len(seconds) == 0 {
		return 0, conn.Translate("read the payload lag", err)
	}
	return time.Duration(max(0, seconds[0].Float64) * float64(time.Second)), nil
}
