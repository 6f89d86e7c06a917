package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func retryAll(topic string) repository.NewRedrive {
	return repository.NewRedrive{
		ID: uuid.New(), Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: topic}},
		Cause: entity.By("alice"), BatchSize: 500,
	}
}

// pending puts n PENDING messages of one topic in.
func pending(tb testing.TB, db *sqlx.DB, topic string, n int) {
	tb.Helper()
	for _, statement := range []string{
		`INSERT INTO dlq.topics (name) VALUES ('orders.dlq') ON CONFLICT DO NOTHING`,
		fmt.Sprintf(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id, value, headers)
			SELECT '%s', 'boom ' || n, now() - n * interval '1 ms', 1, 'v', '\x00'
			FROM generate_series(1, %d) n`, topic, n),
		`VACUUM ANALYZE dlq.dlq_messages`,
	} {
		if _, err := db.Exec(statement); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkCreateRedrive fixes a retry of everything.
func BenchmarkCreateRedrive(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db := postgrestest.Open(b)
			store := New(db)
			pending(b, db, "orders", n)
			for b.Loop() {
				r, err := store.CreateRedrive(b.Context(), retryAll("orders"))
				if err != nil || r.Counts.Waiting != n {
					b.Fatalf("CreateRedrive = %d messages, %v, want %d", r.Counts.Waiting, err, n)
				}
			}
		})
	}
}

// BenchmarkBatch leases and saves batches of 500 messages, all of them sent.
func BenchmarkBatch(b *testing.B) {
	const n = 1_000_000
	db := postgrestest.Open(b)
	store := New(db)
	pending(b, db, "orders", n)
	r, err := store.CreateRedrive(b.Context(), retryAll("orders"))
	if err != nil {
		b.Fatal(err)
	}
	owner := uuid.New()
	var leasing, saving time.Duration
	batches := 0
	for b.Loop() {
		if batches == n/500 {
			b.Fatal("every batch is done")
		}
		start := time.Now()
		batch, err := store.LeaseBatch(b.Context(), r.ID, owner, time.Minute)
		if err != nil || batch == nil {
			b.Fatalf("LeaseBatch = %v, %v, want one", batch, err)
		}
		leased := time.Now()
		results := repository.BatchResults{RedriveID: r.ID, Number: batch.Number, Owner: owner}
		for i, item := range batch.Items {
			results.Items = append(results.Items, entity.RedriveItem{
				Number: batch.First + i, MessageID: item.MessageID, Result: entity.ItemSucceeded,
				Topic: "orders", TopicID: "life-1", Partition: int32(i % 12), Offset: int64(i), Group: "billing",
			})
		}
		if saved, err := store.SaveBatch(b.Context(), results); err != nil || !saved {
			b.Fatalf("SaveBatch = %v, %v, want saved", saved, err)
		}
		leasing += leased.Sub(start)
		saving += time.Since(leased)
		batches++
	}
	b.ReportMetric(float64(leasing.Microseconds())/1000/float64(batches), "ms/lease")
	b.ReportMetric(float64(saving.Microseconds())/1000/float64(batches), "ms/save")
	start := time.Now()
	if _, err := store.Redrive(b.Context(), r.ID); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/look")
	start = time.Now()
	if counts, err := store.RedriveOutcomes(b.Context(), r.ID, false); err != nil || counts.Published != batches*500 {
		b.Fatalf("RedriveOutcomes = %+v, %v, want %d published", counts, err, batches*500)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/outcomes")
}
