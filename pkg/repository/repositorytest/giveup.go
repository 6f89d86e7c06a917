package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func giveUpPromises() []promise {
	return []promise{
		{"PendingIsDead", giveUpPending},
		{"LiveClaimIsConflict", giveUpLive},
		{"ExpiredClaimIsConflict", giveUpExpired},
		{"UnsettleableIsDeadAndItsResultIsLate", giveUpUnsettleable},
		{"AttemptThatEndsSoIsInTheHistory", giveUpHistory},
		{"FinalIsRefused", giveUpFinal},
		{"UnknownIsNotFound", giveUpUnknown},
	}
}

func (h *harness) giveUp(before entity.Message) {
	h.Helper()
	answer, err := h.Repository.GiveUp(h.Context(), before.ID, entity.By("test"))
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
	_, err := h.Repository.GiveUp(h.Context(), m.ID, entity.By("test"))
	h.wantClaimed("GiveUp while a claim lives", m.ID, err)
	h.wantUnchanged(m)
}

// giveUpExpired: nobody has looked yet whether the record was published.
func giveUpExpired(h *harness) {
	m := h.in(entity.Retrying)
	h.clock.Advance(100 * expiry)
	_, err := h.Repository.GiveUp(h.Context(), m.ID, entity.By("test"))
	h.wantClaimed("GiveUp once the claim expired", m.ID, err)
	h.wantUnchanged(m)
}

func giveUpUnsettleable(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	late := repository.Claim{MessageID: m.ID, ID: h.get(m.ID).Claim.ID}
	h.clock.Advance(time.Second)
	h.giveUp(h.get(m.ID))
	dead := h.get(m.ID)
	if got := h.finishAll(result(late, entity.Acknowledged)); len(got) != 0 {
		h.Errorf("Finish after GiveUp = %+v, want nothing", got)
	}
	h.wantUnchanged(dead)
}

func giveUpHistory(h *harness) {
	m, pending := h.put(), h.put()
	h.unsettleable(m.ID)
	before := h.get(m.ID)
	for _, id := range []uuid.UUID{m.ID, pending.ID} {
		if _, err := h.Repository.GiveUp(h.Context(), id, entity.By("eve")); err != nil {
			h.Fatalf("GiveUp: %v", err)
		}
	}
	h.wantAbandoned(before, "eve", entity.Dead)
	if got := h.history(pending.ID); len(got) != 0 {
		h.Errorf("history of what was never tried = %+v, want none", got)
	}
}

// wantAbandoned checks that the attempt under before's claim is the last of the
// history, as one that nobody could settle.
func (h *harness) wantAbandoned(before entity.Message, actor string, to entity.Status) {
	h.Helper()
	attempts := h.history(before.ID)
	if len(attempts) == 0 {
		h.Fatalf("history is empty, want the attempt that nobody could settle")
	}
	got := attempts[len(attempts)-1]
	if got.ID != before.Claim.ID || got.Actor != actor || got.From != entity.Retrying || got.To != to ||
		got.Class != entity.UnknownClass || got.Topic != before.Claim.Topic || got.Partition != before.Claim.Partition ||
		got.Offset != -1 || got.StartedAt != before.LastRetryAt || got.EndedAt.Before(got.StartedAt) {
		h.Errorf("last attempt = %+v, want %s by %s to %s, class UNKNOWN", got, before.Claim.ID, actor, to)
	}
}

func giveUpFinal(h *harness) {
	for _, s := range []entity.Status{entity.Resolved, entity.Dead} {
		m := h.in(s)
		_, err := h.Repository.GiveUp(h.Context(), m.ID, entity.By("test"))
		h.wantNoArrow("GiveUp", s, entity.Dead, err)
		h.wantUnchanged(m)
	}
}

func giveUpUnknown(h *harness) {
	id := uuid.New()
	_, err := h.Repository.GiveUp(h.Context(), id, entity.By("test"))
	h.wantNotFound("GiveUp", id, err)
}
