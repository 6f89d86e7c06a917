package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// retryAllPromises returns the promises about redrives of a whole topic, which stores without repository.Selections
// must keep too.
func retryAllPromises() []promise {
	return []promise{
		{"TakesTheTopicOldestFirstUnderBothItsNames", retryAllTakes},
		{"TakesWhatIsVisible", retryAllVisible},
		{"LeavesOutWhatIsUnderWay", retryAllLeavesOut},
		{"WithNothingToTakeItIsFinished", retryAllEmpty},
		{"IdThatExistsIsReturnedAsItIs", retryAllAgain},
		{"WithoutATopicItIsInvalid", retryAllInvalid},
		{"UnknownIsNotFound", retryAllUnknown},
		{"KeepsThatEnvelopesAreAccepted", retryAllEnvelopes},
		{"PausedItHandsOutNothingAndKeepsItsNote", retryAllPaused},
		{"FinishesOnlyWhenEveryBatchIsDone", retryAllFinish},
		{"ActiveAreOldestFirst", retryAllActive},
		{"CountsWhatCameBack", retryAllReturned},
	}
}

// leased leases every batch of a redrive and returns the ids of its messages in their order.
func (h *harness) leased(redrive uuid.UUID) (ids []uuid.UUID) {
	h.Helper()
	for b := h.lease(redrive, uuid.New()); b != nil; b = h.lease(redrive, uuid.New()) {
		for _, item := range b.Items {
			ids = append(ids, item.MessageID)
		}
	}
	return ids
}

func retryAllTakes(h *harness) {
	ids := h.puts(4)
	h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "payments", h.source("payments.dlq", 1) })
	h.wantIDs("messages by the original topic", h.leased(h.create(retryAll()).ID), ids)
	byDeadLetters := retryAll(func(n *repository.NewRedrive) { n.Selection.Topic = deadLetter })
	h.wantIDs("messages by the dead-letter topic", h.leased(h.create(byDeadLetters).ID), ids)
}

func retryAllVisible(h *harness) {
	mine := h.put()
	h.put(func(m *entity.Message) { m.OriginalTopic = "payments" })
	visible := check.Must(entity.ParseTopicPatterns("topics", original))(h)
	r := h.create(retryAll(func(n *repository.NewRedrive) { n.Selection.Topic, n.Selection.Visible = deadLetter, &visible }))
	h.wantIDs("visible messages", h.leased(r.ID), []uuid.UUID{mine.ID})
}

func retryAllLeavesOut(h *harness) {
	h.in(entity.Retrying)
	h.in(entity.Resolved)
	h.in(entity.Dead)
	pending := h.put()
	r := h.create(retryAll())
	check.True(h, r.Selected == 2 && r.LeftOut == 1 && r.Counts.Skipped == 1 && r.Counts.Reasons[repository.SkippedTaken] == 1,
		"redrive = %+v, want the claimed one of two left out as taken", r)
	h.wantIDs("messages", h.leased(r.ID), []uuid.UUID{pending.ID})
}

func retryAllEmpty(h *harness) {
	h.in(entity.Retrying)
	r := h.create(retryAll())
	check.True(h, r.State == entity.RedriveFinished && r.EndedAt == h.clock.Kept() && r.Counts.Waiting == 0,
		"redrive is %s, ended %v, %d waiting, want it finished now", r.State, r.EndedAt, r.Counts.Waiting)
	h.wantNoLease(r.ID)
}

func retryAllAgain(h *harness) {
	h.puts(4)
	n := retryAll()
	h.create(n)
	moved := h.move(n.ID, repository.RedriveMove{To: entity.RedrivePaused})
	h.puts(2)
	h.wantRedrive(h.create(n), moved)
}

func retryAllInvalid(h *harness) {
	h.put()
	for name, change := range map[string]func(*repository.NewRedrive){
		"no topic":      func(n *repository.NewRedrive) { n.Selection.Topic = "" },
		"empty batches": func(n *repository.NewRedrive) { n.BatchSize = 0 },
	} {
		n := retryAll(change)
		check.Is(h, check.Err(h.Repository.CreateRedrive(h.Context(), n)), entity.ErrInvalid,
			"CreateRedrive with %s, want ErrInvalid", name)
		h.wantNoRedrive("Redrive after that", n.ID, check.Err(h.Repository.Redrive(h.Context(), n.ID)))
	}
}

func retryAllUnknown(h *harness) {
	id := uuid.New()
	h.wantNoRedrive("Redrive", id, check.Err(h.Repository.Redrive(h.Context(), id)))
	_, err := h.Repository.MoveRedrive(h.Context(), id, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: entity.By("bob")})
	h.wantNoRedrive("MoveRedrive", id, err)
	h.wantNoRedrive("SaveWaiting", id, h.Repository.SaveWaiting(h.Context(), id, true, "no broker"))
	h.wantNoRedrive("LeaseBatch", id, check.Err(h.Repository.LeaseBatch(h.Context(), id, uuid.New(), expiry)))
	_, err = h.Repository.SaveBatch(h.Context(), repository.BatchResults{RedriveID: id, Owner: uuid.New()})
	h.wantNoRedrive("SaveBatch", id, err)
}

func retryAllEnvelopes(h *harness) {
	h.put()
	n := retryAll(func(n *repository.NewRedrive) { n.Options.AcceptEnvelope = true })
	h.create(n)
	check.True(h, check.Must(h.Repository.Redrive(h.Context(), n.ID))(h).Options.AcceptEnvelope, "the option is lost")
}

func retryAllPaused(h *harness) {
	r, _ := h.began(4)
	dead := h.wantLease(r.ID, 0)
	paused := h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused, Note: "enough"})
	h.wantNoLease(r.ID)
	check.NoError(h, h.Repository.SaveWaiting(h.Context(), r.ID, true, "no broker"))
	h.wantRedrive(h.redrive(r.ID), paused)
	h.clock.Advance(2 * expiry)
	b := h.wantLease(r.ID, dead.Number)
	check.True(h, b.OnlyCatchUp && b.TakenOver, "batch = %+v, want one to catch up with only", b.RedriveBatch)
	h.wantNoLease(r.ID)
}

func retryAllFinish(h *harness) {
	r, _ := h.began(4)
	first, second := h.wantLease(r.ID, 0), h.wantLease(r.ID, 1)
	finish := func() entity.Redrive {
		return h.move(r.ID, repository.RedriveMove{To: entity.RedriveFinished, Action: entity.ActionFinish})
	}
	h.saveAll(first, entity.ItemInDoubt)
	check.Same(h, finish().State, entity.RedriveRunning, "with an open batch it became, want running")
	h.saveAll(second, entity.ItemSkipped)
	got := finish()
	check.True(h, got.State == entity.RedriveFinished && !got.EndedAt.IsZero(),
		"with all batches done it became %s, ended %v, want finished now", got.State, got.EndedAt)
}

func retryAllActive(h *harness) {
	h.put()
	var want []uuid.UUID
	for _, to := range []entity.RedriveState{entity.RedriveRunning, entity.RedrivePaused, entity.RedriveStopped, entity.RedriveCancelled, entity.RedriveRunning} {
		r := h.create(retryAll())
		h.clock.Advance(time.Second)
		if to == entity.RedriveRunning {
			want = append(want, r.ID)
		} else {
			h.move(r.ID, repository.RedriveMove{To: to})
		}
	}
	got := check.Must(h.Repository.ActiveRedrives(h.Context()))(h)
	h.wantIDs("ActiveRedrives", got, want)
}

func retryAllReturned(h *harness) {
	r, ids := h.began(2)
	h.returned(r.ID, ids[0])
	h.returned(uuid.New(), ids[1])
	check.Same(h, h.redrive(r.ID).Counts.Returned, 1, "messages that came back")
}
