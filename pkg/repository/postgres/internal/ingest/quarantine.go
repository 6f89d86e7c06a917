package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Quarantine implements repository.Quarantine.
type Quarantine struct {
	db     *conn.DB
	ingest *Ingester
}

// NewQuarantine returns a Quarantine that sends its statements to db. Records that leave quarantine are stored as
// messages by the Ingester.
func NewQuarantine(db *conn.DB, ingest *Ingester) *Quarantine { return &Quarantine{db, ingest} }

type quarantineRow struct {
	ID          uuid.UUID     `db:"id"`
	TopicID     int32         `db:"dlq_topic_id"`
	Topic       string        `db:"dlq_topic"`
	Incarnation int32         `db:"incarnation_id"`
	Partition   int32         `db:"partition"`
	Offset      int64         `db:"dlq_offset"`
	Timestamp   sql.NullInt64 `db:"timestamp_ms"`
	Key         []byte        `db:"key"`
	KeySize     sql.NullInt64 `db:"key_size"`
	Value       []byte        `db:"value"`
	ValueSize   sql.NullInt64 `db:"value_size"`
	Headers     []byte        `db:"headers"`
	State       string        `db:"state"`
	SQLState    string        `db:"sqlstate"`
	Error       string        `db:"error"`
	FirstTry    time.Time     `db:"first_try"`
	LastTry     time.Time     `db:"last_try"`
	Tries       int           `db:"tries"`
	RetryAt     time.Time     `db:"retry_at"`
}

// quarantineColumns returns the columns of a quarantineRow. The parameter limit is the SQL of a number of bytes: a key,
// a value or headers that are longer are not read. With a negative limit, everything is read.
func quarantineColumns(limit string) string {
	return `
	q.id, q.dlq_topic_id, t.name AS dlq_topic, q.incarnation_id, q.partition, q.dlq_offset, q.timestamp_ms,
	octet_length(q.key) AS key_size, octet_length(q.value) AS value_size, q.state, q.sqlstate, q.error, q.first_try, q.last_try, q.tries, q.retry_at,
	CASE WHEN ` + limit + ` < 0 OR octet_length(q.key) <= ` + limit + ` THEN q.key END AS key,
	CASE WHEN ` + limit + ` < 0 OR octet_length(q.value) <= ` + limit + ` THEN q.value END AS value,
	CASE WHEN ` + limit + ` < 0 OR octet_length(q.headers) <= ` + limit + ` THEN q.headers END AS headers`
}

func (r *quarantineRow) quarantined() (entity.Quarantined, error) {
	q := entity.Quarantined{
		ID: r.ID,
		Source: entity.Source{
			Topic: r.Topic, TopicID: r.TopicID, Incarnation: r.Incarnation, Partition: r.Partition, Offset: r.Offset,
		},
		SQLState: r.SQLState, Error: r.Error, Tries: r.Tries,
		FirstTry: entity.TruncateTime(r.FirstTry), LastTry: entity.TruncateTime(r.LastTry), RetryAt: entity.TruncateTime(r.RetryAt),
	}
	if r.Timestamp.Valid {
		q.Source.Timestamp, q.Source.RawTime = entity.RecordTime(r.Timestamp.Int64)
	}
	if err := json.Unmarshal([]byte(r.State), &q.Record); err != nil {
		return q, fmt.Errorf("quarantined record %s: %w", r.ID, err)
	}
	headers, err := codec.UnpackHeaders(r.Headers)
	if err != nil {
		return q, fmt.Errorf("quarantined record %s: %w", r.ID, err)
	}
	q.Record.Key, q.Record.Value, q.Record.Headers = r.Key, r.Value, headers
	q.Record.HeadersOmitted = r.Headers == nil
	if r.Key == nil {
		q.Record.KeyOmitted = r.KeySize.Int64
	}
	if r.Value == nil && r.ValueSize.Valid {
		q.Record.State = entity.ValueNotLoaded
	}
	return q, nil
}

var (
	quarantinedQuery = `
	SELECT ` + quarantineColumns("$1::bigint") + `
	FROM dlq.quarantine q JOIN dlq.topics t ON t.id = q.dlq_topic_id
	WHERE ($2::int4[] IS NULL OR q.dlq_topic_id = ANY ($2)) AND ($3 = '' OR t.name = $3)
	  AND ($4::timestamptz IS NULL OR (q.first_try, q.id) < ($4, $5::uuid))
	ORDER BY q.first_try DESC, q.id DESC LIMIT $6`

	quarantinedRecordQuery = `
	SELECT ` + quarantineColumns("$2::bigint") + `
	FROM dlq.quarantine q JOIN dlq.topics t ON t.id = q.dlq_topic_id WHERE q.id = $1`

	takeQuarantinedQuery = `
	WITH due AS MATERIALIZED (
		SELECT id FROM dlq.quarantine WHERE retry_at <= coalesce($1::timestamptz, clock_timestamp())
		ORDER BY retry_at LIMIT 1 FOR UPDATE SKIP LOCKED
	), q AS (
		UPDATE dlq.quarantine q SET tries = tries + 1, last_try = c.moment, retry_at = c.moment + $2::bigint * interval '1 microsecond'
		FROM due, (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) c
		WHERE q.id = due.id RETURNING q.*
	)
	SELECT ` + quarantineColumns("-1") + ` FROM q JOIN dlq.topics t ON t.id = q.dlq_topic_id`
)

// Quarantined implements repository.Quarantine.
func (s *Quarantine) Quarantined(ctx context.Context, q repository.QuarantineQuery) ([]entity.Quarantined, error) {
	var visible, before any
	if q.Visible != nil {
		var topics []search.TopicRow
		if err := s.db.Select(ctx, &topics, `SELECT id, name FROM dlq.topics`); err != nil {
			return nil, conn.Translate("list quarantined records", err)
		}
		numbers := codec.NewArray(codec.OIDInt4, len(topics), 4)
		for _, n := range search.Matching(*q.Visible, nil, topics).Numbers {
			numbers.Int32(n)
		}
		visible = numbers.Arg()
	}
	if !q.Before.CreatedAt.IsZero() {
		before = q.Before.CreatedAt
	}
	args := []any{repository.ListValueLimit, visible, codec.Clean(q.Topic), before, q.Before.ID, q.Limit}
	list, err := s.quarantinedToShow(ctx, quarantinedQuery, args)
	return list, conn.Translate("list quarantined records", err)
}

// quarantinedToShow reads the records one by one, with at most as many headers as a page may show, and reserves memory
// for them in the MemoryReservation of ctx.
func (s *Quarantine) quarantinedToShow(ctx context.Context, query string, args []any) (list []entity.Quarantined, err error) {
	var shown codec.ShownPage
	err = s.db.ReadRows(ctx, query, args, func(rows *sql.Rows) error {
		scanned := sqlx.Rows{Rows: rows, Mapper: s.db.Pool.Mapper}
		for rows.Next() {
			var r quarantineRow
			if err := scanned.StructScan(&r); err != nil {
				return err
			}
			q, err := r.quarantined()
			if err != nil {
				return err
			}
			shown.BoundHeaders(&q.Record)
			m := q.Message()
			if err := repository.ReserveMemory(ctx, repository.SizeInMemory(&m)); err != nil {
				return err
			}
			list = append(list, q)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// QuarantinedRecord implements repository.Quarantine.
func (s *Quarantine) QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error) {
	found, err := s.quarantinedToShow(ctx, quarantinedRecordQuery, []any{id, repository.ListValueLimit})
	if err != nil {
		return entity.Quarantined{}, conn.Translate("read a quarantined record", err)
	}
	if len(found) == 0 {
		return entity.Quarantined{}, &entity.QuarantineNotFoundError{ID: id}
	}
	return found[0], nil
}

// QuarantineCounts implements repository.Quarantine.
func (s *Quarantine) QuarantineCounts(ctx context.Context) ([]repository.QuarantineCount, error) {
	var counts []repository.QuarantineCount
	err := s.db.Select(ctx, &counts, `
		SELECT t.name AS topic, q.records FROM (SELECT dlq_topic_id, count(*) AS records FROM dlq.quarantine GROUP BY 1) q
		JOIN dlq.topics t ON t.id = q.dlq_topic_id ORDER BY 1`)
	return counts, conn.Translate("count quarantined records", err)
}

// WakeQuarantined implements repository.Quarantine.
func (s *Quarantine) WakeQuarantined(ctx context.Context) error {
	return conn.Translate("wake quarantined records", s.db.Exec(ctx, `
		UPDATE dlq.quarantine SET retry_at = c.moment FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) c
		WHERE retry_at > c.moment`, s.db.Clock()))
}

// When an operator retries or deletes a quarantined record, these statements write an audit entry with the record's
// position and the SQLSTATE. The entry does not contain PostgreSQL's error text, which may quote the record.
const (
	auditQuarantine = `, audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, last_error, topics, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), $8, 'quarantine', q.id,
			format('%s/%s/%s: SQLSTATE %s', t.name, q.partition, q.dlq_offset, q.sqlstate), ARRAY[t.name], ` + audit.CauseFrom3 + `
		FROM q JOIN dlq.topics t ON t.id = q.dlq_topic_id
	)
	SELECT id FROM q`

	retryQuarantinedQuery = `
	WITH q AS (
		UPDATE dlq.quarantine SET retry_at = least(retry_at, coalesce($2::timestamptz, clock_timestamp())) WHERE id = $1 RETURNING *
	)` + auditQuarantine

	deleteQuarantinedQuery = `
	WITH q AS (
		DELETE FROM dlq.quarantine WHERE id = $1 RETURNING *
	)` + auditQuarantine
)

// RetryQuarantined implements repository.Quarantine.
func (s *Quarantine) RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Quarantined, error) {
	if err := s.onQuarantined(ctx, "retry a quarantined record", entity.ActionRetry, retryQuarantinedQuery, id, cause); err != nil {
		return entity.Quarantined{}, err
	}
	return s.QuarantinedRecord(ctx, id)
}

// DeleteQuarantined implements repository.Quarantine.
func (s *Quarantine) DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	return s.onQuarantined(ctx, "delete a quarantined record", entity.ActionDelete, deleteQuarantinedQuery, id, cause)
}

func (s *Quarantine) onQuarantined(ctx context.Context, where string, action entity.Action, query string, id uuid.UUID, cause entity.AuditInfo) error {
	cause = audit.WithOperation(cause)
	var done []uuid.UUID
	if err := s.db.Select(ctx, &done, query, append(append([]any{id, s.db.Clock()}, audit.CauseArgs(cause)...), string(action))...); err != nil {
		return conn.Translate(where, err)
	}
	if len(done) > 0 {
		return nil
	}
	// The driver may have sent the statement twice. Then the second execution changes nothing, but the audit trail
	// contains an entry of the first execution.
	again, err := audit.ChangedBy(ctx, s.db, cause.Operation, action, []uuid.UUID{id})
	if err != nil {
		return conn.Translate(where, err)
	}
	if len(again) == 0 {
		return &entity.QuarantineNotFoundError{ID: id}
	}
	return nil
}

// TakeQuarantined implements repository.Quarantine.
func (s *Quarantine) TakeQuarantined(ctx context.Context) (*entity.Quarantined, error) {
	var found []quarantineRow
	err := s.db.Select(ctx, &found, takeQuarantinedQuery, s.db.Clock(), repository.QuarantineRest.Microseconds())
	if err != nil || len(found) == 0 {
		return nil, conn.Translate("take a quarantined record", err)
	}
	q, err := found[0].quarantined()
	return &q, err
}

// Release implements repository.Quarantine.
func (s *Quarantine) Release(ctx context.Context, batch repository.Batch) (repository.Stored, error) {
	m := &batch.Messages[0]
	at := repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
	batch.Ranges = []repository.Range{{Partition: at, From: m.Source.Offset, To: m.Source.Offset + 1}}
	m.Digest = uuid.Nil // dead letters that were stored while the record was in quarantine are not its repeats
	stored, err := s.ingest.storeWhole(ctx, batch, releaseSteps, s.ingest.prepare(batch))
	if conn.Refused(err) {
		code, text := conn.RefusalOf(err)
		noted := s.db.Exec(ctx, `UPDATE dlq.quarantine SET sqlstate = $2, error = $3 WHERE id = $1`, m.ID, code, codec.Clean(text))
		if noted != nil {
			err = noted
		}
	}
	return stored, conn.Translate("release a quarantined record", err)
}
