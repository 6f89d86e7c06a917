package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestSearchInPairs: what is walked pair by pair is what the filter's conditions say.
func TestSearchInPairs(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'd' || n FROM generate_series(0, 3) n`)
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('a')`) // an original topic too
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, dlq_topic_id)
		SELECT o, 'x', (SELECT id FROM dlq.topics WHERE name = d)
		FROM unnest('{a,b,c,d1,""}'::text[]) o, unnest('{d0,d1,d2,a,none}'::text[]) d, generate_series(1, 2)
		WHERE (o, d) NOT IN (('b', 'd0'), ('', 'd2'))`)
	store := New(db)
	sets := []*entity.TopicPatterns{nil}
	for _, list := range [][]string{{"a"}, {"b", "d1"}, {"d*"}, {"*"}, {"nothing"}, {"c", "a"}} {
		p, err := entity.ParseTopicPatterns("topics", list...)
		wantNil(t, err)
		sets = append(sets, &p)
	}
	asked := 0
	for _, topic := range []string{"", "a", "b", "d0", "d1", "gone"} {
		for _, topics := range sets {
			for _, visible := range sets {
				for _, unknown := range []bool{false, true} {
					f := entity.Filter{Topic: topic, Visible: visible, UnknownOrigin: unknown}
					if topics != nil {
						f.Topics = *topics
					}
					n, err := store.namesOf(t.Context(), f, sourceOf(false))
					wantNil(t, err)
					if _, apart := (&arguments{first: 1}).walksOfPairs(f, n); apart {
						asked++
					}
					wantSame(t, db, f, n)
				}
			}
		}
	}
	if asked < 100 {
		t.Errorf("%d of the filters are walked pair by pair, want most", asked)
	}
}

// wantSame wants a list to have what all conditions together leave.
func wantSame(t *testing.T, db *sqlx.DB, f entity.Filter, n names) {
	t.Helper()
	p := listed(sourceOf(false), repository.SearchQuery{Filter: f, Limit: 1000}, n, leaveOut)
	a := &arguments{first: 1}
	query := "SELECT m.id FROM dlq.dlq_messages m WHERE " + and(a.named(f, n)...) + " ORDER BY m.created_at DESC, m.id DESC"
	var got, want []uuid.UUID
	wantNil(t, db.Select(&got, "SELECT id FROM ("+p.query+") listed", p.values...))
	wantNil(t, db.Select(&want, query, a.values...))
	if !slices.Equal(got, want) {
		t.Errorf("topic %q, patterns %q, visible %v, unknown %v: got %d messages, want %d:\n%s",
			f.Topic, f.Topics.Texts(), f.Visible, f.UnknownOrigin, len(got), len(want), p.query)
	}
}

// TestPairPlans: a few messages among many of the same dead-letter topic, or of the
// same unknown origin, are found by what is rare about them.
func TestPairPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = off)`)
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('shared.dlq'), ('rare.dlq')`)
	const columns = `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id) `
	exec(t, db, columns+`SELECT CASE WHEN n % 2 = 0 THEN 'flood' ELSE '' END, 'boom', now() - n * interval '1 second', 1 FROM generate_series(1, 60000) n`)
	exec(t, db, columns+`SELECT 'calm', 'boom', now() - n * interval '1 day', 1 FROM generate_series(2, 100) n`)
	exec(t, db, columns+`SELECT '', 'boom', now() - n * interval '1 day', 2 FROM generate_series(2, 10) n`)
	exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	store := New(db)
	patterns := func(list ...string) entity.TopicPatterns {
		p, err := entity.ParseTopicPatterns("topics", list...)
		wantNil(t, err)
		return p
	}
	calm, flood, rare := patterns("calm"), patterns("flood"), patterns("rare.dlq")
	for name, f := range map[string]entity.Filter{
		"VisibleOfADeadLetterTopic":       {Topic: "shared.dlq", Visible: &calm},
		"CommonVisibleOfADeadLetterTopic": {Topic: "shared.dlq", Visible: &flood},
		"PatternsOfADeadLetterTopic":      {Topic: "shared.dlq", Topics: calm},
		"VisibleOfUnknownOrigin":          {UnknownOrigin: true, Visible: &rare},
		"PatternsOfUnknownOrigin":         {UnknownOrigin: true, Topics: rare},
		"VisibleDeadLetterTopic":          {Visible: &rare},
	} {
		t.Run(name, func(t *testing.T) {
			q := repository.SearchQuery{Filter: f, Limit: 20}
			n, err := store.namesOf(t.Context(), f, sourceOf(false))
			wantNil(t, err)
			query, args := pageQuery(sourceOf(false), listed(sourceOf(false), q, n, leaveOut))
			wantFewBuffers(t, db, way(f, n), query, args)
		})
	}
}

func TestPairsAreTooMany(t *testing.T) {
	t.Parallel()
	n := names{visible: &nameSet{}, pairs: map[int32][]string{}}
	for i := range int32(maxWalks + 1) {
		n.pairs[i+1] = []string{"", fmt.Sprint(i)}
		n.visible.numbers = append(n.visible.numbers, i+1)
	}
	a := &arguments{first: 1}
	walks, apart := a.walksOfPairs(entity.Filter{UnknownOrigin: true}, n)
	if apart || len(walks) > 0 || len(a.values) > 0 {
		t.Errorf("got %d walks with %d arguments, want none", len(walks), len(a.values))
	}
}
