package messages

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Messages reads and changes messages.
type Messages struct{ db *conn.DB }

// New returns Messages that send their statements to db.
func New(db *conn.DB) *Messages { return &Messages{db} }

// pageOfTopic returns the query for the ids of a page. A message belongs to a topic when the topic is its original
// topic or its dead-letter topic. The query walks one index for each of these two columns, and merges their messages in
// order. The second walk leaves out messages that the first walk returns. The second walk compares the dead-letter
// topic with a range of (topic, time, id) and not for equality, because PostgreSQL does not know the topic's id when it
// plans the query, and would walk all messages. The parameters offset and size are SQL expressions.
func pageOfTopic(offset, size string) string {
	return `
	SELECT id, created_at FROM (
		(SELECT id, created_at FROM dlq.dlq_messages
		 WHERE original_topic = $1 ORDER BY created_at DESC, id DESC LIMIT ` + offset + ` + ` + size + `)
		UNION ALL
		(SELECT m.id, m.created_at FROM dlq.topics t CROSS JOIN LATERAL (
			SELECT id, created_at FROM dlq.dlq_messages
			WHERE (dlq_topic_id, created_at, id) >= (t.id, '-infinity'::timestamptz, ` + codec.ZeroUUID + `)
			  AND (dlq_topic_id, created_at, id) <= (t.id, 'infinity'::timestamptz, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
			  AND original_topic <> $1
			ORDER BY dlq_topic_id DESC, created_at DESC, id DESC LIMIT ` + offset + ` + ` + size + `
		 ) m WHERE t.name = $1)
	) both_names
	ORDER BY created_at DESC, id DESC OFFSET ` + offset + ` LIMIT ` + size
}

// listQueryOf returns the query for a page of a topic. The total comes from the counters in the same snapshot, and is
// returned even when the page is empty. The column room is a limit in bytes: a longer key or value, and longer headers,
// are not read. It is 0 for messages that no longer fit into the page. PostgreSQL knows the lengths without reading
// values that are stored out of line.
func listQueryOf(offset, size, limit, page string) string {
	return `
	WITH total AS (
		SELECT coalesce(sum(messages), 0)::bigint AS total FROM dlq.message_counters
		WHERE original_topic = $1
		   OR dlq_topic_id = (SELECT id FROM dlq.topics WHERE name = $1)
	)
	SELECT total.total, m.* FROM total LEFT JOIN LATERAL (
		SELECT ` + codec.StateColumns + `, ` + codec.ByteColumns("m.room", "m.room") + `, ` + codec.ConsumptionColumns + `
		FROM (
			SELECT m.*, CASE WHEN sum(` + codec.ListedSize(limit) + `) OVER (ORDER BY m.created_at DESC, m.id DESC) <= ` + page + `
				THEN ` + limit + ` ELSE 0 END AS room
			FROM (` + pageOfTopic(offset, size) + `) page JOIN dlq.messages m ON m.id = page.id
		) m
		LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + codec.ConsumptionOf + `
		ORDER BY m.created_at DESC, m.id DESC
	) m ON ` + offset + ` < total.total`
}

var listQuery = listQueryOf("$2::bigint", "$3::bigint", "$4::bigint", "$5::bigint")

// firstPageQuery returns the query for the first page, which is requested most. The size of the page is in the text, so
// that PostgreSQL knows it and can use one plan for all topics. Otherwise PostgreSQL would plan each request, which
// takes longer than running the query.
func firstPageQuery(size int) string {
	return listQueryOf("0::bigint", codec.Bigint(size), codec.Bigint(repository.ListValueLimit), codec.Bigint(repository.ListPageLimit))
}

// List implements repository.Reader.
func (s *Messages) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	if topic != codec.Clean(topic) {
		return repository.List{}, nil // a text column cannot contain this name, so no message has this topic
	}
	query, args := listQuery, []any{topic, page.Offset(), page.Size, repository.ListValueLimit, repository.ListPageLimit}
	if page.Offset() == 0 {
		query, args = firstPageQuery(page.Size), args[:1]
	}
	list := repository.List{Messages: make([]entity.Message, 0, min(page.Size, codec.Expected))}
	var shown codec.ShownPage
	var total int64
	err := codec.EachRow(ctx, s.db, query, args, &total, func(r *codec.Row) error {
		list.Total = total
		if !r.Present() {
			return nil
		}
		m, err := shown.Message(ctx, r)
		list.Messages = append(list.Messages, m)
		return err
	})
	return list, conn.Translate("list messages", err)
}

var getQuery = `
	SELECT ` + codec.StateColumns + `, ` + codec.FirstByteColumns("$2::bigint", repository.KeyLimit) + `, ` + codec.ConsumptionColumns + `
	FROM dlq.messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + codec.ConsumptionOf + `
	WHERE m.id = $1`

// Get implements repository.Reader.
func (s *Messages) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return s.getOne(ctx, "get message", getQuery, id, maxValue)
}

// getOne runs a query for one message, whose id is the first parameter.
func (s *Messages) getOne(ctx context.Context, where, query string, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var m entity.Message
	found := false
	err := codec.EachRow(ctx, s.db, query, []any{id, maxValue}, nil, func(r *codec.Row) (err error) {
		found = true
		if m, err = r.MessageToShow(); err != nil {
			return err
		}
		return repository.ReserveMemory(ctx, repository.SizeInMemory(&m))
	})
	switch {
	case err != nil:
		return entity.Message{}, conn.Translate(fmt.Sprintf("%s %s", where, id), err)
	case !found:
		return entity.Message{}, &entity.NotFoundError{ID: id}
	}
	return m, nil
}

// The column total is the sum of the bytes of key, value and headers of a message and of all messages before it in the
// list. Values that are stored out of line are read only while total is at most $2.
var loadQuery = `
	SELECT m.total, ` + codec.StateColumns + `, ` + codec.ByteColumns("m.room", "m.room") + `
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
func (s *Messages) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	if len(ids) == 0 {
		return nil, 0, nil
	}
	var total, tooLarge int64
	examined := len(ids)
	loaded := make([]entity.Message, 0, len(ids))
	err := codec.EachRow(ctx, s.db, loadQuery, []any{codec.UUIDArray(ids), maxBytes}, &total, func(r *codec.Row) error {
		switch {
		case examined < len(ids): // an earlier message in the list did not fit into maxBytes
			return nil
		case total <= maxBytes:
			m, err := r.MessageWithBytes()
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
		return nil, 0, conn.Translate("load messages", err)
	case tooLarge > 0:
		return nil, 0, &repository.TooLargeError{Bytes: tooLarge}
	}
	return loaded, examined, nil
}

// partQuery returns the query for a part of a value. Values are stored out of line and uncompressed, so PostgreSQL
// reads only that part. In a bytea, the first byte has the position 1.
func partQuery(from codec.Source) string {
	return `SELECT substring(m.value FROM $2::int + 1 FOR $3::int) AS value FROM ` + from.View + ` m WHERE ` + from.Has("$1")
}

var partQueries = map[bool]string{false: partQuery(codec.SourceOf(false)), true: partQuery(codec.SourceOf(true))}

// ValuePart implements repository.Reader.
func (s *Messages) ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	var part []byte
	found := false
	err := codec.EachRow(ctx, s.db, partQueries[p.Archived], []any{p.ID, p.From, p.Length}, nil, func(r *codec.Row) error {
		part, found = r.Value, true
		return nil
	})
	switch {
	case err != nil:
		return nil, conn.Translate(fmt.Sprintf("read value of %s", p.ID), err)
	case !found:
		return nil, &entity.NotFoundError{ID: p.ID}
	}
	return part, nil
}

// Counts implements repository.Reader.
func (s *Messages) Counts(ctx context.Context) ([]repository.Count, error) {
	var found []struct {
		Topic    string `db:"original_topic"`
		Status   string `db:"status"`
		Messages int64  `db:"messages"`
	}
	err := s.db.Select(ctx, &found, `
		SELECT original_topic, status, sum(messages)::bigint AS messages
		FROM dlq.message_counters GROUP BY 1, 2 HAVING sum(messages) <> 0 ORDER BY 1, 2`)
	if err != nil {
		return nil, conn.Translate("count messages", err)
	}
	counts := make([]repository.Count, len(found))
	for i, f := range found {
		counts[i] = repository.Count{OriginalTopic: f.Topic, Status: entity.Status(f.Status), Messages: f.Messages}
	}
	return counts, nil
}

const historyQuery = `
	SELECT ` + codec.AttemptColumns + `, ` + codec.EditColumns + `
	FROM dlq.attempts a LEFT JOIN dlq.edits e ON e.message_id = a.message_id AND e.attempt_id = a.attempt_id
	WHERE a.message_id = $1 ORDER BY a.attempt_no`

// History implements repository.Attempts.
func (s *Messages) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	var found []struct {
		codec.AttemptRow
		codec.EditRow
	}
	err := s.db.Select(ctx, &found, historyQuery, id)
	if err != nil {
		return nil, conn.Translate("read history", err)
	}
	attempts := make([]entity.Attempt, len(found))
	for i := range found {
		attempts[i] = found[i].Attempt()
		if attempts[i].Edit, err = found[i].Edit(); err == nil {
			err = repository.ReserveMemory(ctx, repository.EditSizeInMemory(attempts[i].Edit))
		}
		if err != nil {
			return nil, fmt.Errorf("read history of %s: %w", id, err)
		}
	}
	return attempts, nil
}
