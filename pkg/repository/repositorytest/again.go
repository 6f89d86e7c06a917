package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// againPromises returns the promises about repeated requests. A driver repeats a request when the connection ends after
// the first one. Two requests with the same operation make only one change.
func againPromises() []promise {
	return []promise{
		{"ByHandIsOneChangeOfOneOperation", againByHand},
		{"AnotherOperationIsRefused", againOther},
		{"AnotherActionOfTheOperationIsRefused", againOtherAction},
		{"AnotherMessageOfTheOperationIsRefused", againOtherMessage},
		{"AnswersWithTheMessageAsItIsNow", againLater},
		{"ChangeCountsWhatTheOperationChanged", againChange},
		{"ChangeGoesOnWithTheRest", againChangeRest},
		{"MoveIsOneMoveOfOneOperation", againMove},
		{"AnotherMoveIsRefused", againOtherMove},
	}
}

func againByHand(h *harness) {
	for _, way := range byHand {
		m, cause := h.failedIn(way.from), fullCause()
		for range 3 {
			check.NoError(h, way.do(h, m.ID, cause))
			h.clock.Advance(time.Second)
		}
		check.Same(h, h.statusOf(m.ID), way.to, "%s left it as", way.action)
		h.wantLines(m.ID, way.action, 1)
	}
}

// wantLines checks the number of audit entries that an object has with this action.
func (h *harness) wantLines(id uuid.UUID, action entity.Action, want int) {
	h.Helper()
	if h.core {
		return // a store with only the core has no audit trail to check
	}
	got := len(h.trail(repository.TrailQuery{ObjectID: id, Action: action}))
	check.Same(h, got, want, "entries of %s of %s", action, id)
}

func againOther(h *harness) {
	for _, way := range byHand {
		for _, other := range []entity.AuditInfo{fullCause(), entity.By("alice")} {
			m := h.failedIn(way.from)
			check.NoError(h, way.do(h, m.ID, fullCause()))
			h.wantAgainRefused(way.action, m.ID, way.to, way.do(h, m.ID, other))
			h.wantLines(m.ID, way.action, 1)
		}
		nobody := entity.By("alice") // this cause has no operation, so the store takes each call for a change by another operation
		m := h.failedIn(way.from)
		check.NoError(h, way.do(h, m.ID, nobody))
		h.wantAgainRefused(way.action, m.ID, way.to, way.do(h, m.ID, nobody))
	}
}

// wantAgainRefused checks the error that a store returns when another operation has already made the same change.
func (h *harness) wantAgainRefused(action entity.Action, id uuid.UUID, now entity.Status, err error) {
	h.Helper()
	if action == entity.ActionDelete {
		h.wantNotFound(string(action), id, err)
		return
	}
	h.wantNoArrow(string(action), now, now, err)
}

func againOtherAction(h *harness) {
	m, cause := h.put(), fullCause()
	check.Must(h.Repository.MarkDead(h.Context(), m.ID, cause))(h)
	check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("bob")))(h)
	_, err := h.Repository.Requeue(h.Context(), m.ID, cause)
	h.wantNoArrow("Requeue under the operation of a GiveUp", entity.Pending, entity.Pending, err)
}

func againOtherMessage(h *harness) {
	m, other, cause := h.put(), h.in(entity.Dead), fullCause()
	check.Must(h.Repository.MarkDead(h.Context(), m.ID, cause))(h)
	_, err := h.Repository.MarkDead(h.Context(), other.ID, cause)
	h.wantNoArrow("GiveUp of another message", entity.Dead, entity.Dead, err)
}

func againLater(h *harness) {
	m, cause := h.in(entity.Dead), fullCause()
	check.Must(h.Repository.Requeue(h.Context(), m.ID, cause))(h)
	h.attempt(m.ID, entity.Acknowledged)
	got := check.Must(h.Repository.Requeue(h.Context(), m.ID, cause))(h)
	check.True(h, got.ID == m.ID && got.Status == entity.Resolved,
		"Requeue again = %s, %s, want %s, RESOLVED by now", got.ID, got.Status, m.ID)
	h.wantStatus(m.ID, entity.Resolved)
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("bob")))
	h.wantNotFound("Requeue again of what is gone", m.ID, check.Err(h.Repository.Requeue(h.Context(), m.ID, cause)))
}

func againChange(h *harness) {
	for _, way := range byHand {
		cause, claimed := fullCause(), h.in(entity.Retrying).ID
		first, second := h.failedIn(way.from).ID, h.failedIn(way.from).ID
		want := []uuid.UUID{first, second}
		for range 2 {
			got := h.change(way.redrive, cause, first, claimed, second, uuid.New(), first)
			h.wantSameIDs("Change "+string(way.redrive), got, want)
		}
		for _, id := range want {
			h.wantLines(id, way.action, 1)
		}
		check.Len(h, h.change(way.redrive, fullCause(), first, second), 0, "Change(%s) under another operation", way.redrive)
	}
}

// againChangeRest: one operation may change different messages in several calls, because all batches of a redrive use
// the operation of the redrive.
func againChangeRest(h *harness) {
	for _, way := range byHand {
		cause := fullCause()
		first, second := h.failedIn(way.from).ID, h.failedIn(way.from).ID
		h.wantIDs("Change", h.change(way.redrive, cause, first), []uuid.UUID{first})
		h.wantIDs("Change of the next", h.change(way.redrive, cause, second), []uuid.UUID{second})
		third := h.failedIn(way.from).ID
		h.wantSameIDs("Change of all", h.change(way.redrive, cause, first, second, third), []uuid.UUID{first, second, third})
		for _, id := range []uuid.UUID{first, second, third} {
			h.wantLines(id, way.action, 1)
		}
	}
}

func againMove(h *harness) {
	r, _ := h.began(1)
	pause := repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Note: "lunch", Cause: fullCause()}
	paused := h.move(r.ID, pause)
	h.clock.Advance(time.Second)
	h.wantRedrive(h.move(r.ID, pause), paused)
	h.wantLines(r.ID, entity.ActionPause, 1)
	cancelled := h.move(r.ID, repository.RedriveMove{To: entity.RedriveCancelled, Action: entity.ActionCancel, Cause: fullCause()})
	h.wantRedrive(h.move(r.ID, pause), cancelled)
	h.wantLines(r.ID, entity.ActionPause, 1)
}

func againOtherMove(h *harness) {
	r, _ := h.began(1)
	other, _ := h.began(1)
	pause := repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: fullCause()}
	h.move(r.ID, pause)
	h.move(other.ID, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: fullCause()})
	for name, refused := range map[string]struct {
		id   uuid.UUID
		move repository.RedriveMove
	}{
		"another operation": {r.ID, repository.RedriveMove{To: pause.To, Action: pause.Action, Cause: fullCause()}},
		"no operation":      {r.ID, repository.RedriveMove{To: pause.To, Action: pause.Action, Cause: entity.By("bob")}},
		"another action":    {r.ID, repository.RedriveMove{To: entity.RedriveStopped, Action: entity.ActionStop, Cause: pause.Cause}},
		"another redrive":   {other.ID, pause},
	} {
		before := h.redrive(refused.id)
		_, err := h.Repository.MoveRedrive(h.Context(), refused.id, refused.move)
		h.Log(name)
		h.wantNoMove(before, refused.move.To, err)
	}
}
