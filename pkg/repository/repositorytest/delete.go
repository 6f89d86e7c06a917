package repositorytest

import (
	"errors"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func deletePromises() []promise {
	return []promise{
		{"RemovesTheMessageForGood", deleteRemoves},
		{"UnknownIsNotFound", deleteUnknown},
		{"SecondIsNotFound", deleteSecond},
		{"ClaimedIsConflict", deleteClaimed},
		{"UnsettleableIsConflictThatSaysSo", deleteUnsettleable},
	}
}

func deleteRemoves(h *harness) {
	for _, s := range []entity.Status{entity.Pending, entity.Resolved, entity.Dead} {
		m, other := h.in(s), h.in(s)
		if err := h.Repository.Delete(h.Context(), m.ID, entity.By("alice")); err != nil {
			h.Errorf("Delete in %s = %v, want it gone", s, err)
		}
		_, err := h.Repository.Get(h.Context(), m.ID, whole)
		h.wantNotFound("Get", m.ID, err)
		for _, listed := range ids(h.list(original, firstPage).Messages) {
			if listed == m.ID {
				h.Errorf("%s is listed, want it gone", m.ID)
			}
		}
		h.wantUnchanged(other)
	}
}

func deleteUnknown(h *harness) {
	id := uuid.New()
	h.wantNotFound("Delete", id, h.Repository.Delete(h.Context(), id, entity.By("alice")))
}

func deleteSecond(h *harness) {
	m := h.put()
	if err := h.Repository.Delete(h.Context(), m.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.wantNotFound("second Delete", m.ID, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
}

func deleteClaimed(h *harness) {
	m := h.in(entity.Retrying)
	h.wantClaimed("Delete while a claim lives", m.ID, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	h.clock.Advance(100 * expiry)
	h.wantClaimed("Delete once the claim expired", m.ID, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	h.wantUnchanged(m)
}

func deleteUnsettleable(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	before := h.get(m.ID)
	err := h.Repository.Delete(h.Context(), m.ID, entity.By("alice"))
	h.wantClaimed("Delete of what nobody can settle", m.ID, err)
	var claimed *entity.ClaimedError
	if !errors.As(err, &claimed) || !claimed.Unsettled {
		h.Errorf("Delete = %v, want it to say that the attempt cannot be settled", err)
	}
	if !before.Unsettled {
		h.Error("Get does not say that the attempt cannot be settled")
	}
	h.wantUnchanged(before)
}
