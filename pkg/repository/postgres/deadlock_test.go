package postgres

import (
	"slices"
	"sync"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestStoreInOppositeOrders: an ingester that lost its partitions without
// knowing stores the same ranges as the one that has them now. The table is
// large enough for PostgreSQL to find the positions one by one.
func TestStoreInOppositeOrders(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	refs, err := store.OpenTopics(t.Context(), []repository.Topic{{Name: "orders.dlq", Incarnation: "1"}})
	wantNil(t, err)
	exec(t, db, `INSERT INTO dlq.ingest_positions SELECT $1::int, n, 0 FROM generate_series(0, 4999) n`, refs[0].Incarnation)
	exec(t, db, `ANALYZE dlq.ingest_positions`)

	for round := range int64(60) {
		var batch repository.Batch
		for p := range int32(80) {
			at := repository.Partition{Incarnation: refs[0].Incarnation, Partition: p * 61}
			batch.Ranges = append(batch.Ranges, repository.Range{Partition: at, From: round, To: round + 1})
		}
		backwards := repository.Batch{Ranges: slices.Clone(batch.Ranges)}
		slices.Reverse(backwards.Ranges)
		counted := make([]int, 2)
		var both sync.WaitGroup
		for i, b := range []repository.Batch{batch, backwards} {
			both.Go(func() {
				stored, err := store.Store(t.Context(), b)
				if err != nil {
					t.Errorf("round %d: got %v, want no deadlock", round, err)
				}
				counted[i] = len(stored.Ranges)
			})
		}
		both.Wait()
		if counted[0]+counted[1] != 80 {
			t.Fatalf("round %d: %v ranges counted, want each once: 80", round, counted)
		}
	}
}
