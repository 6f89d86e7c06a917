package fake_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

func TestTrailKeepsTheNewest(t *testing.T) {
	t.Parallel()
	const kept, written = 100_000, 130_000
	store := fake.New(time.Now)
	m := entity.NewMessage("orders", "boom", time.Now())
	store.Insert(m)
	first := entity.Cause{Actor: "alice", Operation: uuid.New()}
	for i := range written / 2 {
		cause := entity.By("alice")
		if i == 0 {
			cause = first
		}
		if _, err := store.GiveUp(t.Context(), m.ID, cause); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Requeue(t.Context(), m.ID, cause); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Trail(t.Context(), repository.TrailQuery{ObjectID: m.ID, Limit: 2 * written})
	if err != nil || len(got) != kept {
		t.Fatalf("Trail = %d entries, %v, want %d", len(got), err, kept)
	}
	if newest, oldest := got[0].ID, got[kept-1].ID; newest != written || oldest != written-kept+1 {
		t.Errorf("Trail has entries %d to %d, want %d to %d", oldest, newest, written-kept+1, written)
	}
	if done, err := store.Performed(t.Context(), first.Operation); err != nil || done {
		t.Errorf("Performed = %v, %v, want what is no longer in the trail forgotten", done, err)
	}
}
