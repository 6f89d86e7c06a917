package postgres

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
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

// TestDocumentsInOppositeOrders: two indexers give the same messages a group, each in
// its own order, half of them live and half of them archived.
func TestDocumentsInOppositeOrders(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	indexers := []*Store{New(db), New(db)}
	exec(t, db, `UPDATE dlq.search_index SET version = 1`)
	for round := range 40 {
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, updated_at)
			SELECT 'orders', 'boom', (ARRAY['PENDING', 'RESOLVED'])[1 + n % 2], '2001-01-01', '2001-01-01' FROM generate_series(1, 120) n`)
		_, err := indexers[0].ArchiveOld(t.Context(), 1, 1000)
		wantNil(t, err)
		var ids []uuid.UUID
		wantNil(t, db.Select(&ids, `SELECT id FROM (
			SELECT id FROM dlq.dlq_messages WHERE group_id IS NULL UNION ALL
			SELECT id FROM dlq.dlq_messages_archive WHERE group_id IS NULL) m ORDER BY md5(id::text)`))
		if len(ids) != 120 {
			t.Fatalf("round %d: %d messages without a group, want 120", round, len(ids))
		}
		fingerprint := entity.Fingerprint{Title: "boom"}
		documents := make([]entity.Document, len(ids))
		for i, id := range ids {
			documents[i] = entity.Document{MessageID: id, Text: "boom", Terms: []int64{1}, Fingerprint: &fingerprint}
		}
		backwards := slices.Clone(documents)
		slices.Reverse(backwards)
		errs := inParallel(
			func() error { return indexers[0].StoreDocuments(t.Context(), 1, documents) },
			func() error { return indexers[1].StoreDocuments(t.Context(), 1, backwards) },
		)
		if errs != nil {
			t.Fatalf("round %d: got %v, want no deadlock", round, errs)
		}
	}
	var left int
	wantNil(t, db.Get(&left, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE group_id IS NULL`))
	if left > 0 {
		t.Errorf("%d archived messages have no group, want none", left)
	}
	wantExactCounters(t, db)
}

// inParallel calls functions at the same time and joins their errors.
func inParallel(calls ...func() error) error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { errs[i] = call() })
	}
	all.Wait()
	return errors.Join(errs...)
}
