package repositorytest

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func archivedPromises() []promise {
	return []promise{
		{"GetArchivedIsTheMessage", archivedGet},
		{"RestoredIsPendingWithItsBytes", archivedRestore},
		{"RestoredMayBeClaimedAtOnce", archivedDue},
		{"RestoredKeepsItsHistoryAndDocument", archivedHistory},
		{"RestoreIsInTheAuditTrail", archivedAudit},
		{"RestoreAgainIsNoError", archivedAgain},
		{"RestoreOfNothingIsNotFound", archivedNothing},
		{"OneOfManyRestores", archivedRace},
		{"RestoredBeforeItWasCataloguedIsFoundLater", archivedUncatalogued},
	}
}

func (h *harness) getArchived(id uuid.UUID) entity.Message {
	h.Helper()
	m, err := h.Repository.GetArchived(h.Context(), id, whole)
	if err != nil {
		h.Fatalf("GetArchived(%s): %v", id, err)
	}
	return m
}

func (h *harness) restore(id uuid.UUID) entity.Message {
	h.Helper()
	m, err := h.Repository.Restore(h.Context(), id, entity.By("alice"))
	if err != nil {
		h.Fatalf("Restore(%s): %v", id, err)
	}
	return m
}

// archived is a message in the archive that has seen everything.
func (h *harness) archived() entity.Message {
	h.Helper()
	m := h.put(func(m *entity.Message) {
		m.Record.Key, m.Record.Headers = []byte("k"), []entity.Header{{Key: "h", Value: []byte("v")}, {Key: "h"}}
		m.Failure.Class, m.Failure.ConsumerGroup, m.Failure.Dialect = "Timeout", "billing", "spring"
		m.Group = someGroup
	})
	h.attempt(m.ID, entity.Failed)
	h.clock.Advance(time.Hour)
	h.attempt(m.ID, entity.Rejected)
	m = h.get(m.ID)
	h.Archive(h.T, m.ID)
	h.clock.Advance(time.Hour)
	return m
}

func archivedGet(h *harness) {
	m := h.archived()
	if got := h.getArchived(m.ID); !reflect.DeepEqual(got, m) {
		h.Errorf("GetArchived =\n     %+v\nwant %+v", got, m)
	}
	_, err := h.Repository.Get(h.Context(), m.ID, whole)
	h.wantNotFound("Get of an archived message", m.ID, err)
	small, err := h.Repository.GetArchived(h.Context(), m.ID, 1)
	if err != nil || small.Record.State != entity.ValueNotLoaded || small.Record.Size != m.Record.Size {
		h.Errorf("GetArchived with a limit = %+v, %v, want the value left out", small.Record, err)
	}
	live := h.put()
	_, err = h.Repository.GetArchived(h.Context(), live.ID, whole)
	h.wantNotFound("GetArchived of a live message", live.ID, err)
}

func archivedRestore(h *harness) {
	m := h.archived()
	answer := h.restore(m.ID)
	want := m
	want.Status, want.RetryCount = entity.Pending, 0
	want.UpdatedAt, want.NextAttemptAt = h.clock.Kept(), h.clock.Kept()
	want.Outcome = ""
	got := h.get(m.ID)
	if h.UpdatedAtIsTheServers {
		want.UpdatedAt, want.NextAttemptAt = got.UpdatedAt, got.NextAttemptAt
	}
	if !reflect.DeepEqual(got, want) {
		h.Errorf("restored\n     %+v\nwant %+v", got, want)
	}
	if answer.ID != m.ID || answer.Status != entity.Pending || answer.UpdatedAt != got.UpdatedAt {
		h.Errorf("Restore = %+v, want the message as it is now", answer)
	}
	_, err := h.Repository.GetArchived(h.Context(), m.ID, whole)
	h.wantNotFound("GetArchived after a restore", m.ID, err)
}

func archivedDue(h *harness) {
	claimed := h.in(entity.Retrying)
	h.Archive(h.T, claimed.ID)
	h.restore(claimed.ID)
	got := h.get(claimed.ID)
	if got.Claim != (entity.Claim{}) || got.Unsettled {
		h.Errorf("restored with %+v, want no claim", got.Claim)
	}
	h.claim(claimed.ID)
}

func archivedHistory(h *harness) {
	m := h.archived()
	h.catalogued(m, 42)
	found := entity.Filter{Words: []string{"boom"}}
	h.wantIDs("by word in the archive", h.search(repository.SearchQuery{Filter: found, Archived: true}), []uuid.UUID{m.ID})
	h.restore(m.ID)
	h.wantIDs("by word after the restore", h.search(repository.SearchQuery{Filter: found}), []uuid.UUID{m.ID})
	if n := len(h.history(m.ID)); n != 2 {
		h.Errorf("%d attempts in the history, want 2", n)
	}
	h.attempt(m.ID, entity.Acknowledged)
	if all := h.history(m.ID); len(all) != 3 || all[2].Number != 3 {
		h.Errorf("history %+v, want the third attempt behind the others", all)
	}
}

func archivedAudit(h *harness) {
	m := h.archived()
	cause := fullCause()
	if _, err := h.Repository.Restore(h.Context(), m.ID, cause); err != nil {
		h.Fatal(err)
	}
	entries := h.trail(repository.TrailQuery{ObjectID: m.ID, Action: entity.ActionRestore})
	if len(entries) != 1 {
		h.Fatalf("%d entries, want 1", len(entries))
	}
	want := entity.AuditEntry{
		ID: entries[0].ID, At: entries[0].At, Action: entity.ActionRestore, Kind: entity.KindMessage, ObjectID: m.ID,
		From: string(entity.Dead), To: string(entity.Pending), Class: m.LastPublishErrorClass, LastError: m.LastPublishError, Cause: cause,
	}
	if entries[0] != want {
		h.Errorf("entry %+v, want %+v", entries[0], want)
	}
}

func archivedAgain(h *harness) {
	m := h.archived()
	cause := fullCause()
	for range 2 {
		got, err := h.Repository.Restore(h.Context(), m.ID, cause)
		if err != nil || got.ID != m.ID || got.Status != entity.Pending {
			h.Errorf("Restore = %+v, %v, want the message", got, err)
		}
	}
	if n := len(h.trail(repository.TrailQuery{ObjectID: m.ID, Action: entity.ActionRestore})); n != 1 {
		h.Errorf("%d entries, want 1", n)
	}
	_, err := h.Repository.Restore(h.Context(), m.ID, fullCause())
	h.wantNotFound("another Restore", m.ID, err)
}

func archivedNothing(h *harness) {
	live, lost := h.put(), uuid.New()
	for _, id := range []uuid.UUID{live.ID, lost} {
		_, err := h.Repository.Restore(h.Context(), id, fullCause())
		h.wantNotFound("Restore", id, err)
	}
	h.wantUnchanged(h.get(live.ID))
}

func archivedRace(h *harness) {
	m := h.archived()
	won := make([]bool, 6)
	together(len(won), func(i int) {
		_, err := h.Repository.Restore(h.Context(), m.ID, fullCause())
		won[i] = err == nil
	})
	won = slices.DeleteFunc(won, func(ok bool) bool { return !ok })
	if len(won) != 1 {
		h.Errorf("%d of the restores succeeded, want 1", len(won))
	}
	h.wantStatus(m.ID, entity.Pending)
}

func archivedUncatalogued(h *harness) {
	m := h.archived()
	h.hold(catalogueVersion)
	for range 3 { // the catalogue comes by, and leaves the place behind
		for _, id := range h.puts(3, func(m *entity.Message) { m.Group = someGroup }) {
			h.document(catalogueVersion, entity.Document{MessageID: id})
		}
		h.clock.Advance(time.Hour)
		h.wantIDs("uncatalogued", h.uncatalogued(catalogueVersion), []uuid.UUID{m.ID})
	}
	h.restore(m.ID)
	h.wantIDs("uncatalogued after the restore", h.uncatalogued(catalogueVersion), []uuid.UUID{m.ID})
}
