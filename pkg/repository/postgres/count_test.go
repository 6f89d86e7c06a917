package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func visibleTopics(t *testing.T, list ...string) *entity.TopicPatterns {
	t.Helper()
	p, err := entity.ParseTopicPatterns("topics", list...)
	wantNil(t, err)
	return &p
}

// Callers who see some topics only get exact numbers up to a limit, and never an
// estimate.
func TestCountOfVisibleTopics(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	exec(t, db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, error_class, status)
		SELECT gen_random_uuid(), topic, 'boom', CASE WHEN n <= 3 THEN 'rare' ELSE 'class' END, 'PENDING'
		FROM generate_series(1, 10001) n CROSS JOIN (VALUES ('alpha.v1'), ('beta.v1')) AS topics (topic)`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	store := New(db)
	for name, c := range map[string]struct {
		filter entity.Filter
		want   repository.MatchCount
	}{
		"Few":         {entity.Filter{ErrorClass: "rare"}, repository.MatchCount{Messages: 3, Exact: true}},
		"OfATopic":    {entity.Filter{ErrorClass: "rare", Topic: "alpha.v1"}, repository.MatchCount{Messages: 3, Exact: true}},
		"OfAnother":   {entity.Filter{ErrorClass: "rare", Topic: "beta.v1"}, repository.MatchCount{Exact: true}},
		"None":        {entity.Filter{ErrorClass: "nothing"}, repository.MatchCount{Exact: true}},
		"UpToLimit":   {entity.Filter{ErrorClass: "class"}, repository.MatchCount{Messages: 9998, Exact: true}},
		"OverLimit":   {entity.Filter{CreatedAfter: time.Unix(0, 0)}, repository.MatchCount{Messages: repository.CountLimit, AtLeast: true}},
		"OfTheFuture": {entity.Filter{CreatedAfter: time.Now().Add(time.Hour)}, repository.MatchCount{Exact: true}},
	} {
		for _, how := range []repository.Counting{repository.CountEstimate, repository.CountExact} {
			c.filter.Visible = visibleTopics(t, "alpha*")
			got, err := store.CountMatching(t.Context(), repository.CountQuery{Filter: c.filter, How: how})
			if err != nil || got != c.want {
				t.Errorf("%s: counted %+v, %v, want %+v", name, got, err, c.want)
			}
		}
	}

	lock, err := db.Beginx()
	wantNil(t, err)
	defer func() { _ = lock.Rollback() }()
	_, err = lock.Exec(`LOCK TABLE dlq.dlq_messages IN ACCESS EXCLUSIVE MODE`)
	wantNil(t, err)
	store.countPatience = 50 * time.Millisecond
	slow := entity.Filter{ErrorClass: "rare", Visible: visibleTopics(t, "alpha*")}
	if got, err := store.CountMatching(t.Context(), repository.CountQuery{Filter: slow}); err != nil || got != (repository.MatchCount{AtLeast: true}) {
		t.Errorf("too slow: counted %+v, %v, want 0 at least", got, err)
	}
}

// What is read for a count does not depend on how many messages of other topics match,
// nor on what PostgreSQL knows of them: only the index of topics says which are read.
func TestCountReadsVisibleTopicsOnly(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	seedSearch(t, db)
	store := New(db)
	day := time.Now().Add(-24 * time.Hour)
	for name, f := range map[string]entity.Filter{
		"Class":  {ErrorClass: "class7"},
		"Group":  {Group: uuid.MustParse("00000000-0000-8000-8000-000000000007")},
		"Status": {Statuses: []entity.Status{entity.Retrying}, CreatedAfter: day},
		"Times":  {CreatedAfter: day, CreatedBefore: time.Now()},
		"Retry":  {RetriedAfter: day},
		"Topic":  {Topic: "orders.dlq", ErrorClass: "class7"},
		"Words":  {Words: []string{"boom 777"}},
		"Terms":  {Headers: []entity.HeaderMatch{{Name: "h"}}},
	} {
		f.Visible = visibleTopics(t, "rare")
		for _, archived := range []bool{false, true} {
			from := sourceOf(archived)
			n, err := store.namesOf(t.Context(), f, from)
			wantNil(t, err)
			query, args := visibleQuery(f, n, from)
			tx, err := db.Beginx()
			wantNil(t, err)
			_, err = tx.Exec(walkedByIndex)
			wantNil(t, err)
			var lines []string
			wantNil(t, tx.Select(&lines, "EXPLAIN (COSTS OFF) "+query, args...))
			wantNil(t, tx.Rollback())
			plan := strings.Join(lines, "\n")
			for _, line := range lines {
				scan, of, _ := strings.Cut(strings.TrimLeft(line, " ->"), " on ")
				messages := strings.Contains(of, "dlq_messages") || strings.Contains(of, "archive")
				if messages && !strings.Contains(scan, "original_topic") || strings.Contains(of, "documents") && !strings.HasSuffix(scan, "_pkey") {
					t.Errorf("%s, archived %t: %s in\n%s", name, archived, line, plan)
				}
			}
			if !strings.Contains(plan, "original_topic") {
				t.Errorf("%s, archived %t: nothing is read by topic:\n%s", name, archived, plan)
			}
		}
	}
}
