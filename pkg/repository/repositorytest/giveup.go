package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func giveUpPromises() []promise {
	return []promise{
		{"PendingIsDead", giveUpPending},
		{"LiveClaimIsConflict", giveUpLive},
		{"ExpiredClaimIsDeadAndItsResultIsLate", giveUpExpired},
		{"UnsettleableIsDead", giveUpUnsettleable},
		{"FinalIsRefused", giveUpFinal},
		{"UnknownIsNotFound", giveUpUnknown},
	}
}

func (h *harness) giveUp(before entity.Message) {
	h.Helper()
	answer, err := h.Repository.GiveUp(h.Context(), before.ID)
	if err != nil {
		h.Fatalf("GiveUp: %v", err)
	}
	for name, got := range map[string]entity.Message{"GiveUp": answer, "Get": h.get(before.ID)} {
		if got.ID != before.ID || got.Status != entity.Dead || got.RetryCount != before.RetryCount || got.Claim != (entity.Claim{}) || !got.NextAttemptAt.IsZero() {
			h.Errorf("%s = %s, %d attempts, claim %+v, next attempt %v, want DEAD, %d, none, none",
				name, got.Status, got.RetryCount, got.Claim, got.NextAttemptAt, before.RetryCount)
		}
		h.wantMoved(before, got)
	}
}

func giveUpPending(h *harness) {
	m := h.put()
	h.attempt(m.ID, entity.Failed)
	before := h.get(m.ID)
	h.clock.Advance(time.Minute)
	h.giveUp(before)
}

func giveUpLive(h *harness) {
	m := h.in(entity.Retrying)
	h.clock.Advance(expiry - time.Second)
	_, err := h.Repository.GiveUp(h.Context(), m.ID)
	h.wantClaimed("GiveUp while a claim lives", m.ID, err)
	h.wantUnchanged(m)
}

func giveUpExpired(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	before := h.get(m.ID)
	h.clock.Advance(expiry + time.Second)
	h.giveUp(before)
	dead := h.get(m.ID)
	if got := h.finishAll(result(c, entity.Acknowledged)); len(got) != 0 {
		h.Errorf("Finish after GiveUp = %+v, want nothing", got)
	}
	h.wantUnchanged(dead)
	h.wantIDs("Expired", h.expired(10), nil)
}

func giveUpUnsettleable(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	h.clock.Advance(time.Second)
	h.giveUp(h.get(m.ID))
}

func giveUpFinal(h *harness) {
	for _, s := range []entity.Status{entity.Resolved, entity.Dead} {
		m := h.in(s)
		_, err := h.Repository.GiveUp(h.Context(), m.ID)
		h.wantNoArrow("GiveUp", s, entity.Dead, err)
		h.wantUnchanged(m)
	}
}

func giveUpUnknown(h *harness) {
	id := uuid.New()
	_, err := h.Repository.GiveUp(h.Context(), id)
	h.wantNotFound("GiveUp", id, err)
}
