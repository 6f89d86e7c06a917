package postgres

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// BenchmarkStoreDocuments stores documents of 660 random letters and digits, 500 at a time.
// Those of the messages before are in the table.
func BenchmarkStoreDocuments(b *testing.B) {
	const batch = 500
	db := postgrestest.Open(b)
	store := New(db)
	ids := floodOf(b, db, batch*200)
	random := rand.New(rand.NewPCG(1, 2))
	next := 0
	for b.Loop() {
		if next == len(ids) {
			b.Fatal("there are no messages left: give it fewer rounds")
		}
		if err := store.StoreDocuments(b.Context(), 1, documentsOf(random, ids[next:next+batch])); err != nil {
			b.Fatal(err)
		}
		next += batch
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(next), "µs/document")
}

// BenchmarkSearchBehindAFlood looks for a word that 10,000 old messages have, and of the
// newer ones, so many, none.
func BenchmarkSearchBehindAFlood(b *testing.B) {
	for _, flood := range []int{0, 500, 5_000, 50_000} {
		b.Run(fmt.Sprint(flood), func(b *testing.B) {
			db := postgrestest.Open(b)
			store := New(db)
			store.AnswerFrom(1)
			if _, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at)
				SELECT 'old', 'order cannot be charged', now() - interval '1 hour' - n * interval '1 second' FROM generate_series(1, 10000) n`); err != nil {
				b.Fatal(err)
			}
			storeDocuments(b, db, `error_message`, `'{}'`, `dlq.dlq_messages m`)
			ids := floodOf(b, db, flood)
			random := rand.New(rand.NewPCG(1, 2))
			for from := 0; from < flood; from += 500 {
				if err := store.StoreDocuments(b.Context(), 1, documentsOf(random, ids[from:from+500])); err != nil {
					b.Fatal(err)
				}
			}
			for _, statement := range []string{
				`UPDATE dlq.search_index SET walked_at = now() + interval '1 day', found_until = now() + interval '1 day'`,
				`VACUUM ANALYZE dlq.dlq_messages`,
			} {
				if _, err := db.Exec(statement); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				found, err := store.Search(b.Context(), repository.SearchQuery{Filter: entity.Filter{Words: []string{"charged"}}, Limit: 20})
				if err != nil || len(found.Messages) != 20 {
					b.Fatalf("Search = %d messages, %v", len(found.Messages), err)
				}
			}
		})
	}
}

// floodOf puts in messages of a millisecond each and returns their ids in that order.
func floodOf(b *testing.B, db *sqlx.DB, messages int) (ids []uuid.UUID) {
	b.Helper()
	if _, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at)
		SELECT 'flood', 'boom', now() + n * interval '1 millisecond' FROM generate_series(1, $1::int) n`, messages); err != nil {
		b.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE dlq.search_index SET version = 1`); err != nil {
		b.Fatal(err)
	}
	if err := db.Select(&ids, `SELECT id FROM dlq.dlq_messages WHERE original_topic = 'flood' ORDER BY created_at`); err != nil {
		b.Fatal(err)
	}
	return ids
}

func documentsOf(random *rand.Rand, ids []uuid.UUID) []entity.Document {
	const alphabet = "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz 0123456789"
	documents := make([]entity.Document, len(ids))
	for i, id := range ids {
		text := make([]byte, 660)
		for n := range text {
			text[n] = alphabet[random.IntN(len(alphabet))]
		}
		documents[i] = entity.Document{MessageID: id, Text: string(text), Terms: []int64{random.Int64(), random.Int64()}}
	}
	return documents
}
