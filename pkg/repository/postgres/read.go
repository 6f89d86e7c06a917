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

// A topic's messages are found under its name as original topic and as
// dead-letter topic: two walks of two indexes, merged, each already in order.
// The second leaves out what the first found; it is written as a range of its index,
// for the planner does not know the number of a name, and would take a walk of all
// messages for the shorter way. offset and size are SQL expressions.
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

// listQueryOf lists a page. The total comes from the counters, in the page's own
// snapshot; its row is there even when the page is empty. room is what may be
// loaded of a message's key, value and headers: nothing once the page has had its bytes.
// Sizes are known without reading what lies out of line.
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

// firstPageQuery is for the first page of a size, which is what most ask for: the
// planner sees how little it is, and settles on one plan for all topics. To make a
// plan takes longer than to run it.
func firstPageQuery(size int) string {
	return listQueryOf("0::bigint", number(size), number(repository.ListValueLimit), number(repository.ListPageLimit))
}

func number(n int) string { return strconv.Itoa(n) + "::bigint" }

// expected is for how many messages of a page there is room at once: nobody gets
// memory by asking for a large page of a small topic.
const expected = 64

// List implements repository.Reader.
func (s *Store) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	if topic != clean(topic) {
		return repository.List{}, nil // a name that no topic can have
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
	if err != nil {
		return repository.List{}, translate("list messages", err)
	}
	return list, nil
}

// shownPage counts the headers of a page.
type shownPage struct{ headers int }

// message is that of a row of the page. Its headers are left out unless all of them
// are within the limits.
func (p *shownPage) message(ctx context.Context, r *row) (entity.Message, error) {
	m, err := r.messageToShow()
	if err != nil {
		return m, err
	}
	p.boundHeaders(&m.Record)
	return m, repository.TakeRoom(ctx, repository.SizeInMemory(&m))
}

// boundHeaders leaves the headers of a record out that are over the limits.
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

// getOne reads the message of an id.
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

// total is what the key, the value and the headers of a message and of those before it take, in bytes.
// Sizes are known without reading what lies out of line: it is read while total is within
// $2.
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
		case examined < len(ids): // a message before did not fit
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

// partQuery reads a part of a value. Values lie out of line as they are, so that no
// more than the part is read. bytea counts from 1.
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
