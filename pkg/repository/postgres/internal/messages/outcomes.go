package messages

import (
	"context"
	"strconv"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Outcomes implements repository.Outcomes.
type Outcomes struct{ db *conn.DB }

// NewOutcomes returns Outcomes that send their statements to db.
func NewOutcomes(db *conn.DB) *Outcomes { return &Outcomes{db} }

var saveGroupsQuery = `
	WITH given AS MATERIALIZED (
		SELECT DISTINCT topic, consumer_group FROM unnest($1::text[], $2::text[]) AS n (topic, consumer_group)
	)` + saveGivenGroups

// saveGivenGroups stores the consumer groups that the step named given selects. It stores a new consumer group only
// while its topic has fewer than repository.MaxTopicGroups.
var saveGivenGroups = `
	INSERT INTO dlq.topic_groups AS g (topic, consumer_group, noted)
	SELECT n.topic, n.consumer_group, true FROM (
		SELECT given.topic, given.consumer_group, known.topic IS NULL AS fresh,
			row_number() OVER (PARTITION BY given.topic, known.topic IS NULL ORDER BY given.consumer_group) AS nth
		FROM given LEFT JOIN dlq.topic_groups known ON known.topic = given.topic AND known.consumer_group = given.consumer_group
	) n
	WHERE NOT n.fresh
	   OR n.nth + (SELECT count(*) FROM dlq.topic_groups k WHERE k.topic = n.topic) <= ` + strconv.Itoa(repository.MaxTopicGroups) + `
	ORDER BY 1, 2
	ON CONFLICT (topic, consumer_group) DO UPDATE SET noted = true WHERE NOT g.noted`

// SaveConsumerGroups implements repository.Outcomes.
func (s *Outcomes) SaveConsumerGroups(ctx context.Context, groups []repository.TopicGroup) error {
	topics, names := groupColumns(groups)
	return conn.Translate("store consumer groups", s.db.Exec(ctx, saveGroupsQuery, topics, names))
}

// configureGroupsQuery writes only rows that change, so that replicas that start together with the same configuration
// write each row only once.
const configureGroupsQuery = `
	WITH given AS MATERIALIZED (
		SELECT DISTINCT topic, consumer_group FROM unnest($1::text[], $2::text[]) AS n (topic, consumer_group)
	), other AS MATERIALIZED (
		SELECT topic, consumer_group, noted FROM dlq.topic_groups g
		WHERE configured AND NOT EXISTS (SELECT FROM given WHERE given.topic = g.topic AND given.consumer_group = g.consumer_group)
		ORDER BY 1, 2 FOR UPDATE
	), gone AS (
		DELETE FROM dlq.topic_groups g USING other o
		WHERE g.topic = o.topic AND g.consumer_group = o.consumer_group AND NOT o.noted
	), noted_only AS (
		UPDATE dlq.topic_groups g SET configured = false FROM other o
		WHERE g.topic = o.topic AND g.consumer_group = o.consumer_group AND o.noted
	)
	INSERT INTO dlq.topic_groups AS g (topic, consumer_group, configured)
	SELECT topic, consumer_group, true FROM given ORDER BY 1, 2
	ON CONFLICT (topic, consumer_group) DO UPDATE SET configured = true WHERE NOT g.configured`

// ConfigureGroups implements repository.Outcomes.
func (s *Outcomes) ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error {
	topics, names := groupColumns(groups)
	return conn.Translate("configure consumer groups", s.db.Exec(ctx, configureGroupsQuery, topics, names))
}

// watchedQuery returns the consumer groups of those original topics that have RESOLVED messages.
const watchedQuery = `
	SELECT topic, consumer_group FROM dlq.topic_groups g
	WHERE (
		SELECT sum(messages) FROM dlq.message_counters c WHERE c.original_topic = g.topic AND c.status = 'RESOLVED'
	) > 0
	ORDER BY topic COLLATE "C", consumer_group COLLATE "C"`

// WatchedGroups implements repository.Outcomes. The consumer groups are ordered by topic and name.
func (s *Outcomes) WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error) {
	var found []struct {
		Topic string `db:"topic"`
		Group string `db:"consumer_group"`
	}
	if err := s.db.Select(ctx, &found, watchedQuery); err != nil {
		return nil, conn.Translate("list consumer groups", err)
	}
	groups := make([]repository.TopicGroup, len(found))
	for i, f := range found {
		groups[i] = repository.TopicGroup{Topic: f.Topic, Group: f.Group}
	}
	return groups, nil
}

// saveCommittedQuery writes only offsets that are higher than the stored ones, because at most times most consumer
// groups have committed nothing new.
const saveCommittedQuery = `
	INSERT INTO dlq.committed_offsets AS known (consumer_group, topic, topic_id, partition, committed, seen_at)
	SELECT consumer_group, topic, topic_id, partition, max(committed), coalesce($6::timestamptz, now())
	FROM unnest($1::text[], $2::text[], $3::text[], $4::int4[], $5::int8[])
		AS n (consumer_group, topic, topic_id, partition, committed)
	GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
	ON CONFLICT (consumer_group, topic, topic_id, partition)
	DO UPDATE SET committed = excluded.committed, seen_at = excluded.seen_at WHERE known.committed < excluded.committed`

// SaveCommitted implements repository.Outcomes.
func (s *Outcomes) SaveCommitted(ctx context.Context, offsets []repository.Committed) error {
	n := len(offsets)
	groups, topics, topicIDs := codec.NewArray(codec.OIDText, n, 24), codec.NewArray(codec.OIDText, n, 24), codec.NewArray(codec.OIDText, n, 24)
	partitions, committed := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8)
	for _, o := range offsets {
		groups.Text(o.Group)
		topics.Text(o.Topic)
		topicIDs.Text(o.TopicID)
		partitions.Int32(o.Partition)
		committed.Int64(o.Offset)
	}
	return conn.Translate("store committed offsets", s.db.Exec(ctx, saveCommittedQuery,
		groups.Arg(), topics.Arg(), topicIDs.Arg(), partitions.Arg(), committed.Arg(), s.db.Clock()))
}

func groupColumns(groups []repository.TopicGroup) (topics, names []byte) {
	t, g := codec.NewArray(codec.OIDText, len(groups), 24), codec.NewArray(codec.OIDText, len(groups), 24)
	for _, group := range groups {
		t.Text(group.Topic)
		g.Text(group.Group)
	}
	return t.Arg(), g.Arg()
}
