package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// A topic's messages are found by its name as original topic and as dead-letter topic: two index walks, merged in
// order. The second leaves out what the first found, as a range of its index: the planner does not know a name's
// number and would walk all messages. offset and size are SQL expressions.
func pageOfTopic(offset, size string) string {
	return `
	SELECT id, created_at FROM (
		(SELECT id, created_at FROM dlq.dlq_messages
		 WHERE original_topic = $1 ORDER BY created_at DESC, id DESC LIMIT ` + offset + ` + ` + size + `)
		UNION ALL
		(SELECT m.id, m.created_at FROM dlq.topics t CROSS JOIN LATERAL (
			SELECT id, created_at FROM dlq.dlq_messages
			WHERE (dlq_topic_id, created_at, id) >= (t.id, '-infinity'::timestamptz, ` + zeroUUID + `)
			  AND (dlq_topic_id, created_at, id) <= (t.id, 'infinity'::timestamptz, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
			  AND original_topic <> $1
			ORDER BY dlq_topic_id DESC, created_at DESC, id DESC LIMIT ` + offset + ` + ` + size + `
		 ) m WHERE t.name = $1)
	) both_names
	ORDER BY created_at DESC, id DESC OFFSET ` + offset + ` LIMIT ` + size
}

// listQueryOf lists a page. The total comes from the counters in the page's snapshot, also for an empty page. room
// limits the bytes of keys, values and headers; sizes are known without reading out-of-line values.
func listQueryOf(offset, size, limit, page string) string {
	return `
	WITH total AS (
		SELECT coalesce(sum(messages), 0)::bigint AS total FROM dlq.message_counters
		WHERE original_topic = $1
		   OR dlq_topic_id = (SELECT id FROM dlq.topics WHERE name = $1)
	)
	SELECT total.total, m.* FROM total LEFT JOIN LATERAL (
		SELECT ` + stateColumns + `, ` + byteColumns("m.room", "m.room") + `, ` + consumptionColumns + `
		FROM (
			SELECT m.*, CASE WHEN sum(` + listedSize(limit) + `) OVER (ORDER BY m.created_at DESC, m.id DESC) <= ` + page + `
				THEN ` + limit + ` ELSE 0 END AS room
			FROM (` + pageOfTopic(offset, size) + `) page JOIN dlq.messages m ON m.id = page.id
		) m
		LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + consumptionOf + `
		ORDER BY m.created_at DESC, m.id DESC
	) m ON ` + offset + ` < total.total`
}

// listQuery is for any page.
var listQuery = listQueryOf("$2::bigint", "$3::bigint", "$4::bigint", "$5::bigint")

// firstPageQuery is the first page, which is requested most: the planner sees its size and uses one plan for all
// topics. Planning takes longer than running it.
func firstPageQuery(size int) string {
	return listQueryOf("0::bigint", number(size), number(repository.ListValueLimit), number(repository.ListPageLimit))
}

func number(n int) string { return strconv.Itoa(n) + "::bigint" }

// expected is how many messages of a page get memory at once: asking for a large page of a small topic reserves no
// more.
const expected = 64

// List implements repository.Reader.
func (s *Store) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	if topic != clean(topic) {
		return repository.List{}, nil // no topic can have such a name
	}
	query, args := listQuery, []any{topic, page.Offset(), page.Size, repository.ListValueLimit, repository.ListPageLimit}
	if page.Offset() == 0 {
		query, args = firstPageQuery(page.Size), args[:1]
	}
	list := repository.List{Messages: make([]entity.Message, 0, min(page.Size, expected))}
	var shown shownPage
	var total int64
	err := s.eachRow(ctx, query, args, &total, func(r *row) error {
		list.Total = total
		if !r.present() {
			return nil
		}
		m, err := shown.message(ctx, r)
		list.Messages = append(list.Messages, m)
		return err
	})
	return list, translate("list messages", err)
}

// shownPage counts the headers of a page.
type shownPage struct{ headers int }

// message returns the message of a row of the page. Its headers are left out unless all of them are within the
// limits.
func (p *shownPage) message(ctx context.Context, r *row) (entity.Message, error) {
	m, err := r.messageToShow()
	if err != nil {
		return m, err
	}
	p.boundHeaders(&m.Record)
	return m, repository.TakeRoom(ctx, repository.SizeInMemory(&m))
}

// boundHeaders removes the headers of a record if they are over the limits.
func (p *shownPage) boundHeaders(r *entity.Record) {
	p.headers += len(r.Headers)
	if len(r.Headers) > 0 && (r.HeadersOmitted || p.headers > repository.ListHeaderLimit) {
		r.Headers, r.HeadersOmitted = nil, true
	}
}

var getQuery = `
	SELECT ` + stateColumns + `, ` + firstByteColumns("$2::bigint", repository.KeyLimit) + `, ` + consumptionColumns + `
	FROM dlq.messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + consumptionOf + `
	WHERE m.id = $1`

// Get implements repository.Reader.
func (s *Store) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return s.getOne(ctx, "get message", getQuery, id, maxValue)
}

// getOne reads the message with that id.
func (s *Store) getOne(ctx context.Context, where, query string, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var m entity.Message
	found := false
	err := s.eachRow(ctx, query, []any{id, maxValue}, nil, func(r *row) (err error) {
		found = true
		if m, err = r.messageToShow(); err != nil {
			return err
		}
		return repository.TakeRoom(ctx, repository.SizeInMemory(&m))
	})
	switch {
	case err != nil:
		return entity.Message{}, translate(fmt.Sprintf("%s %s", where, id), err)
	case !found:
		return entity.Message{}, &entity.NotFoundError{ID: id}
	}
	return m, nil
}

// total is the bytes of key, value and headers of a message and of all earlier ones; out-of-line values are read
// while it is within $2.
var loadQuery = `
	SELECT m.total, ` + stateColumns + `, ` + byteColumns("m.room", "m.room") + `
	FROM (
		SELECT m.*, CASE WHEN m.total <= $2 THEN -1 ELSE 0 END AS room
		FROM (
			SELECT m.*, w.ord, sum(coalesce(octet_length(m.value), pg_column_size(m.payload), 0)
			       + coalesce(octet_length(m.headers), 0) + coalesce(octet_length(m.key), 0))
			       OVER (ORDER BY w.ord ROWS UNBOUNDED PRECEDING) AS total
			FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, ord) JOIN dlq.messages m ON m.id = w.id
		) m
	) m
	LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	ORDER BY m.ord`

// Load implements repository.Reader.
func (s *Store) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	if len(ids) == 0 {
		return nil, 0, nil
	}
	var total, tooLarge int64
	examined := len(ids)
	loaded := make([]entity.Message, 0, len(ids))
	err := s.eachRow(ctx, loadQuery, []any{uuids(ids), maxBytes}, &total, func(r *row) error {
		switch {
		case examined < len(ids): // an earlier message did not fit
			return nil
		case total <= maxBytes:
			m, err := r.messageWithBytes()
			loaded = append(loaded, m)
			return err
		case len(loaded) == 0:
			tooLarge = total
		}
		examined = slices.Index(ids, r.ID.UUID)
		return nil
	})
	switch {
	case err != nil:
		return nil, 0, translate("load messages", err)
	case tooLarge > 0:
		return nil, 0, &repository.TooLargeError{Bytes: tooLarge}
	}
	return loaded, examined, nil
}

// partQuery reads a part of a value. Values are stored out of line and uncompressed, so that only the part is read.
// bytea counts from 1.
func partQuery(from source) string {
	return `SELECT substring(m.value FROM $2::int + 1 FOR $3::int) AS value FROM ` + from.view + ` m WHERE ` + from.has("$1")
}

var partQueries = map[bool]string{false: partQuery(sourceOf(false)), true: partQuery(sourceOf(true))}

// ValuePart implements repository.Reader.
func (s *Store) ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	var part []byte
	found := false
	err := s.eachRow(ctx, partQueries[p.Archived], []any{p.ID, p.From, p.Length}, nil, func(r *row) error {
		part, found = r.Value, true
		return nil
	})
	switch {
	case err != nil:
		return nil, translate(fmt.Sprintf("read value of %s", p.ID), err)
	case !found:
		return nil, &entity.NotFoundError{ID: p.ID}
	}
	return part, nil
}

// Counts implements repository.Reader.
func (s *Store) Counts(ctx context.Context) ([]repository.Count, error) {
	var found []struct {
		Topic    string `db:"original_topic"`
		Status   string `db:"status"`
		Messages int64  `db:"messages"`
	}
	err := s.selectRows(ctx, &found, `
		SELECT original_topic, status, sum(messages)::bigint AS messages
		FROM dlq.message_counters GROUP BY 1, 2 HAVING sum(messages) <> 0 ORDER BY 1, 2`)
	if err != nil {
		return nil, translate("count messages", err)
	}
	counts := make([]repository.Count, len(found))
	for i, f := range found {
		counts[i] = repository.Count{OriginalTopic: f.Topic, Status: entity.Status(f.Status), Messages: f.Messages}
	}
	return counts, nil
}

const historyQuery = `
	SELECT ` + attemptColumns + `, ` + editColumns + `
	FROM dlq.attempts a LEFT JOIN dlq.edits e ON e.message_id = a.message_id AND e.attempt_id = a.attempt_id
	WHERE a.message_id = $1 ORDER BY a.attempt_no`

// History implements repository.Attempts.
func (s *Store) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	var found []struct {
		attemptRow
		editRow
	}
	err := s.selectRows(ctx, &found, historyQuery, id)
	if err != nil {
		return nil, translate("read history", err)
	}
	attempts := make([]entity.Attempt, len(found))
	for i := range found {
		attempts[i] = found[i].attempt()
		if attempts[i].Edit, err = found[i].edit(); err == nil {
			err = repository.TakeRoom(ctx, repository.EditSizeInMemory(attempts[i].Edit))
		}
		if err != nil {
			return nil, fmt.Errorf("read history of %s: %w", id, err)
		}
	}
	return attempts, nil
}

func uuids(ids []uuid.UUID) []byte {
	c := newColumn(oidUUID, len(ids), 16)
	for _, id := range ids {
		c.uuid(id)
	}
	return c.arg()
}

// oneQuery reads one message with its bytes and a key of at most keyLimit bytes.
func oneQuery(from source, keyLimit int) string {
	return `
	SELECT ` + stateColumns + `, ` + firstByteColumns("$2::bigint", keyLimit) + `, ` + consumptionColumns + `
	FROM ` + from.view + ` m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + consumptionOf + `
	WHERE ` + from.has("$1")
}

var (
	fromArchive      = sourceOf(true)
	getArchivedQuery = oneQuery(fromArchive, repository.KeyLimit)
)

// GetArchived implements repository.Archive.
func (s *Store) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var found []row
	if err := s.selectRows(ctx, &found, getArchivedQuery, id, maxValue); err != nil {
		return entity.Message{}, translate("get archived message", err)
	}
	if len(found) == 0 {
		return entity.Message{}, &entity.NotFoundError{ID: id}
	}
	m, err := found[0].messageToShow()
	if err == nil {
		err = repository.TakeRoom(ctx, repository.SizeInMemory(&m))
	}
	if err != nil {
		return entity.Message{}, fmt.Errorf("get archived message %s: %w", id, err)
	}
	return m, nil
}

// restoredColumns are those that a message keeps; the others are of its retries, which begin again.
const restoredColumns = `
	id, original_topic, error_message, max_retries, payload, created_at, last_retry_at,
	key, value, headers, payload_note, omitted_size, omitted_sha256, defect,
	dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp, dlq_timestamp_ms,
	original_partition, original_offset, original_timestamp, origin_confidence,
	consumer_group, consumer_attempts, dialect, error_class, group_id, parent_id, root_id,
	attempt_no, last_publish_error, last_publish_error_class, record_hash`

// restoreQuery moves the row in one statement, so that it is always in one of the tables.
var restoreQuery = `
	WITH gone AS (
		DELETE FROM dlq.dlq_messages_archive m WHERE ` + fromArchive.has("$1") + ` RETURNING *
	), back AS (
		INSERT INTO dlq.dlq_messages (` + restoredColumns + `, status, retry_count, updated_at, next_attempt_at)
		SELECT ` + restoredColumns + `, 'PENDING', 0, c.moment, c.moment
		FROM gone, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		RETURNING *
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id)
		SELECT m.updated_at, 'restore', 'message', m.id, g.status, m.status, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + causeFrom3 + `
		FROM back m JOIN gone g ON g.id = m.id
	)
	SELECT ` + stateColumns + ` FROM back m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// Restore implements repository.Archive.
func (s *Store) Restore(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	cause = withOperation(cause)
	var back []row
	if err := s.selectRows(ctx, &back, restoreQuery, append([]any{id, s.clock()}, causeArgs(cause)...)...); err != nil {
		return entity.Message{}, translate("restore message", err)
	}
	if len(back) > 0 {
		return back[0].message(), nil
	}
	again, err := s.performedOn(ctx, cause.Operation, entity.ActionRestore, []uuid.UUID{id})
	if err != nil {
		return entity.Message{}, translate("restore message", err)
	}
	if len(again) > 0 {
		return s.Get(ctx, id, 0)
	}
	return entity.Message{}, &entity.NotFoundError{ID: id}
}
