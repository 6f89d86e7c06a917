package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// A topic's messages are found under its name as original topic and as
// dead-letter topic: two walks of two indexes, merged, each already in order.
// The second leaves out what the first found.
const pageOfTopic = `
	SELECT id, created_at FROM (
		(SELECT id, created_at FROM dlq.dlq_messages
		 WHERE original_topic = $1 ORDER BY created_at DESC, id DESC LIMIT $2::bigint + $3)
		UNION ALL
		(SELECT id, created_at FROM dlq.dlq_messages
		 WHERE dlq_topic_id = (SELECT id FROM dlq.topics WHERE name = $1) AND original_topic <> $1
		 ORDER BY created_at DESC, id DESC LIMIT $2::bigint + $3)
	) both_names
	ORDER BY created_at DESC, id DESC OFFSET $2::bigint LIMIT $3`

// The total comes from the counters, in the page's own snapshot; its row is
// there even when the page is empty. room is what may be loaded of a message's
// value and headers: nothing once the page has had its bytes. Sizes are known
// without reading what lies out of line.
var listQuery = `
	WITH total AS (
		SELECT coalesce(sum(messages), 0)::bigint AS total FROM dlq.message_counters
		WHERE original_topic = $1
		   OR dlq_topic_id = (SELECT id FROM dlq.topics WHERE name = $1)
	)
	SELECT total.total, m.* FROM total LEFT JOIN LATERAL (
		SELECT ` + stateColumns + `, ` + byteColumns("m.room", "m.room") + `, ` + consumptionColumns + `
		FROM (
			SELECT m.*, CASE WHEN sum(
				coalesce(octet_length(m.key), 0) + octet_length(m.error_message)
				+ CASE WHEN coalesce(octet_length(m.value), pg_column_size(m.payload)) <= $4::bigint
				       THEN coalesce(octet_length(m.value), pg_column_size(m.payload)) ELSE 0 END
				+ CASE WHEN octet_length(m.headers) <= $4 THEN octet_length(m.headers) ELSE 0 END
			) OVER (ORDER BY m.created_at DESC, m.id DESC) <= $5::bigint THEN $4 ELSE 0 END AS room
			FROM (` + pageOfTopic + `) page JOIN dlq.dlq_messages m ON m.id = page.id
		) m
		LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + consumptionOf + `
		ORDER BY m.created_at DESC, m.id DESC
	) m ON $2::bigint < total.total`

type listRow struct {
	Total int64 `db:"total"`
	row
}

// List implements repository.Reader.
func (s *Store) List(ctx context.Context, topic string, page repository.Page) (repository.List, error) {
	if topic != clean(topic) {
		return repository.List{}, nil // a name that no topic can have
	}
	var found []listRow
	if err := s.selectRows(ctx, &found, listQuery, topic, page.Offset(), page.Size,
		repository.ListValueLimit, repository.ListPageLimit); err != nil {
		return repository.List{}, translate("list messages", err)
	}
	list := repository.List{Messages: make([]entity.Message, 0, len(found))}
	for i := range found {
		list.Total = found[i].Total
		if !found[i].present() {
			continue
		}
		m, err := found[i].messageWithBytes()
		if err != nil {
			return repository.List{}, fmt.Errorf("list messages: %w", err)
		}
		list.Messages = append(list.Messages, m)
	}
	return list, nil
}

var getQuery = `
	SELECT ` + stateColumns + `, ` + byteColumns("$2::bigint", "-1") + `, ` + consumptionColumns + `
	FROM dlq.dlq_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + consumptionOf + `
	WHERE m.id = $1`

// Get implements repository.Reader.
func (s *Store) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var found []row
	if err := s.selectRows(ctx, &found, getQuery, id, maxValue); err != nil {
		return entity.Message{}, translate("get message", err)
	}
	if len(found) == 0 {
		return entity.Message{}, &entity.NotFoundError{ID: id}
	}
	m, err := found[0].messageWithBytes()
	if err != nil {
		return entity.Message{}, fmt.Errorf("get message %s: %w", id, err)
	}
	return m, nil
}

// cut is the first of the ids whose size no longer fits; the first that exists
// always does. Sizes are known without reading the values.
var loadQuery = `
	WITH want AS (
		SELECT id, ord FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, ord)
	), sized AS MATERIALIZED (
		SELECT w.id, w.ord, min(w.ord) OVER () AS first_ord,
		       sum(coalesce(octet_length(m.value), pg_column_size(m.payload), 0)
		           + coalesce(octet_length(m.headers), 0) + coalesce(octet_length(m.key), 0)) OVER (ORDER BY w.ord) AS total
		FROM want w JOIN dlq.dlq_messages m ON m.id = w.id
	), cut AS (
		SELECT min(ord) AS ord FROM sized WHERE total > $2 AND ord > first_ord
	)
	SELECT cut.ord AS cut, m.* FROM cut LEFT JOIN LATERAL (
		SELECT ` + stateColumns + `, ` + byteColumns("-1", "-1") + `
		FROM sized s JOIN dlq.dlq_messages m ON m.id = s.id
		LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
		WHERE cut.ord IS NULL OR s.ord < cut.ord
		ORDER BY s.ord
	) m ON true`

type loadRow struct {
	Cut *int64 `db:"cut"`
	row
}

// Load implements repository.Reader.
func (s *Store) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	if len(ids) == 0 {
		return nil, 0, nil
	}
	var found []loadRow
	if err := s.selectRows(ctx, &found, loadQuery, uuids(ids), maxBytes); err != nil {
		return nil, 0, translate("load messages", err)
	}
	taken := len(ids)
	loaded := make([]entity.Message, 0, len(found))
	for i := range found {
		if found[i].Cut != nil {
			taken = int(*found[i].Cut) - 1
		}
		if !found[i].present() {
			continue
		}
		m, err := found[i].messageWithBytes()
		if err != nil {
			return nil, 0, fmt.Errorf("load messages: %w", err)
		}
		loaded = append(loaded, m)
	}
	return loaded, taken, nil
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
		if attempts[i].Edit, err = found[i].edit(); err != nil {
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
