package postgres

import (
	"context"
	"database/sql"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// PayloadMode says when the column payload of a message is filled.
type PayloadMode string

const (
	// PayloadBackground: FillPayloads fills it after the message is stored.
	PayloadBackground PayloadMode = "background"
	// PayloadInline: Store fills it.
	PayloadInline PayloadMode = "inline"
	// PayloadNever: it stays NULL.
	PayloadNever PayloadMode = "never"
)

// DefaultPayloadLimit is the largest value, in bytes, that is copied into the column payload. For a larger value the
// copy would be most of the cost of storing the message.
const DefaultPayloadLimit = 64 << 10

// WithPayload sets when the column payload is filled, and the largest value in bytes that
// is copied into it (0: none). The default is PayloadBackground and DefaultPayloadLimit.
func WithPayload(mode PayloadMode, maxBytes int) Option {
	return func(s *Store) { s.payloadMode, s.payloadLimit = mode, maxBytes }
}

const (
	// payloadLease is how long a batch of the queue belongs to one caller.
	payloadLease = 5 * time.Second
	// payloadRest is how long messages that another session locked are left alone.
	payloadRest = time.Second
	// payloadRows is how many rows are locked at once to fill their payload: for some 20 ms, during which a retry has
	// to wait for them.
	payloadRows = 200
	// payloadBatches and payloadMessages limit what is taken from the queue at once: under heavy ingest messages are
	// stored in many small batches.
	payloadBatches, payloadMessages = 100, 1000
)

// takePayloadsQuery takes the latest batches that wait and are not taken: one, and more until they have
// payloadMessages.
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

// fillPayloadsQuery skips the rows that another session has locked.
const fillPayloadsQuery = `
	WITH held AS MATERIALIZED (
		SELECT id FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[]) AND payload_note = 'pending'
		ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
	)
	UPDATE dlq.dlq_messages m SET payload = ` + payloadOfValue + `, payload_note = nullif($2::text, '')
	FROM held LEFT JOIN dlq.records r ON r.message_id = held.id WHERE m.id = held.id RETURNING m.id`

// fillArchivedPayloadsQuery is for messages that were archived before their payload was filled.
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

// donePayloadsQuery keeps in the queue the messages that other sessions had locked.
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

// FillPayloads fills the column payload of messages that Store stored with PayloadBackground, the latest first, also
// in the archive: some thousand messages, or one batch of Store. It returns how many it filled, and whether any
// waited. Callers may work concurrently, each on batches of its own; batches of a caller that dies are free after
// some seconds. updated_at does not change.
func (s *Store) FillPayloads(ctx context.Context) (filled int, found bool, err error) {
	var taken []struct {
		ID        int64     `db:"id"`
		MessageID uuid.UUID `db:"message_id"`
	}
	err = s.selectRows(ctx, &taken, takePayloadsQuery, s.clock(), payloadLease.Microseconds(), payloadBatches, payloadMessages)
	if err != nil || len(taken) == 0 {
		return 0, false, translate("fill payloads", err)
	}
	batches := newColumn(oidInt8, payloadBatches, 8)
	var ids, left []uuid.UUID
	for i, row := range taken {
		ids = append(ids, row.MessageID)
		if i == 0 || row.ID != taken[i-1].ID {
			batches.int64(row.ID)
		}
	}
	for some := range slices.Chunk(ids, payloadRows) {
		n, pending, err := s.fillPayloads(ctx, some)
		if err != nil {
			return filled, true, translate("fill payloads", err)
		}
		filled, left = filled+n, append(left, pending...)
	}
	err = s.exec(ctx, donePayloadsQuery, batches.arg(), uuids(left), s.clock(), payloadRest.Microseconds())
	return filled, true, translate("fill payloads", err)
}

// fillPayloads returns how many messages it filled and those that still wait.
func (s *Store) fillPayloads(ctx context.Context, ids []uuid.UUID) (filled int, pending []uuid.UUID, err error) {
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
	if filled < len(ids) { // the others are locked, already filled, or gone
		err = s.selectRows(ctx, &pending, pendingPayloadsQuery, uuids(ids))
	}
	return filled, pending, err
}

// fillOrRefuse bisects to find the values that PostgreSQL refuses as JSON.
func (s *Store) fillOrRefuse(ctx context.Context, query string, ids []uuid.UUID) (int, error) {
	var done []uuid.UUID
	err := s.selectRows(ctx, &done, query, uuids(ids), "")
	switch half := len(ids) / 2; {
	case !refused(err):
		return len(done), err
	case half == 0:
		err = s.selectRows(ctx, &done, query, uuids(ids), noteRefused)
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

// PayloadLag returns how long the oldest message has waited for its payload; 0 when none
// waits.
func (s *Store) PayloadLag(ctx context.Context) (time.Duration, error) {
	var seconds []sql.NullFloat64
	err := s.selectRows(ctx, &seconds, `
		SELECT extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - min(stored_at))::float8 FROM dlq.payload_queue`, s.clock())
	if err != nil || len(seconds) == 0 {
		return 0, translate("read the payload lag", err)
	}
	return time.Duration(max(0, seconds[0].Float64) * float64(time.Second)), nil
}

// note returns why a message gets no payload, or none yet; "" when it gets one at once.
func (s *Store) note(m *entity.Message) string {
	switch {
	case m.Record.State == entity.ValueOverLimit:
		return noteOver
	case m.Record.State == entity.ValueUnreadable:
		return noteUnreadable
	case m.Record.Value == nil:
		return ""
	case s.payloadMode == PayloadNever || s.payloadLimit <= 0:
		return noteNever
	}
	note := projectable(m.Record.Value, s.payloadLimit)
	if note == "" && s.payloadMode == PayloadBackground {
		return notePending
	}
	return note
}

// pendingPayloads are the ids of the messages whose payload is to be filled later.
func pendingPayloads(in incoming) []byte {
	ids := newColumn(oidUUID, len(in.Messages), 16)
	for i := range in.Messages {
		if in.notes[i] == notePending {
			ids.uuid(in.Messages[i].ID)
		}
	}
	return ids.arg()
}

// projectionMaxDepth is the maximum nesting depth of a value that is copied to the column payload; jsonb fails
// between 14,000 and 16,000. The value's bytes are always stored.
const projectionMaxDepth = payload.MaxScan

// Reasons why a payload is NULL although there is a value.
const (
	noteNotJSON  = "not_json"
	noteTooLarge = "too_large"
	noteTooDeep  = "too_deep"
	noteNumber   = "number"     // digits or an exponent that would be huge as text
	noteText     = "text"       // NUL, or half of a surrogate pair: jsonb rejects both
	noteRefused  = "refused"    // PostgreSQL refused it
	noteOver     = "over_limit" // the record was not stored as a whole

	noteUnreadable = "unreadable" // there is no record to store
	noteNever      = "never"      // by configuration
	notePending    = "pending"    // FillPayloads has not filled it yet
)

// projectable returns "" when jsonb preserves value well enough, else the note to store.
func projectable(value []byte, maxBytes int) string {
	switch {
	case len(value) > maxBytes:
		return noteTooLarge
	case !utf8.Valid(value):
		return noteNotJSON
	}
	switch form := payload.Scan(value); {
	case form.Depth > projectionMaxDepth:
		return noteTooDeep
	case !form.Valid:
		return noteNotJSON
	case form.Text:
		return noteText
	case form.Number:
		return noteNumber
	}
	return ""
}
