package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestStatements checks the number of round trips to the server for operations on many records. A separate statement
// for each record would take many times as long as storing the record, and so would preparing a statement for each
// call. The numbers do not depend on the machine. When a change of the store needs more or fewer statements, the
// numbers here must be changed too.
func TestStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		want int64
		of   func(g *statementGuard, n int) int64
	}{
		{"OpenNewTopics", 4, func(g *statementGuard, n int) int64 { return g.open(n, g.round) }},
		{"OpenKnownTopics", 1, func(g *statementGuard, n int) int64 { g.open(n, 0); return g.open(n, 0) }},
		{"Ingest", 2, func(g *statementGuard, n int) int64 { return g.store(int64(n)) }},
		{"ClaimAndFinish", 4, func(g *statementGuard, n int) int64 { return g.attempts(n, n/2) }},
		{"SearchIndex", 3, func(g *statementGuard, n int) int64 { return g.index(n) }},
		{"List", 1, func(g *statementGuard, _ int) int64 { return g.list() }},
		{"Get", 1, func(g *statementGuard, _ int) int64 { return g.get() }},
		{"Archive", 3, func(g *statementGuard, n int) int64 { return g.archive(n) }},
	} {
		postgrestest.Parallel(t, c.name, func(t *testing.T) {
			g := newStatementGuard(t)
			check.Same(t, c.of(g, 1000), c.want, "statements: more cost time, fewer lower the number here")

			// With few records, the tables stay small: the store prepares its statements again after a large table has grown.
			g = newStatementGuard(t)
			for ; g.round < 2; g.round++ {
				check.Same(t, c.of(g, 100), c.want, "statements for few records")
				check.True(t, g.round == 0 || g.prepared == 0, "the same work prepares %d statements again, want none", g.prepared)
			}
		})
	}
}

func newStatementGuard(t *testing.T) *statementGuard {
	t.Helper()
	db, count := postgrestest.OpenCounted(t)
	db.SetMaxOpenConns(1) // a statement is prepared in each connection that it uses
	return &statementGuard{T: t, db: db, count: count, s: New(db)}
}

// statementGuard counts the round trips of operations of the store. It repeats each operation in rounds; the messages
// of earlier rounds stay in the store.
type statementGuard struct {
	*testing.T
	db       *sqlx.DB
	count    *postgrestest.Statements
	s        *Store
	round    int
	prepared int64 // number of statements that the last counted operation prepared
}

// of calls the function do, which uses the store, and returns the number of round trips that do caused.
func (g *statementGuard) of(do func()) int64 {
	before := g.count.Prepared()
	trips := g.count.Of(do)
	g.prepared = g.count.Prepared() - before
	return trips
}

// must fails the test when a counted operation has returned the error err, or when ok is false, which means that the
// operation has not done all of its work.
func (g *statementGuard) must(ok bool, err error, what string, got any) {
	g.Helper()
	if err != nil || !ok {
		g.Fatalf("%s = %v, %v", what, got, err)
	}
}

func (g *statementGuard) open(n, series int) int64 {
	topics := make([]repository.Topic, n)
	for i := range topics {
		topics[i] = repository.Topic{Name: fmt.Sprintf("orders-%d-%d.dlq", series, i), Incarnation: "1"}
	}
	return g.of(func() {
		refs, err := g.s.OpenTopics(g.Context(), topics)
		g.must(len(refs) == n, err, "OpenTopics", len(refs))
	})
}

func (g *statementGuard) store(n int64) int64 {
	refs, err := g.s.OpenTopics(g.Context(), []repository.Topic{{Name: "orders.dlq", Incarnation: "1"}})
	g.must(len(refs) == 1, err, "OpenTopics", refs)
	part := repository.Partition{Incarnation: refs[0].Incarnation}
	_, err = g.s.OpenPosition(g.Context(), []repository.Position{{Partition: part}})
	g.must(true, err, "OpenPosition", nil)
	from := int64(g.round) * n
	batch := repository.Batch{Ranges: []repository.Range{{Partition: part, From: from, To: from + n}}, ReturnWindow: time.Hour}
	for i := range n {
		m := entity.NewMessage("orders", "boom", time.Now())
		m.Record = entity.Record{Key: []byte("k"), Value: []byte(`{"a":1}`), Size: 7}
		m.Source = entity.Source{TopicID: refs[0].TopicID, Incarnation: part.Incarnation, Offset: from + i, Timestamp: m.CreatedAt}
		m.Origin.Confidence = entity.FromHeader
		batch.Messages = append(batch.Messages, m)
	}
	return g.of(func() {
		stored, err := g.s.Store(g.Context(), batch)
		g.must(len(stored.Ranges) == 1, err, "Store", stored)
	})
}

func (g *statementGuard) ids(n int) (ids []uuid.UUID) {
	_, err := g.db.Exec(`DELETE FROM dlq.dlq_messages`)
	g.must(true, err, "begin again", nil)
	pending(g, g.db, "orders", n)
	err = g.db.Select(&ids, `SELECT id FROM dlq.dlq_messages ORDER BY created_at`)
	g.must(len(ids) == n, err, "ids", len(ids))
	return ids
}

func (g *statementGuard) attempts(n, batch int) int64 {
	ids := g.ids(n)
	return g.of(func() {
		for from := 0; from < n; from += batch {
			var claims []repository.Claim
			var results []repository.Result
			for i, id := range ids[from : from+batch] {
				c := repository.Claim{MessageID: id, ID: uuid.New(), Topic: "orders", TopicID: "life-1", OriginalTopic: "orders"}
				claims = append(claims, c)
				results = append(results, repository.Result{MessageID: id, ClaimID: c.ID, Verdict: entity.Acknowledged, Offset: int64(i)})
			}
			taken, err := g.s.Claim(g.Context(), claims, repository.Claiming{Expiry: time.Minute})
			g.must(len(taken) == batch, err, "Claim", len(taken))
			done, err := g.s.Finish(g.Context(), results, entity.By("alice"))
			g.must(len(done) == batch, err, "Finish", len(done))
		}
	})
}

// index stores documents of n messages, and returns the number of round trips. Storing documents also counts arrivals
// and assigns error groups.
func (g *statementGuard) index(n int) int64 {
	held, err := g.s.AcquireIndexerLease(g.Context(), uuid.Nil, 1, time.Hour)
	g.must(held, err, "AcquireIndexerLease", held)
	var documents []entity.Document
	for _, id := range g.ids(n) {
		documents = append(documents, entity.Document{MessageID: id, Text: "boom"})
	}
	return g.of(func() {
		g.must(true, g.s.StoreDocuments(g.Context(), 1, documents), "StoreDocuments", nil)
	})
}

func (g *statementGuard) list() int64 {
	g.ids(200)
	return g.of(func() {
		page, err := g.s.List(g.Context(), "orders", repository.Page{Number: 1, Size: 100})
		g.must(len(page.Messages) == 100, err, "List", len(page.Messages))
	})
}

func (g *statementGuard) get() int64 {
	id := g.ids(1)[0]
	return g.of(func() {
		m, err := g.s.Get(g.Context(), id, -1)
		g.must(m.ID == id, err, "Get", m.ID)
	})
}

func (g *statementGuard) archive(n int) int64 {
	g.ids(n)
	_, err := g.db.Exec(`UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now() - interval '31 days'`)
	g.must(true, err, "make them old", nil)
	return g.of(func() {
		moved, err := g.s.ArchiveOld(g.Context(), 30, n)
		g.must(moved == int64(n), err, "ArchiveOld", moved)
	})
}
