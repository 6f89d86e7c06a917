package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// BenchmarkAttempts claims batches of 500 messages and stores their results, with
// the record as it was and with a value of 1 KB in its place.
func BenchmarkAttempts(b *testing.B) {
	b.Run("AsTheyAre", func(b *testing.B) { attempts(b, nil) })
	b.Run("Edited", func(b *testing.B) {
		attempts(b, &entity.Edit{SetValue: true, Value: make([]byte, 1<<10)})
	})
}

func attempts(b *testing.B, edit *entity.Edit) {
	const batch, total = 500, 200_000
	db := postgrestest.Open(b)
	store := New(db)
	pending(b, db, "orders", total)
	var ids []uuid.UUID
	if err := db.Select(&ids, `SELECT id FROM dlq.dlq_messages ORDER BY created_at`); err != nil {
		b.Fatal(err)
	}
	var claiming, finishing time.Duration
	batches := 0
	for b.Loop() {
		if (batches+1)*batch > total {
			b.Fatal("every message was sent")
		}
		var claims []repository.Claim
		var results []repository.Result
		for i, id := range ids[batches*batch : (batches+1)*batch] {
			c := repository.Claim{MessageID: id, ID: uuid.New(), Topic: "orders", TopicID: "life-1", OriginalTopic: "orders", Edit: edit, SentHash: 7}
			claims = append(claims, c)
			results = append(results, repository.Result{MessageID: id, ClaimID: c.ID, Verdict: entity.Acknowledged, Offset: int64(i)})
		}
		start := time.Now()
		if taken, err := store.Claim(b.Context(), claims, repository.Claiming{Expiry: time.Minute}); err != nil || len(taken) != batch {
			b.Fatalf("Claim = %d messages, %v, want %d", len(taken), err, batch)
		}
		claimed := time.Now()
		if finished, err := store.Finish(b.Context(), results, entity.By("alice")); err != nil || len(finished) != batch {
			b.Fatalf("Finish = %d messages, %v, want %d", len(finished), err, batch)
		}
		claiming += claimed.Sub(start)
		finishing += time.Since(claimed)
		batches++
	}
	b.ReportMetric(float64(claiming.Microseconds())/1000/float64(batches), "ms/claim")
	b.ReportMetric(float64(finishing.Microseconds())/1000/float64(batches), "ms/finish")
}
