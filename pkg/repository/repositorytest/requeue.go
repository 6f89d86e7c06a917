package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func requeuePromises() []promise {
	return []promise{
		{"DeadStartsOver", requeueDead},
		{"RequeuedCanBeClaimed", requeueClaim},
		{"AnyOtherStateIsRefused", requeueRefused},
		{"UnknownIsNotFound", requeueUnknown},
	}
}

func requeueDead(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 1 })
	h.attempt(m.ID, entity.Failed)
	before := h.get(m.ID)
	h.clock.Advance(time.Minute)
	answer, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice"))
	if err != nil {
		h.Fatal(err)
	}
	for name, got := range map[string]entity.Message{"Requeue": answer, "Get": h.get(m.ID)} {
		if got.ID != m.ID || got.Status != entity.Pending || got.RetryCount != 0 || got.MaxRetries != 1 || !got.NextAttemptAt.Equal(got.UpdatedAt) && !h.UpdatedAtIsTheServers {
			h.Errorf("%s = %s, %d/%d, next attempt %v, want PENDING, 0/1, at once", name, got.Status, got.RetryCount, got.MaxRetries, got.NextAttemptAt)
		}
		if got.CreatedAt != before.CreatedAt {
			h.Errorf("%s created %v, want as before, %v", name, got.CreatedAt, before.CreatedAt)
		}
		h.wantMoved(before, got)
	}
	if got := len(h.history(m.ID)); got != 1 {
		h.Errorf("history has %d attempts after a requeue, want the 1 as before", got)
	}
}

func requeueClaim(h *harness) {
	m := h.in(entity.Dead, func(m *entity.Message) { m.RetryCount = 2 })
	if _, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	if got := h.claimable(original); got != 1 {
		h.Errorf("%d messages can be claimed, want the requeued one", got)
	}
	h.wantFinished(h.attempt(m.ID, entity.Acknowledged), entity.Resolved, 1)
}

// requeueRefused has RETRYING too: it has an arrow to PENDING, but not this one.
func requeueRefused(h *harness) {
	for _, s := range []entity.Status{entity.Pending, entity.Retrying, entity.Resolved} {
		m := h.in(s)
		_, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice"))
		h.wantNoArrow("Requeue", s, entity.Pending, err)
		h.clock.Advance(100 * expiry)
		_, err = h.Repository.Requeue(h.Context(), m.ID, entity.By("alice"))
		h.wantNoArrow("Requeue much later", s, entity.Pending, err)
		h.wantUnchanged(m)
	}
}

func requeueUnknown(h *harness) {
	id := uuid.New()
	_, err := h.Repository.Requeue(h.Context(), id, entity.By("alice"))
	h.wantNotFound("Requeue", id, err)
}
