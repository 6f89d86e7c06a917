package insight

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Topics implements repository.Topics.
type Topics struct {
	db     *conn.DB
	scopes *search.Scopes
}

// NewTopics returns Topics that send their statements to db.
func NewTopics(db *conn.DB, scopes *search.Scopes) *Topics { return &Topics{db, scopes} }

// topicsQuery reads the numbers of messages from the counters, and the oldest pending and the newest message of each
// topic from an end of an index. $1 and $2 are the original and dead-letter topics that the caller may see, NULL for
// all. In the counters, the dead-letter topic 0 stands for messages without a dead-letter topic, which were inserted by
// SQL. $3 is the last topic of the previous page; NULL for the first page. $4 is the length of the page; NULL for all
// topics. $5 is the maximum number of consumer groups that are returned for a topic. $6 is the present time, or NULL to
// use the database's clock.
const topicsQuery = `
	WITH counted AS MATERIALIZED (
		SELECT c.original_topic, c.dlq_topic_id, c.status, sum(c.messages)::bigint AS messages
		FROM dlq.message_counters c
		WHERE $1::text[] IS NULL OR c.original_topic = ANY ($1) OR c.original_topic = '' AND c.dlq_topic_id = ANY ($2::int[])
		GROUP BY 1, 2, 3 HAVING sum(c.messages) > 0
	), named AS MATERIALIZED (
		SELECT original_topic, json_agg(json_build_object('status', status, 'messages', messages)) AS counts,
			bool_or(status = 'PENDING') AS pending, array_agg(dlq_topic_id) AS dlq_topics
		FROM counted GROUP BY 1
	), page AS MATERIALIZED (
		SELECT * FROM named
		WHERE $3::text IS NULL OR original_topic COLLATE "C" > $3
		ORDER BY original_topic COLLATE "C" LIMIT $4::bigint
	)
	SELECT n.original_topic, n.counts,
		CASE WHEN n.pending THEN (
			SELECT m.created_at FROM dlq.dlq_messages m
			WHERE m.original_topic = n.original_topic AND m.status = 'PENDING'
			  AND ($1 IS NULL OR n.original_topic <> '' OR coalesce(m.dlq_topic_id, 0) = ANY ($2))
			ORDER BY m.created_at, m.id LIMIT 1) END AS oldest_pending,
		(SELECT m.created_at FROM dlq.dlq_messages m
			WHERE m.original_topic = n.original_topic
			  AND ($1 IS NULL OR n.original_topic <> '' OR coalesce(m.dlq_topic_id, 0) = ANY ($2))
			ORDER BY m.created_at DESC, m.id DESC LIMIT 1) AS last_seen,
		ARRAY(SELECT t.name FROM dlq.topics t WHERE t.id = ANY (n.dlq_topics)) AS dlq_topics,
		ARRAY(SELECT g.consumer_group FROM dlq.topic_groups g WHERE g.topic = n.original_topic
			ORDER BY g.configured DESC, g.consumer_group COLLATE "C" LIMIT $5) AS consumer_groups,
		p.paused_until, coalesce(p.pause_reason, '') AS pause_reason
	FROM page n
	LEFT JOIN dlq.auto_topics p ON p.topic = n.original_topic AND p.paused_until > coalesce($6::timestamptz, now())
	ORDER BY n.original_topic COLLATE "C"`

type topicSummaryRow struct {
	Topic          string         `db:"original_topic"`
	Counts         []byte         `db:"counts"`
	OldestPending  sql.NullTime   `db:"oldest_pending"`
	LastSeen       sql.NullTime   `db:"last_seen"`
	DLQTopics      pq.StringArray `db:"dlq_topics"`
	ConsumerGroups pq.StringArray `db:"consumer_groups"`
	PausedUntil    sql.NullTime   `db:"paused_until"`
	PauseReason    string         `db:"pause_reason"`
}

// TopicSummaries implements repository.Topics.
func (s *Topics) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	originals, numbers, err := s.visibleTopics(ctx, q.Visible)
	if err != nil {
		return nil, conn.Translate("summarise topics", err)
	}
	var limit sql.NullInt64
	if q.Limit > 0 {
		limit = sql.NullInt64{Int64: int64(q.Limit), Valid: true}
	}
	var found []topicSummaryRow
	if err := s.db.Select(ctx, &found, topicsQuery, originals, numbers, q.After, limit, repository.MaxTopicGroups, s.db.Clock()); err != nil {
		return nil, conn.Translate("summarise topics", err)
	}
	topics := make([]repository.TopicSummary, len(found))
	for i := range found {
		if topics[i], err = found[i].summary(); err != nil {
			return nil, fmt.Errorf("summarise topics: %w", err)
		}
	}
	return topics, nil
}

// visibleTopics returns, as arguments of a statement, the existing topics that the patterns match: the names of
// original topics and the ids of dead-letter topics. Both arguments are nil when the caller may see all topics.
func (s *Topics) visibleTopics(ctx context.Context, visible *entity.TopicPatterns) (originals, numbers any, err error) {
	if visible == nil {
		return nil, nil, nil
	}
	n, err := s.scopes.Resolve(ctx, entity.Filter{Visible: visible}, codec.SourceOf(false))
	if err != nil {
		return nil, nil, err
	}
	ids := codec.NewArray(codec.OIDInt4, len(n.Visible.Numbers)+1, 4)
	for _, number := range n.Visible.Numbers {
		ids.Int32(number)
	}
	if n.Visible.Unnamed {
		ids.Int32(0)
	}
	return codec.TextArray(n.Visible.Originals), ids.Arg(), nil
}

func (r *topicSummaryRow) summary() (repository.TopicSummary, error) {
	var counts []statusCount
	if err := json.Unmarshal(r.Counts, &counts); err != nil {
		return repository.TopicSummary{}, fmt.Errorf("counts of topic %q: %w", r.Topic, err)
	}
	t := repository.TopicSummary{
		Topic: r.Topic, DLQTopics: sorted(r.DLQTopics), Counts: map[entity.Status]int64{},
		OldestPending: codec.TimeOf(r.OldestPending), LastSeen: codec.TimeOf(r.LastSeen), ConsumerGroups: sorted(r.ConsumerGroups),
		AutoPause: entity.AutoPause{Until: codec.TimeOf(r.PausedUntil), Reason: r.PauseReason},
	}
	for _, c := range counts {
		t.Counts[c.Status] += c.Messages
	}
	return t, nil
}

// statusCount is the number of messages of a topic with a status, as queries return it in JSON.
type statusCount struct {
	Topic    string        `json:"topic"`
	Status   entity.Status `json:"status"`
	Messages int64         `json:"messages"`
}

// sorted returns names in the order of their bytes, which may differ from the order of the database; nil when there are
// no names.
func sorted(names pq.StringArray) []string {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return names
}

// totalsQuery returns one row for each status of each topic in $1 and of the topic "", which stands for messages of
// unknown origin, and one row for each status of all other topics together. The other topics are added up because their
// number is not limited: any record may name any original topic. When $1 is NULL, the first $2 topics by name have
// their own rows.
const totalsQuery = `
	WITH counted AS MATERIALIZED (
		SELECT original_topic, status, sum(messages)::bigint AS messages
		FROM dlq.message_counters GROUP BY 1, 2 HAVING sum(messages) > 0
	), named AS (
		SELECT topic FROM unnest($1::text[]) AS topic
		UNION SELECT ''
		UNION (SELECT original_topic FROM counted WHERE $1::text[] IS NULL GROUP BY 1 ORDER BY original_topic COLLATE "C" LIMIT $2)
	)
	SELECT coalesce(n.topic, '') AS topic, n.topic IS NULL AS others, c.status, sum(c.messages)::bigint AS messages,
		min(CASE WHEN c.status = 'PENDING' THEN (
			SELECT m.created_at FROM dlq.dlq_messages m
			WHERE m.original_topic = c.original_topic AND m.status = 'PENDING'
			ORDER BY m.created_at, m.id LIMIT 1) END) AS oldest_pending
	FROM counted c LEFT JOIN named n ON n.topic = c.original_topic
	GROUP BY n.topic, c.status ORDER BY n.topic COLLATE "C" NULLS LAST, c.status`

// TopicTotals implements repository.Topics. Totals are ordered by topic; the total of all other topics is the last.
func (s *Topics) TopicTotals(ctx context.Context, names []string) ([]repository.TopicTotal, error) {
	var named any
	if names != nil {
		named = codec.TextArray(names)
	}
	var found []struct {
		Topic         string       `db:"topic"`
		Others        bool         `db:"others"`
		Status        string       `db:"status"`
		Messages      int64        `db:"messages"`
		OldestPending sql.NullTime `db:"oldest_pending"`
	}
	if err := s.db.Select(ctx, &found, totalsQuery, named, repository.MaxTotals); err != nil {
		return nil, conn.Translate("count messages of topics", err)
	}
	var totals []repository.TopicTotal
	for _, f := range found {
		last := len(totals) - 1
		if last < 0 || totals[last].Topic != f.Topic || totals[last].Others != f.Others {
			totals = append(totals, repository.TopicTotal{Topic: f.Topic, Others: f.Others, Counts: map[entity.Status]int64{}})
			last++
		}
		totals[last].Counts[entity.Status(f.Status)] = f.Messages
		if f.OldestPending.Valid {
			totals[last].OldestPending = codec.TimeOf(f.OldestPending)
		}
	}
	return totals, nil
}

// positionsQuery reads the positions in the newest incarnation of each topic, which is the present one.
const positionsQuery = `
	SELECT t.name, i.kafka_id, p.partition, p.next_offset
	FROM dlq.topics t
	CROSS JOIN LATERAL (
		SELECT id, kafka_id FROM dlq.topic_incarnations WHERE topic_id = t.id ORDER BY id DESC LIMIT 1
	) i
	JOIN dlq.ingest_positions p ON p.incarnation_id = i.id`

// IngestPositions implements repository.Topics. Positions are ordered by topic and partition.
func (s *Topics) IngestPositions(ctx context.Context) ([]repository.IngestPosition, error) {
	var found []struct {
		Topic     string `db:"name"`
		TopicID   string `db:"kafka_id"`
		Partition int32  `db:"partition"`
		Next      int64  `db:"next_offset"`
	}
	if err := s.db.Select(ctx, &found, positionsQuery); err != nil {
		return nil, conn.Translate("read ingest positions", err)
	}
	positions := make([]repository.IngestPosition, len(found))
	for i, f := range found {
		positions[i] = repository.IngestPosition(f)
	}
	slices.SortFunc(positions, repository.IngestPosition.Compare)
	return positions, nil
}
