package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// benchmarkCounters writes what the triggers would have written for millions of
// messages: 1,000 groups of three topics each with a week of arrivals, 200 topics,
// every shard in use. The messages themselves are 100,000.
func benchmarkCounters(b *testing.B, db *sqlx.DB) {
	b.Helper()
	for _, statement := range []string{
		`INSERT INTO dlq.topics (name) SELECT 'topic' || n || '.dlq' FROM generate_series(1, 200) n`,
		`INSERT INTO dlq.topic_groups (topic, consumer_group, noted) SELECT 'topic' || n, 'group' || n % 7, true FROM generate_series(0, 199) n`,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, dlq_topic_id, value)
			SELECT 'topic' || n % 200, 'boom', (ARRAY['PENDING', 'RESOLVED', 'DEAD', 'RESOLVED'])[1 + n % 4], now() - n * interval '1 s', 1 + n % 200, 'v'
			FROM generate_series(1, 100000) n`,
		`INSERT INTO dlq.message_counters SELECT original_topic, dlq_topic_id, status, s, 100 FROM dlq.message_counters, generate_series(0, 15) s
			ON CONFLICT DO NOTHING`,
		`INSERT INTO dlq.error_groups (id, class, title, frames, first_seen, last_seen)
			SELECT md5(g::text)::uuid, 'java.io.IOException', 'order <n> cannot be charged: ' || g, '{a.b.c,d.e.f}', now() - g * interval '1 hour', now() - g * interval '1 s'
			FROM generate_series(0, 999) g`,
		`INSERT INTO dlq.group_counters
			SELECT md5(g::text)::uuid, 'topic' || (g * 3 + t) % 200, status, s, 10 + g
			FROM generate_series(0, 999) g, generate_series(0, 2) t, unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) status, generate_series(0, 3) s`,
		`INSERT INTO dlq.group_arrivals
			SELECT md5(g::text)::uuid, coalesce(date_trunc('hour', now()) - h * interval '1 hour', '-infinity'), 'topic' || (g * 3 + t) % 200, s, 10, now() - interval '30 days', now()
			FROM generate_series(0, 999) g, generate_series(0, 2) t, (SELECT generate_series(0, 167) AS h UNION ALL SELECT NULL) h, generate_series(0, 1) s`,
		`VACUUM ANALYZE`,
	} {
		if _, err := db.Exec(statement); err != nil {
			b.Fatalf("%.60s: %v", statement, err)
		}
	}
}

// BenchmarkGroups reads pages of 100 groups, and all topics.
func BenchmarkGroups(b *testing.B) {
	db := postgrestest.Open(b)
	benchmarkCounters(b, db)
	store := New(db)
	some, err := entity.ParseTopicPatterns("topics", "topic1*")
	if err != nil {
		b.Fatal(err)
	}
	day := repository.Trend{Since: time.Now().Add(-24 * time.Hour), Until: time.Now()}
	for _, c := range []struct {
		name string
		q    repository.GroupQuery
	}{
		{"LastSeen", repository.GroupQuery{}},
		{"LastSeenTrend", repository.GroupQuery{Trend: day}},
		{"OpenTrend", repository.GroupQuery{Open: true, Trend: day}},
		{"ByOpenTrend", repository.GroupQuery{Open: true, Sort: repository.GroupsByOpen, Trend: day}},
		{"VisibleTrend", repository.GroupQuery{Open: true, Trend: day, Visible: &some}},
		{"TopicTrend", repository.GroupQuery{Open: true, Trend: day, Topic: "topic7"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Limit = 100
			for b.Loop() {
				groups, err := store.ErrorGroups(b.Context(), c.q)
				if err != nil || len(groups) < 15 {
					b.Fatalf("ErrorGroups = %d groups, %v, want a page", len(groups), err)
				}
			}
		})
	}
	b.Run("One", func(b *testing.B) {
		id := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // md5 of 1
		week := repository.Trend{Since: time.Now().Add(-7 * 24 * time.Hour), Until: time.Now()}
		for b.Loop() {
			if _, err := store.ErrorGroup(b.Context(), id, nil, week); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Topics", func(b *testing.B) {
		for b.Loop() {
			if topics, err := store.TopicSummaries(b.Context(), repository.TopicQuery{}); err != nil || len(topics) != 200 {
				b.Fatalf("TopicSummaries = %d, %v, want 200", len(topics), err)
			}
		}
	})
	b.Run("TopicsVisible", func(b *testing.B) {
		for b.Loop() {
			if topics, err := store.TopicSummaries(b.Context(), repository.TopicQuery{Visible: &some}); err != nil || len(topics) < 100 {
				b.Fatalf("TopicSummaries = %d, %v, want 111", len(topics), err)
			}
		}
	})
}
