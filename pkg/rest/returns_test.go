package rest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TestForgedReturnChangesNoOutcome: a record in a foreign dead-letter topic names an
// attempt of another topic's message, as everyone who reads the live topic could.
func TestForgedReturnChangesNoOutcome(t *testing.T) {
	t.Parallel()
	parent := message(idA)
	f := newFixture(parent).open()
	claim := repository.Claim{MessageID: idA, ID: uuid.New(), Topic: parent.OriginalTopic}
	taken, err := f.memory.Claim(t.Context(), []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute, Cause: entity.By("a")})
	if err != nil || len(taken) != 1 {
		t.Fatalf("Claim = %v, %v, want one message", taken, err)
	}
	_, err = f.memory.Finish(t.Context(), []repository.Result{{MessageID: idA, ClaimID: claim.ID, Verdict: entity.Acknowledged}}, entity.By("a"))
	if err != nil {
		t.Fatal(err)
	}
	refs, err := f.memory.OpenTopics(t.Context(), []repository.Topic{{Name: "gamma.dlq.v1", Incarnation: "life-1"}})
	if err != nil {
		t.Fatal(err)
	}
	partition := repository.Partition{Incarnation: refs[0].Incarnation}
	if _, err = f.memory.OpenPosition(t.Context(), []repository.Position{{Partition: partition}}); err != nil {
		t.Fatal(err)
	}
	forged := entity.NewMessage(parent.OriginalTopic, "boom", noon)
	forged.Return = &entity.Return{Parent: idA, Attempt: claim.ID}
	forged.Source = entity.Source{TopicID: refs[0].TopicID, Incarnation: refs[0].Incarnation}
	stored, err := f.memory.Store(t.Context(), repository.Batch{
		Ranges: []repository.Range{{Partition: partition, To: 1}}, Messages: []entity.Message{forged},
	})
	if err != nil || len(stored.Returns) != 1 {
		t.Fatalf("Store = %+v, %v, want one return", stored, err)
	}
	read := func(id uuid.UUID) (m map[string]any) {
		t.Helper()
		answer := f.do(http.MethodGet, "/api/v1/dlq/messages/"+id.String(), "")
		if err := json.Unmarshal(answer.Body.Bytes(), &m); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("message %s: %d %s", id, answer.Code, answer.Body)
		}
		return m
	}

	got := read(idA)
	if got["outcome"] != "published" || got["return_confirmed"] != nil {
		t.Errorf("parent has outcome %v, return_confirmed %v, want published, null", got["outcome"], got["return_confirmed"])
	}
	got = read(forged.ID)
	if got["parent_id"] != idA.String() || got["return_confirmed"] != false || got["retry_count"] != 1.0 {
		t.Errorf("child has parent %v, return_confirmed %v, retry_count %v, want %s, false, 1",
			got["parent_id"], got["return_confirmed"], got["retry_count"], idA)
	}
}
