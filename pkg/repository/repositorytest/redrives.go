package repositorytest

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func redrivesPromises() []promise {
	return []promise{
		{"ShowsWhatWasAskedFor", redriveShown},
		{"IdThatExistsIsReturnedAsItIs", redriveAgain},
		{"NothingToDoIsFinishedAtOnce", redriveEmpty},
		{"CreationIsInTheTrail", redriveCreationAudit},
		{"ImpossibleOrdersAreInvalid", redriveInvalid},
		{"UnknownIsNotFound", redriveUnknown},
		{"ListIsNewestFirstByStateAndPlace", redrivesListed},
		{"ActiveAreOldestFirst", redrivesActive},
		{"MovesAlongItsArrowsOnly", redriveArrows},
		{"MoveNamesWhereItMayStart", redriveMoveFrom},
		{"MoveIsInTheTrail", redriveMoveAudit},
		{"FinishesOnlyWhenEveryBatchIsDone", redriveFinish},
		{"CanaryIsPassedByItsMove", redrivePass},
		{"ResumeFromStoppedForgives", redriveForgive},
		{"ResumeFromPausedForgivesNothing", redriveUnforgiven},
		{"WaitingKeepsItsBeginning", redriveWaiting},
		{"WaitingIsForActiveOnesOnly", redriveWaitingOver},
	}
}

// retryAll returns a redrive that retries all messages of the topic that the tests use by default.
func retryAll(changes ...func(*repository.NewRedrive)) repository.NewRedrive {
	n := repository.NewRedrive{
		ID: uuid.New(), Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: original}},
		Cause: entity.By("alice"), BatchSize: 3,
	}
	for _, change := range changes {
		change(&n)
	}
	return n
}

func (h *harness) create(n repository.NewRedrive) entity.Redrive {
	h.Helper()
	return check.Must(h.Repository.CreateRedrive(h.Context(), n))(h)
}

// began stores n messages and creates the redrive of retryAll with the given changes. It returns the redrive and the
// ids of the messages.
func (h *harness) began(n int, changes ...func(*repository.NewRedrive)) (entity.Redrive, []uuid.UUID) {
	h.Helper()
	ids := h.puts(n)
	return h.create(retryAll(changes...)), ids
}

func (h *harness) redrive(id uuid.UUID) entity.Redrive {
	h.Helper()
	return check.Must(h.Repository.Redrive(h.Context(), id))(h)
}

func (h *harness) move(id uuid.UUID, m repository.RedriveMove) entity.Redrive {
	h.Helper()
	if m.Cause.Actor == "" {
		m.Cause = entity.By("bob")
	}
	if m.Action == "" {
		m.Action = entity.ActionPause
	}
	return check.Must(h.Repository.MoveRedrive(h.Context(), id, m))(h)
}

func (h *harness) wantRedrive(got, want entity.Redrive) {
	h.Helper()
	check.Same(h, got, want, "redrive")
}

func (h *harness) wantRedriveCounts(id uuid.UUID, want entity.RedriveCounts) {
	h.Helper()
	got := h.redrive(id).Counts
	check.Same(h, got.Reasons, want.Reasons, "reasons")
	got.Reasons, want.Reasons = nil, nil
	check.Same(h, got, want, "counts")
}

func (h *harness) wantNoRedrive(call string, id uuid.UUID, err error) {
	h.Helper()
	var missing *entity.RedriveNotFoundError
	check.True(h, errors.As(err, &missing) && missing.ID == id, "%s = %v, want a RedriveNotFoundError of %s", call, err, id)
}

func redriveShown(h *harness) {
	h.puts(4, func(m *entity.Message) {
		m.Failure.Class, m.Failure.ConsumerGroup = "java.net.ConnectException", "billing"
	})
	n := retryAll(func(n *repository.NewRedrive) {
		n.Cause = fullCause()
		n.Selection = entity.Selection{Filter: entity.Filter{
			Topic: original, Statuses: []entity.Status{entity.Pending, entity.Dead}, ErrorClass: "java.net.ConnectException",
			ConsumerGroup: "billing", CreatedAfter: h.clock.Now().Add(-time.Hour), CreatedBefore: h.clock.Now().Add(time.Hour),
		}}
		n.Options = entity.RedriveOptions{
			Canary: 2, CanaryWait: time.Minute, Rate: 12.5, MaxFailureShare: 0.25, MaxReturnShare: 0.5, MinSample: 20,
			KeepKeyOrder: true, Requeue: true, AcceptEnvelope: true,
		}
	})
	want := entity.Redrive{
		ID: n.ID, Action: n.Action, State: entity.RedriveCanary, Cause: n.Cause, Selection: n.Selection, Options: n.Options,
		CreatedAt: h.clock.Kept(), UpdatedAt: h.clock.Kept(), Selected: 4, Bounded: true,
		Counts: entity.RedriveCounts{Waiting: 4, Reasons: map[string]int{}},
	}
	want.Selection.CreatedAfter = entity.TruncateTime(n.Selection.CreatedAfter)
	want.Selection.CreatedBefore = entity.TruncateTime(n.Selection.CreatedBefore)
	h.wantRedrive(h.create(n), want)
	h.clock.Advance(time.Minute)
	h.wantRedrive(h.redrive(n.ID), want)
}

func redriveAgain(h *harness) {
	h.puts(4)
	n := retryAll()
	h.create(n)
	moved := h.move(n.ID, repository.RedriveMove{To: entity.RedrivePaused})
	h.puts(2)
	n.Action, n.Selection.Topic = entity.RedriveDelete, "other"
	h.wantRedrive(h.create(n), moved)
	check.Same(h, len(h.items(n.ID, repository.ItemQuery{})), 4, "items, want the 4 of the first time")
}

func redriveEmpty(h *harness) {
	h.in(entity.Retrying)
	for name, n := range map[string]repository.NewRedrive{
		"no message":        retryAll(func(n *repository.NewRedrive) { n.Selection.Topic = "nobody" }),
		"none to be taken":  retryAll(),
		"with a canary":     retryAll(func(n *repository.NewRedrive) { n.Options.Canary = 5 }),
		"none of these ids": retryAll(func(n *repository.NewRedrive) { n.Selection = entity.Selection{IDs: []uuid.UUID{uuid.New()}} }),
	} {
		got := h.create(n)
		if got.State != entity.RedriveFinished || got.EndedAt != h.clock.Kept() || got.Selected != got.LeftOut || got.Counts.Waiting != 0 {
			h.Errorf("%s: it is %s, ended %v, %d of %d left out, want finished now and none left",
				name, got.State, got.EndedAt, got.LeftOut, got.Selected)
		}
		h.wantNoLease(n.ID)
	}
}

func redriveCreationAudit(h *harness) {
	h.put()
	n := retryAll(func(n *repository.NewRedrive) { n.Cause = fullCause() })
	h.create(n)
	h.create(n)
	h.wantEntries(n.ID, entity.AuditEntry{
		At: h.clock.Kept(), Action: entity.ActionCreate, Kind: entity.KindRedrive, ObjectID: n.ID,
		To: string(entity.RedriveRunning), Cause: n.Cause,
	})
}

func redriveInvalid(h *harness) {
	m := h.put()
	for name, change := range map[string]func(*repository.NewRedrive){
		"unknown action": func(n *repository.NewRedrive) { n.Action = "explode" },
		"no action":      func(n *repository.NewRedrive) { n.Action = "" },
		"everything":     func(n *repository.NewRedrive) { n.Selection = entity.Selection{} },
		"everything in a status": func(n *repository.NewRedrive) {
			n.Selection = entity.Selection{Filter: entity.Filter{Statuses: entity.Statuses()}}
		},
		"empty batches": func(n *repository.NewRedrive) { n.BatchSize = 0 },
	} {
		n := retryAll(change)
		check.Is(h, check.Err(h.Repository.CreateRedrive(h.Context(), n)), entity.ErrInvalid,
			"CreateRedrive with %s, want ErrInvalid", name)
		h.wantNoRedrive("Redrive after that", n.ID, check.Err(h.Repository.Redrive(h.Context(), n.ID)))
	}
	h.wantUnchanged(h.get(m.ID))
}

func redriveUnknown(h *harness) {
	id := uuid.New()
	repo, ctx := h.Repository, h.Context()
	for name, call := range map[string]func() error{
		"Redrive": func() error { _, err := repo.Redrive(ctx, id); return err },
		"MoveRedrive": func() error {
			_, err := repo.MoveRedrive(ctx, id, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: entity.By("bob")})
			return err
		},
		"SaveWaiting": func() error { return repo.SaveWaiting(ctx, id, true, "no broker") },
		"LeaseBatch":  func() error { _, err := repo.LeaseBatch(ctx, id, uuid.New(), expiry); return err },
		"SaveBatch": func() error {
			_, err := repo.SaveBatch(ctx, repository.BatchResults{RedriveID: id, Owner: uuid.New()})
			return err
		},
		"RedriveItems":    func() error { _, err := repo.RedriveItems(ctx, id, repository.ItemQuery{Limit: 1}); return err },
		"RedriveOverlaps": func() error { _, err := repo.RedriveOverlaps(ctx, id); return err },
		"ReturnedErrors":  func() error { _, err := repo.ReturnedErrors(ctx, id); return err },
		"RedriveOutcomes": func() error { _, err := repo.RedriveOutcomes(ctx, id, false); return err },
		"RedriveBounds":   func() error { _, err := repo.RedriveBounds(ctx, id, time.Second); return err },
	} {
		h.wantNoRedrive(name, id, call())
	}
	check.NoError(h, repo.RenewLeases(ctx, uuid.New(), expiry))
}

func redrivesListed(h *harness) {
	h.put()
	var all []uuid.UUID
	for i := range 6 {
		n := retryAll()
		h.create(n)
		if i == 2 {
			h.move(n.ID, repository.RedriveMove{To: entity.RedriveCancelled})
		}
		all = append(all, n.ID)
		if i != 3 { // the clock stands still once, so that two of the redrives have the same created_at
			h.clock.Advance(time.Second)
		}
	}
	slices.SortFunc(all[3:5], compareIDs)
	slices.Reverse(all)
	list := func(q repository.RedriveQuery) (found []uuid.UUID, last repository.Cursor) {
		q.Limit = max(q.Limit, 0)
		redrives := check.Must(h.Repository.Redrives(h.Context(), q))(h)
		for _, r := range redrives {
			found, last = append(found, r.ID), repository.Cursor{CreatedAt: r.CreatedAt, ID: r.ID}
		}
		return found, last
	}
	found, _ := list(repository.RedriveQuery{Limit: 10})
	h.wantIDs("Redrives", found, all)
	found, _ = list(repository.RedriveQuery{Limit: 10, States: []entity.RedriveState{entity.RedriveCancelled, entity.RedrivePaused}})
	h.wantIDs("Redrives that are cancelled or paused", found, []uuid.UUID{all[3]})
	var paged []uuid.UUID
	place := repository.Cursor{}
	for range all {
		found, place = list(repository.RedriveQuery{Limit: 2, Before: place})
		if paged = append(paged, found...); len(found) < 2 {
			break
		}
	}
	h.wantIDs("pages of Redrives", paged, all)
}

func redrivesActive(h *harness) {
	h.put()
	var want []uuid.UUID
	for _, to := range append(entity.RedriveStates(), entity.RedriveRunning) {
		n := retryAll(func(n *repository.NewRedrive) { n.Options.Canary = 1 })
		h.create(n)
		h.clock.Advance(time.Second)
		switch to {
		case entity.RedriveCanary:
			want = append(want, n.ID)
		case entity.RedriveRunning:
			want = append(want, n.ID)
			h.move(n.ID, repository.RedriveMove{To: to})
		case entity.RedriveFinished:
			h.complete(n.ID, entity.ItemSucceeded)
			h.move(n.ID, repository.RedriveMove{To: to})
		case entity.RedrivePaused, entity.RedriveStopped, entity.RedriveCancelled:
			h.move(n.ID, repository.RedriveMove{To: to})
		}
	}
	got := check.Must(h.Repository.ActiveRedrives(h.Context()))(h)
	h.wantIDs("ActiveRedrives", got, want)
}

// inState returns a redrive in the given state, all of whose batches are done.
func (h *harness) inState(state entity.RedriveState) entity.Redrive {
	h.Helper()
	h.put()
	n := retryAll(func(n *repository.NewRedrive) { n.Options.Canary = 1000 })
	h.create(n)
	h.complete(n.ID, entity.ItemSucceeded)
	if state != entity.RedriveCanary {
		h.move(n.ID, repository.RedriveMove{To: state})
	}
	r := h.redrive(n.ID)
	check.Require(h, r.State == state, "redrive is %s, want %s", r.State, state)
	return r
}

func redriveArrows(h *harness) {
	for _, from := range entity.RedriveStates() {
		for _, to := range entity.RedriveStates() {
			r := h.inState(from)
			h.clock.Advance(time.Minute)
			moved, err := h.Repository.MoveRedrive(h.Context(), r.ID, repository.RedriveMove{
				To: to, Action: entity.ActionPause, Note: "because", Cause: entity.By("bob"),
			})
			if !from.CanMoveTo(to) {
				h.wantNoMove(r, to, err)
				continue
			}
			if err != nil || moved.State != to || moved.Note != "because" || moved.UpdatedAt != h.clock.Kept() {
				h.Errorf("MoveRedrive from %s to %s = %s, %q, %v, %v, want it moved now", from, to, moved.State, moved.Note, moved.UpdatedAt, err)
			}
			check.Same(h, !moved.EndedAt.IsZero(), to.Over(), "moved to %s it ended %v", to, moved.EndedAt)
		}
	}
}

// wantNoMove checks that a change of the redrive's state was refused and changed nothing.
func (h *harness) wantNoMove(r entity.Redrive, to entity.RedriveState, err error) {
	h.Helper()
	var refused *entity.RedriveStateError
	check.True(h, errors.As(err, &refused) && refused.ID == r.ID && refused.From == r.State && refused.To == to,
		"MoveRedrive from %s to %s = %v, want a RedriveStateError", r.State, to, err)
	h.wantRedrive(h.redrive(r.ID), r)
}

func redriveMoveFrom(h *harness) {
	r, _ := h.began(1)
	_, err := h.Repository.MoveRedrive(h.Context(), r.ID, repository.RedriveMove{
		To: entity.RedriveStopped, From: []entity.RedriveState{entity.RedriveCanary}, Action: entity.ActionStop, Cause: entity.By("bob"),
	})
	h.wantNoMove(r, entity.RedriveStopped, err)
	h.move(r.ID, repository.RedriveMove{
		To: entity.RedriveStopped, From: []entity.RedriveState{entity.RedriveCanary, entity.RedriveRunning}, Action: entity.ActionStop,
	})
}

func redriveMoveAudit(h *harness) {
	r, _ := h.began(1)
	created := h.entriesOf(r.ID)
	h.clock.Advance(time.Second)
	cause := fullCause()
	h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: cause})
	want := entity.AuditEntry{
		At: h.clock.Kept(), Action: entity.ActionPause, Kind: entity.KindRedrive, ObjectID: r.ID,
		From: string(entity.RedriveRunning), To: string(entity.RedrivePaused), Cause: cause,
	}
	_, _ = h.Repository.MoveRedrive(h.Context(), r.ID, repository.RedriveMove{To: entity.RedriveStopped, Action: entity.ActionStop, Cause: cause})
	h.wantEntries(r.ID, append(created, want)...)
}

func redriveFinish(h *harness) {
	r, _ := h.began(4)
	first, second := h.lease(r.ID, uuid.New()), h.lease(r.ID, uuid.New())
	check.Require(h, first != nil && second != nil, "LeaseBatch had fewer than two batches of four messages, want two")
	// Finishing the redrive must change nothing while both batches are open, and while one of them is open.
	for _, save := range []func(){func() {}, func() { h.saveAll(first, entity.ItemInDoubt) }} {
		save()
		before := h.redrive(r.ID)
		got := h.move(r.ID, repository.RedriveMove{To: entity.RedriveFinished, Action: entity.ActionFinish})
		check.Require(h, got.State == entity.RedriveRunning, "with open batches it became %s, want running", got.State)
		h.wantRedrive(h.redrive(r.ID), before)
	}
	h.saveAll(second, entity.ItemSkipped)
	if got := h.move(r.ID, repository.RedriveMove{To: entity.RedriveFinished, Action: entity.ActionFinish}); got.State != entity.RedriveFinished || got.EndedAt.IsZero() {
		h.Errorf("with all batches done it became %s, ended %v, want finished now", got.State, got.EndedAt)
	}
	check.Same(h, len(h.entriesOf(r.ID)), 2, "entries of the trail, want its creation and its end")
}

func redrivePass(h *harness) {
	r, _ := h.began(4, func(n *repository.NewRedrive) { n.Options.Canary = 1 })
	check.True(h, !r.CanaryPassed, "a canary is passed from the start, want not")
	if got := h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused}); got.CanaryPassed {
		h.Error("a pause passed the canary, want not")
	}
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveCanary})
	if got := h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning, PassCanary: true, Action: entity.ActionPass}); !got.CanaryPassed {
		h.Error("PassCanary left the canary not passed")
	}
	if without, _ := h.began(1); !without.CanaryPassed {
		h.Error("a redrive without a canary has not passed it, want passed")
	}
}

func redriveForgive(h *harness) {
	r, ids := h.began(6, func(n *repository.NewRedrive) { n.Options.Canary = 3 })
	b := h.lease(r.ID, uuid.New())
	h.save(b, entity.ItemSucceeded, entity.ItemFailed, entity.ItemInDoubt)
	h.returned(r.ID, ids[0])
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveStopped, Action: entity.ActionStop})
	got := h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning, Action: entity.ActionResume})
	want := (entity.Tally{Sent: 3, Failed: 1, Returned: 1})
	check.True(h, got.Forgiven == want && got.CanaryPassed,
		"resumed with %+v forgiven, canary passed %v, want %+v and passed", got.Forgiven, got.CanaryPassed, want)
}

func redriveUnforgiven(h *harness) {
	r, _ := h.began(6, func(n *repository.NewRedrive) { n.Options.Canary = 3 })
	h.saveAll(h.lease(r.ID, uuid.New()), entity.ItemFailed)
	for _, to := range []entity.RedriveState{entity.RedriveCanary, entity.RedriveRunning} {
		h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused})
		got := h.move(r.ID, repository.RedriveMove{To: to, Action: entity.ActionResume})
		check.True(h, got.State == to && !got.CanaryPassed && got.Forgiven == (entity.Tally{}),
			"resumed it is %s, canary passed %v, forgiven %+v, want %s as before", got.State, got.CanaryPassed, got.Forgiven, to)
	}
}

func (h *harness) saveWaiting(id uuid.UUID, waiting bool, note string) {
	h.Helper()
	check.NoError(h, h.Repository.SaveWaiting(h.Context(), id, waiting, note))
}

func redriveWaiting(h *harness) {
	r, _ := h.began(1)
	since := h.clock.Kept()
	for _, note := range []string{"no broker answers", "no leader for orders/3"} {
		h.saveWaiting(r.ID, true, note)
		h.clock.Advance(time.Minute)
		if got := h.redrive(r.ID); got.WaitingSince != since || got.Note != note || got.UpdatedAt != r.UpdatedAt {
			h.Errorf("it waits since %v, %q, updated %v, want %v, %q, %v", got.WaitingSince, got.Note, got.UpdatedAt, since, note, r.UpdatedAt)
		}
	}
	h.saveWaiting(r.ID, false, "")
	if got := h.redrive(r.ID); !got.WaitingSince.IsZero() || got.Note != "" {
		h.Errorf("it waits since %v, %q, want no longer", got.WaitingSince, got.Note)
	}
	h.saveWaiting(r.ID, true, "again")
	if got := h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused, Note: "lunch"}); !got.WaitingSince.IsZero() || got.Note != "lunch" {
		h.Errorf("paused it waits since %v, %q, want only its own note", got.WaitingSince, got.Note)
	}
}

func redriveWaitingOver(h *harness) {
	for _, state := range entity.RedriveStates() {
		r := h.inState(state)
		if !state.Active() {
			h.saveWaiting(r.ID, true, "too late")
			h.wantRedrive(h.redrive(r.ID), r)
		}
	}
}
