package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// quarantineQuery moves the position past one record and stores the record.
const quarantineQuery = moveSteps + `, kept AS (
		INSERT INTO dlq.quarantine (id, dlq_topic_id, incarnation_id, partition, dlq_offset, timestamp_ms,
			headers, state, sqlstate, error, first_try, last_try, retry_at, key, value)
		SELECT $5::uuid, $6::int, incarnation_id, partition, $7::bigint, $8::bigint,
			$9::bytea, $10, $11, $12, moment, moment, moment + $14::bigint * interval '1 microsecond', $15::bytea, $16::bytea
		FROM moved CROSS JOIN (SELECT coalesce($13::timestamptz, clock_timestamp()) AS moment) c
		ON CONFLICT ON CONSTRAINT quarantine_position DO NOTHING
	)
	SELECT incarnation_id, partition, next_offset FROM moved`

// quarantine moves the position for a batch with one message, and stores the record in quarantine instead of a
// message.
func (s *Store) quarantine(ctx context.Context, batch repository.Batch, refusal error) (repository.Stored, error) {
	m := &batch.Messages[0]
	state, err := recordState(m.Record)
	if err != nil {
		return repository.Stored{}, err
	}
	code, text := refusalOf(refusal)
	args := append(rangeArgs(batch.Ranges), m.ID, m.Source.TopicID, m.Source.Offset, timestampOf(m.Source),
		packHeaders(m.Record.Headers), state, code, text, s.clock(), repository.QuarantineRest.Microseconds(),
		nullBytes(m.Record.Key), nullBytes(m.Record.Value))
	var found []positionRow
	if err := s.selectRows(ctx, &found, quarantineQuery, args...); err != nil {
		return repository.Stored{}, err
	}
	var stored repository.Stored
	for _, f := range found {
		stored.Ranges = append(stored.Ranges, f.partition())
		stored.Quarantined = append(stored.Quarantined, repository.Refused{Source: m.Source, SQLState: code})
	}
	return stored, nil
}

// nullBytes returns NULL for nil; the driver would send empty bytes.
func nullBytes(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// recordState returns the JSON of a record without its bytes.
func recordState(r entity.Record) (string, error) {
	r.Key, r.Value, r.Headers = nil, nil, nil
	state, err := json.Marshal(r)
	return string(state), err
}

// timestampOf is a record's timestamp in milliseconds; NULL when it has none.
func timestampOf(source entity.Source) any {
	switch {
	case source.RawTime != 0:
		return source.RawTime
	case source.Timestamp.IsZero():
		return nil
	}
	return source.Timestamp.UnixMilli()
}

// refusalOf returns the SQLSTATE and the text of the server's refusal.
func refusalOf(err error) (code, text string) {
	var pe *pq.Error
	if errors.As(err, &pe) {
		return string(pe.Code), clean(pe.Message)
	}
	return "", clean(err.Error())
}

// bisect stores a refused batch in halves, down to single messages that are refused, which go into quarantine. Each
// step is committed: other partitions do not wait, and a crash leaves every position where its messages end. With an
// error it returns what was stored.
func (s *Store) bisect(ctx context.Context, batch repository.Batch, known *prepared, refusal error) (repository.Stored, error) {
	if len(batch.Messages) == 0 {
		return repository.Stored{}, refusal // the refusal is not about a message
	}
	if len(batch.Messages) == 1 && len(batch.Ranges) == 1 {
		return s.quarantine(ctx, batch, refusal)
	}
	first, second := halves(batch)
	ofFirst, ofSecond := known.halves(len(first.Messages))
	stored, err := s.storeOrBisect(ctx, first, ofFirst)
	var rest repository.Stored
	if err == nil {
		rest, err = s.storeOrBisect(ctx, second, ofSecond)
	}
	// A partition with a range in both halves counts when its second range does.
	later := make(map[repository.Partition]bool, len(second.Ranges))
	for _, r := range second.Ranges {
		later[r.Partition] = true
	}
	for _, p := range stored.Ranges {
		if !later[p] {
			rest.Ranges = append(rest.Ranges, p)
		}
	}
	rest.Returns = append(stored.Returns, rest.Returns...)
	rest.Quarantined = append(stored.Quarantined, rest.Quarantined...)
	return rest, err
}

// halves splits a batch: a range with messages in both halves is split at the first message of the second half.
// Ranges without messages are in the first.
func halves(b repository.Batch) (first, second repository.Batch) {
	first, second = b, b
	middle := len(b.Messages) / 2
	first.Messages, second.Messages = b.Messages[:middle], b.Messages[middle:]
	first.Ranges, second.Ranges = nil, nil
	partition := func(m *entity.Message) repository.Partition {
		return repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
	}
	before, cut := map[repository.Partition]bool{}, map[repository.Partition]int64{}
	for i := range first.Messages {
		before[partition(&first.Messages[i])] = true
	}
	for i := range second.Messages {
		m := &second.Messages[i]
		if _, known := cut[partition(m)]; !known {
			cut[partition(m)] = m.Source.Offset
		}
	}
	for _, r := range b.Ranges {
		at, behind := cut[r.Partition]
		switch {
		case !behind:
			first.Ranges = append(first.Ranges, r)
		case !before[r.Partition]:
			second.Ranges = append(second.Ranges, r)
		default:
			first.Ranges = append(first.Ranges, repository.Range{Partition: r.Partition, From: r.From, To: at})
			second.Ranges = append(second.Ranges, repository.Range{Partition: r.Partition, From: at, To: r.To})
		}
	}
	return first, second
}

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

// quarantineColumns are the columns of a quarantineRow; limit is the SQL of the longest key, value and headers that
// are read, negative for any.
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
		FirstTry: entity.Moment(r.FirstTry), LastTry: entity.Moment(r.LastTry), RetryAt: entity.Moment(r.RetryAt),
	}
	if r.Timestamp.Valid {
		q.Source.Timestamp, q.Source.RawTime = entity.RecordTime(r.Timestamp.Int64)
	}
	if err := json.Unmarshal([]byte(r.State), &q.Record); err != nil {
		return q, fmt.Errorf("quarantined record %s: %w", r.ID, err)
	}
	headers, err := unpackHeaders(r.Headers)
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
func (s *Store) Quarantined(ctx context.Context, q repository.QuarantineQuery) ([]entity.Quarantined, error) {
	var visible, before any
	if q.Visible != nil {
		var topics []topicRow
		if err := s.selectRows(ctx, &topics, `SELECT id, name FROM dlq.topics`); err != nil {
			return nil, translate("list quarantined records", err)
		}
		numbers := newColumn(oidInt4, len(topics), 4)
		for _, n := range matching(*q.Visible, nil, topics).numbers {
			numbers.int32(n)
		}
		visible = numbers.arg()
	}
	if !q.Before.CreatedAt.IsZero() {
		before = q.Before.CreatedAt
	}
	args := []any{repository.ListValueLimit, visible, clean(q.Topic), before, q.Before.ID, q.Limit}
	list, err := s.quarantinedToShow(ctx, quarantinedQuery, args)
	return list, translate("list quarantined records", err)
}

// quarantinedToShow reads records one after the other, with the headers that a page may have, and reserves their
// memory in the room of ctx.
func (s *Store) quarantinedToShow(ctx context.Context, query string, args []any) (list []entity.Quarantined, err error) {
	var shown shownPage
	err = s.withRows(ctx, query, args, func(rows *sql.Rows) error {
		scanned := sqlx.Rows{Rows: rows, Mapper: s.db.Mapper}
		for rows.Next() {
			var r quarantineRow
			if err := scanned.StructScan(&r); err != nil {
				return err
			}
			q, err := r.quarantined()
			if err != nil {
				return err
			}
			shown.boundHeaders(&q.Record)
			m := q.Message()
			if err := repository.TakeRoom(ctx, repository.SizeInMemory(&m)); err != nil {
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
func (s *Store) QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error) {
	found, err := s.quarantinedToShow(ctx, quarantinedRecordQuery, []any{id, repository.ListValueLimit})
	if err != nil {
		return entity.Quarantined{}, translate("read a quarantined record", err)
	}
	if len(found) == 0 {
		return entity.Quarantined{}, &entity.QuarantineNotFoundError{ID: id}
	}
	return found[0], nil
}

// QuarantineCounts implements repository.Quarantine.
func (s *Store) QuarantineCounts(ctx context.Context) ([]repository.QuarantineCount, error) {
	var counts []repository.QuarantineCount
	err := s.selectRows(ctx, &counts, `
		SELECT t.name AS topic, q.records FROM (SELECT dlq_topic_id, count(*) AS records FROM dlq.quarantine GROUP BY 1) q
		JOIN dlq.topics t ON t.id = q.dlq_topic_id ORDER BY 1`)
	return counts, translate("count quarantined records", err)
}

// WakeQuarantined implements repository.Quarantine.
func (s *Store) WakeQuarantined(ctx context.Context) error {
	return translate("wake quarantined records", s.exec(ctx, `
		UPDATE dlq.quarantine SET retry_at = c.moment FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) c
		WHERE retry_at > c.moment`, s.clock()))
}

// A manual action on a quarantined record is in the audit trail with the position and SQLSTATE. The database's
// message may quote the record.
const (
	auditQuarantine = `, audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, last_error, topics, actor, reason, request_id, trace_id, operation_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), $8, 'quarantine', q.id,
			format('%s/%s/%s: SQLSTATE %s', t.name, q.partition, q.dlq_offset, q.sqlstate), ARRAY[t.name], ` + causeFrom3 + `
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
func (s *Store) RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Quarantined, error) {
	if err := s.onQuarantined(ctx, "retry a quarantined record", entity.ActionRetry, retryQuarantinedQuery, id, cause); err != nil {
		return entity.Quarantined{}, err
	}
	return s.QuarantinedRecord(ctx, id)
}

// DeleteQuarantined implements repository.Quarantine.
func (s *Store) DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) error {
	return s.onQuarantined(ctx, "delete a quarantined record", entity.ActionDelete, deleteQuarantinedQuery, id, cause)
}

func (s *Store) onQuarantined(ctx context.Context, where string, action entity.Action, query string, id uuid.UUID, cause entity.Cause) error {
	cause = withOperation(cause)
	var done []uuid.UUID
	if err := s.selectRows(ctx, &done, query, append(append([]any{id, s.clock()}, causeArgs(cause)...), string(action))...); err != nil {
		return translate(where, err)
	}
	if len(done) > 0 {
		return nil
	}
	// The driver may have sent the statement twice; then the first one was executed.
	again, err := s.performedOn(ctx, cause.Operation, action, []uuid.UUID{id})
	if err != nil {
		return translate(where, err)
	}
	if len(again) == 0 {
		return &entity.QuarantineNotFoundError{ID: id}
	}
	return nil
}

// TakeQuarantined implements repository.Quarantine.
func (s *Store) TakeQuarantined(ctx context.Context) (*entity.Quarantined, error) {
	var found []quarantineRow
	err := s.selectRows(ctx, &found, takeQuarantinedQuery, s.clock(), repository.QuarantineRest.Microseconds())
	if err != nil || len(found) == 0 {
		return nil, translate("take a quarantined record", err)
	}
	q, err := found[0].quarantined()
	return &q, err
}

// Release implements repository.Quarantine.
func (s *Store) Release(ctx context.Context, batch repository.Batch) (repository.Stored, error) {
	m := &batch.Messages[0]
	at := repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
	batch.Ranges = []repository.Range{{Partition: at, From: m.Source.Offset, To: m.Source.Offset + 1}}
	stored, err := s.storeWhole(ctx, batch, releaseSteps, s.prepare(batch))
	if refused(err) {
		code, text := refusalOf(err)
		noted := s.exec(ctx, `UPDATE dlq.quarantine SET sqlstate = $2, error = $3 WHERE id = $1`, m.ID, code, text)
		if noted != nil {
			err = noted
		}
	}
	return stored, translate("release a quarantined record", err)
}
