package repositorytest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func changePromises() []promise {
	return []promise{
		{"RequeueMovesTheDeadAndLeavesTheRest", changeOnly(entity.RedriveRequeue, entity.Dead)},
		{"DeadMovesThePendingAndLeavesTheRest", changeOnly(entity.RedriveDead, entity.Pending)},
		{"DeleteRemovesWhatNobodyHolds", changeOnly(entity.RedriveDelete, entity.Pending, entity.Resolved, entity.Dead)},
		{"DoesWhatTheMethodForOneDoes", changeLikeOne},
		{"DeadEndsTheUnsettleable", changeUnsettleable},
		{"DeleteTakesTheHistory", changeHistory},
		{"NamedTwiceIsChangedOnce", changeTwice},
		{"UnknownIsLeftOut", changeUnknown},
		{"NothingToDoIsNothing", changeEmpty},
		{"OtherActionsAreInvalid", changeInvalid},
		{"NothingIsChangedWithoutTheLease", changeWithoutLease},
		{"EachMessageIsChangedByOneOfManyCallers", changeRace},
		{"EachMessageIsClaimedOrChanged", changeAgainstClaim},
		{"IsOneMomentForReaders", changeIsOneStep},
	}
}

func (h *harness) change(action entity.RedriveAction, cause entity.Cause, ids ...uuid.UUID) []uuid.UUID {
	h.Helper()
	changed, err := h.Repository.Change(h.Context(), repository.Change{Action: action, IDs: ids}, cause)
	if err != nil {
		h.Fatalf("Change(%s): %v", action, err)
	}
	return changed
}

// changeWithoutLease: a process that was stopped for a while must not change messages
// whose batch another process has taken over.
func changeWithoutLease(h *harness) {
	r, ids := h.began(3)
	first := h.lease(r.ID, uuid.New())
	h.clock.Advance(2 * expiry)
	second := h.lease(r.ID, uuid.New())
	for _, c := range []repository.Change{
		{Action: entity.RedriveDead, IDs: ids[:1]},
		{Action: entity.RedriveRequeue, IDs: ids[:1]},
		{Action: entity.RedriveDelete, IDs: ids[1:2]},
		{Action: entity.RedriveMap, IDs: ids[2:], OriginalTopic: "payments", OverHeader: true},
	} {
		for owner, want := range map[uuid.UUID][]uuid.UUID{first.owner: nil, second.owner: c.IDs} {
			c.Lease = repository.Lease{RedriveID: r.ID, Number: first.Number, Owner: owner}
			got, err := h.Repository.Change(h.Context(), c, fullCause())
			if err != nil {
				h.Fatalf("Change(%s): %v", c.Action, err)
			}
			h.wantIDs("Change "+string(c.Action), got, want)
		}
	}
}

// changedTo is the status that an action leads to; "" when the message is gone.
var changedTo = map[entity.RedriveAction]entity.Status{
	entity.RedriveRequeue: entity.Pending, entity.RedriveDead: entity.Dead, entity.RedriveDelete: "",
}

// statusOf is "" for a message that does not exist.
func (h *harness) statusOf(id uuid.UUID) entity.Status {
	h.Helper()
	m, err := h.Repository.Get(h.Context(), id, 0)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		h.Fatalf("Get(%s): %v", id, err)
	}
	return m.Status
}

func changeOnly(action entity.RedriveAction, from ...entity.Status) func(h *harness) {
	return func(h *harness) {
		var all, want []uuid.UUID
		var rest []entity.Message
		for range 2 {
			for _, s := range entity.Statuses() {
				m := h.in(s)
				all = append(all, m.ID)
				if slices.Contains(from, s) {
					want = append(want, m.ID)
					continue
				}
				rest = append(rest, m)
			}
		}
		h.clock.Advance(time.Minute)
		h.wantSameIDs("Change", h.change(action, entity.By("alice"), all...), want)
		for _, id := range want {
			if got := h.statusOf(id); got != changedTo[action] {
				h.Errorf("%s left %s in %q, want %q", action, id, got, changedTo[action])
			}
		}
		for _, m := range rest {
			h.wantUnchanged(m)
		}
	}
}

// changeLikeOne does to one message by Change and to its twin by the method for
// one message, and compares.
func changeLikeOne(h *harness) {
	for _, way := range byHand {
		if way.redrive == entity.RedriveDelete {
			continue
		}
		many, one := h.failedIn(way.from), h.failedIn(way.from)
		h.change(way.redrive, entity.By("alice"), many.ID)
		if err := way.do(h, one.ID, entity.By("alice")); err != nil {
			h.Fatal(err)
		}
		got, want := h.get(many.ID), h.get(one.ID)
		if got.Status != want.Status || got.RetryCount != want.RetryCount || got.NextAttemptAt != want.NextAttemptAt ||
			got.UpdatedAt != want.UpdatedAt || got.LastPublishError != want.LastPublishError ||
			got.LastPublishErrorClass != want.LastPublishErrorClass || got.Outcome != want.Outcome || got.Claim != want.Claim {
			h.Errorf("Change(%s) left\n     %+v\nwant %+v", way.redrive, got, want)
		}
	}
}

func changeUnsettleable(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	before := h.get(m.ID)
	h.clock.Advance(time.Second)
	h.wantIDs("Change", h.change(entity.RedriveDead, entity.By("eve"), m.ID), []uuid.UUID{m.ID})
	h.wantStatus(m.ID, entity.Dead)
	h.wantAbandoned(before, "eve", entity.Dead)
}

func changeHistory(h *harness) {
	gone, stays := h.in(entity.Dead), h.in(entity.Dead)
	h.change(entity.RedriveDelete, entity.By("alice"), gone.ID)
	if got := len(h.history(gone.ID)); got != 0 {
		h.Errorf("history of a deleted message has %d attempts, want none", got)
	}
	if got := len(h.history(stays.ID)); got != 1 {
		h.Errorf("history of another message has %d attempts, want 1", got)
	}
}

func changeTwice(h *harness) {
	for _, way := range byHand {
		m := h.failedIn(way.from)
		h.wantIDs("Change", h.change(way.redrive, entity.By("alice"), m.ID, m.ID, m.ID), []uuid.UUID{m.ID})
		if got := h.change(way.redrive, entity.By("alice"), m.ID); len(got) != 0 {
			h.Errorf("a second Change(%s) = %v, want nothing", way.redrive, got)
		}
	}
}

func changeUnknown(h *harness) {
	for _, way := range byHand {
		m := h.failedIn(way.from)
		got := h.change(way.redrive, entity.By("alice"), uuid.New(), m.ID, uuid.Nil)
		h.wantIDs("Change", got, []uuid.UUID{m.ID})
	}
}

func changeEmpty(h *harness) {
	m := h.put()
	for _, way := range byHand {
		if got := h.change(way.redrive, entity.By("alice")); len(got) != 0 {
			h.Errorf("Change(%s) of nothing = %v, want nothing", way.redrive, got)
		}
	}
	h.wantUnchanged(h.get(m.ID))
	if got := len(h.trail(repository.TrailQuery{})); got != 0 {
		h.Errorf("trail has %d entries, want none", got)
	}
}

func changeInvalid(h *harness) {
	m := h.put()
	for _, action := range []entity.RedriveAction{entity.RedriveRetry, "", "drop"} {
		got, err := h.Repository.Change(h.Context(), repository.Change{Action: action, IDs: []uuid.UUID{m.ID}}, entity.By("alice"))
		if !errors.Is(err, entity.ErrInvalid) || len(got) != 0 {
			h.Errorf("Change(%q) = %v, %v, want ErrInvalid", action, got, err)
		}
	}
	h.wantStatus(m.ID, entity.Pending)
}

// changeRace has callers name the same messages in opposite orders.
func changeRace(h *harness) {
	for _, way := range byHand {
		var forth []uuid.UUID
		for range 10 {
			forth = append(forth, h.failedIn(way.from).ID)
		}
		back := slices.Clone(forth)
		slices.Reverse(back)
		var mu sync.Mutex
		var changed []uuid.UUID
		together(6, func(i int) {
			got, err := h.Repository.Change(h.Context(), repository.Change{Action: way.redrive, IDs: [][]uuid.UUID{forth, back}[i%2]}, entity.By("alice"))
			if err != nil {
				h.Errorf("Change(%s): %v", way.redrive, err)
			}
			mu.Lock()
			defer mu.Unlock()
			changed = append(changed, got...)
		})
		h.wantSameIDs("all callers of "+string(way.redrive)+" changed", changed, forth)
		if got := len(h.trail(repository.TrailQuery{Action: way.action})); got != 10 {
			h.Errorf("trail has %d entries of %s, want 10", got, way.action)
		}
	}
}

func changeAgainstClaim(h *harness) {
	for round := range rounds {
		action := []entity.RedriveAction{entity.RedriveDead, entity.RedriveDelete}[round%2]
		all := h.puts(10)
		back := slices.Clone(all)
		slices.Reverse(back)
		var taken []entity.Message
		var changed []uuid.UUID
		var claimErr, changeErr error
		together(2, func(i int) {
			if i == 0 {
				taken, claimErr = h.Repository.Claim(h.Context(), intents(all...), repository.Claiming{Expiry: expiry, Wait: round%4 < 2})
				return
			}
			changed, changeErr = h.Repository.Change(h.Context(), repository.Change{Action: action, IDs: back}, entity.By("alice"))
		})
		if claimErr != nil || changeErr != nil {
			h.Fatalf("Claim: %v, Change: %v", claimErr, changeErr)
		}
		h.wantSameIDs("claimed or changed", append(ids(taken), changed...), all)
		for _, id := range changed {
			if got := h.statusOf(id); got != changedTo[action] {
				h.Errorf("%s is %q, want %q", id, got, changedTo[action])
			}
		}
		for _, m := range taken {
			h.wantStatus(m.ID, entity.Retrying)
		}
	}
}

// changeIsOneStep reads while messages are changed: either all of them are, or
// none.
func changeIsOneStep(h *harness) {
	all := h.puts(20)
	together(4, func(i int) {
		for range rounds {
			if i == 0 {
				for _, action := range []entity.RedriveAction{entity.RedriveDead, entity.RedriveRequeue} {
					if got, err := h.Repository.Change(h.Context(), repository.Change{Action: action, IDs: all}, entity.By("alice")); err != nil || len(got) != len(all) {
						h.Errorf("Change(%s) = %d messages, %v, want %d", action, len(got), err, len(all))
					}
				}
				continue
			}
			if got := h.claimable(original); got != 0 && got != len(all) {
				h.Errorf("%d messages can be claimed, want none or all %d", got, len(all))
			}
		}
	})
}
