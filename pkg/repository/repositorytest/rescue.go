package repositorytest

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func rescuePromises() []promise {
	promises := []promise{
		{"TenthInARowIsDead", rescueTenth},
		{"DoubtInBetweenDoesNotStartTheRowAnew", rescueDoubt},
		{"RequeueStartsTheRowAnew", rescueRequeue},
		{"GivenBackIsNoRescueAndNoEndOfTheRow", rescueGivenBack},
	}
	for name, verdict := range map[string]entity.Verdict{"Failed": entity.Failed, "Refused": entity.Refused} {
		promises = append(promises, promise{fmt.Sprintf("%sInBetweenStartsTheRowAnew", name), rescueReset(verdict)})
	}
	return promises
}

// rescues ends n attempts as rescues, all of which lead to PENDING.
func (h *harness) rescues(id uuid.UUID, n int) {
	h.Helper()
	for i := range n {
		if got := h.attempt(id, entity.Rescued); got.Status != entity.Pending {
			h.Fatalf("rescue %d leads to %s, want PENDING", i+1, got.Status)
		}
	}
}

func (h *harness) lastRescue(id uuid.UUID) {
	h.Helper()
	if got := h.attempt(id, entity.Rescued); got.Status != entity.Dead {
		h.Errorf("rescue %d leads to %s, want DEAD", repository.RescueLimit, got.Status)
	}
	h.wantStatus(id, entity.Dead)
}

func rescueTenth(h *harness) {
	m := h.put()
	h.rescues(m.ID, repository.RescueLimit-1)
	h.lastRescue(m.ID)
	if got := len(h.history(m.ID)); got != repository.RescueLimit {
		h.Errorf("history has %d attempts, want %d", got, repository.RescueLimit)
	}
}

func rescueReset(verdict entity.Verdict) func(h *harness) {
	return func(h *harness) {
		m := h.put(func(m *entity.Message) { m.MaxRetries = 100 })
		h.rescues(m.ID, repository.RescueLimit-1)
		h.attempt(m.ID, verdict)
		h.rescues(m.ID, repository.RescueLimit-1)
		h.lastRescue(m.ID)
	}
}

func rescueDoubt(h *harness) {
	m := h.put()
	h.rescues(m.ID, repository.RescueLimit-1)
	c := h.claim(m.ID)
	h.finish(c, entity.InDoubt)
	if got := h.finish(c, entity.Rescued); got.Status != entity.Dead {
		h.Errorf("rescue %d after a doubt leads to %s, want DEAD", repository.RescueLimit, got.Status)
	}
}

func rescueRequeue(h *harness) {
	m := h.put()
	h.rescues(m.ID, repository.RescueLimit-1)
	h.lastRescue(m.ID)
	if _, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.rescues(m.ID, repository.RescueLimit-1)
	h.lastRescue(m.ID)
}

// A process that gives an attempt back lives: it says nothing about what the
// message does to processes.
func rescueGivenBack(h *harness) {
	m := h.put()
	for i := range 3 * repository.RescueLimit {
		if got := h.attempt(m.ID, entity.GivenBack); got.Status != entity.Pending || got.RetryCount != 0 {
			h.Fatalf("attempt %d given back leads to %s, %d attempts, want PENDING, 0", i+1, got.Status, got.RetryCount)
		}
	}
	h.rescues(m.ID, repository.RescueLimit-1)
	h.attempt(m.ID, entity.GivenBack)
	h.lastRescue(m.ID)
}
