package repositorytest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
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

func (h *harness) change(action entity.RedriveAction, cause entity.AuditInfo, ids ...uuid.UUID) []uuid.UUID {
	h.Helper()
	return check.Must(h.Repository.Change(h.Context(), repository.Change{Action: action, IDs: ids}, cause))(h)
}

// changeWithoutLease: a process that was stopped for a while must not change the messages of a batch that another
// process has leased since.
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
			got := check.Must(h.Repository.Change(h.Context(), c, fullCause()))(h)
			h.wantIDs("Change "+string(c.Action), got, want)
		}
	}
}

// changedTo is the status that a message has after each action; "" when the action deletes the message.
var changedTo = map[entity.RedriveAction]entity.Status{
	entity.RedriveRequeue: entity.Pending, entity.RedriveDead: entity.Dead, entity.RedriveDelete: "",
}

// statusOf returns the status of a message; "" when no such message exists.
func (h *harness) statusOf(id uuid.UUID) entity.Status {
	h.Helper()
	m, err := h.Repository.Get(h.Context(), id, 0)
	check.Require(h, err == nil || errors.Is(err, entity.ErrNotFound), "Get(%s): %v", id, err)
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
			check.Same(h, h.statusOf(id), changedTo[action], "%s left %s as", action, id)
		}
		for _, m := range rest {
			h.wantUnchanged(m)
		}
	}
}

// changeLikeOne changes one message with Change, and an equal message with the method for one message, and compares the
// two messages afterwards. It leaves out deletions.
func changeLikeOne(h *harness) {
	for _, way := range byHand {
		if way.redrive == entity.RedriveDelete {
			continue
		}
		many, one := h.failedIn(way.from), h.failedIn(way.from)
		h.change(way.redrive, entity.By("alice"), many.ID)
		check.NoError(h, way.do(h, one.ID, entity.By("alice")))
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
	check.Same(h, len(h.history(gone.ID)), 0, "attempts of history of a deleted message")
	check.Same(h, len(h.history(stays.ID)), 1, "attempts of history of another message")
}

func changeTwice(h *harness) {
	for _, way := range byHand {
		m := h.failedIn(way.from)
		h.wantIDs("Change", h.change(way.redrive, entity.By("alice"), m.ID, m.ID, m.ID), []uuid.UUID{m.ID})
		check.Len(h, h.change(way.redrive, entity.By("alice"), m.ID), 0, "a second Change(%s)", way.redrive)
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
		check.Len(h, h.change(way.redrive, entity.By("alice")), 0, "Change(%s) of nothing", way.redrive)
	}
	h.wantUnchanged(h.get(m.ID))
	check.Same(h, len(h.trail(repository.TrailQuery{})), 0, "entries of the trail")
}

func changeInvalid(h *harness) {
	m := h.put()
	for _, action := range []entity.RedriveAction{entity.RedriveRetry, "", "drop"} {
		got, err := h.Repository.Change(h.Context(), repository.Change{Action: action, IDs: []uuid.UUID{m.ID}}, entity.By("alice"))
		check.True(h, errors.Is(err, entity.ErrInvalid) && len(got) == 0, "Change(%q) = %v, %v, want ErrInvalid", action, got, err)
	}
	h.wantStatus(m.ID, entity.Pending)
}

// changeRace: when several callers change the same messages at the same time, in opposite orders, only one of them
// changes each message.
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
			check.True(h, err == nil, "Change(%s): %v", way.redrive, err)
			mu.Lock()
			defer mu.Unlock()
			changed = append(changed, got...)
		})
		h.wantSameIDs("all callers of "+string(way.redrive)+" changed", changed, forth)
		check.Same(h, len(h.trail(repository.TrailQuery{Action: way.action})), 10, "entries of %s of trail", way.action)
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
		check.Require(h, claimErr == nil && changeErr == nil, "Claim: %v, Change: %v", claimErr, changeErr)
		h.wantSameIDs("claimed or changed", append(ids(taken), changed...), all)
		for _, id := range changed {
			check.Same(h, h.statusOf(id), changedTo[action], "%s", id)
		}
		for _, m := range taken {
			h.wantStatus(m.ID, entity.Retrying)
		}
	}
}

// changeIsOneStep: readers that read messages while Change changes them see either all of them changed or none.
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
		check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
		h.wantNotFound("Get", m.ID, check.Err(h.Repository.Get(h.Context(), m.ID, whole)))
		for _, listed := range ids(h.list(original, firstPage).Messages) {
			check.True(h, listed != m.ID, "%s is listed, want it gone", m.ID)
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
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
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
	h.wantClaimed("Delete of an unsettleable message", m.ID, err)
	var claimed *entity.ClaimedError
	check.True(h, errors.As(err, &claimed) && claimed.Unsettled,
		"Delete = %v, want it to say that the attempt cannot be settled", err)
	check.True(h, before.Unsettled, "Get does not say that the attempt cannot be settled")
	h.wantUnchanged(before)
}

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
	answer := check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))(h)
	for name, got := range map[string]entity.Message{"Requeue": answer, "Get": h.get(m.ID)} {
		if got.ID != m.ID || got.Status != entity.Pending || got.RetryCount != 0 || got.MaxRetries != 1 || !got.NextAttemptAt.Equal(got.UpdatedAt) && !h.UpdatedAtIsTheServers {
			h.Errorf("%s = %s, %d/%d, next attempt %v, want PENDING, 0/1, at once", name, got.Status, got.RetryCount, got.MaxRetries, got.NextAttemptAt)
		}
		check.Same(h, got.CreatedAt, before.CreatedAt, "%s created, want as before", name)
		h.wantMoved(before, got)
	}
	check.Same(h, len(h.history(m.ID)), 1, "attempts after a requeue of history, want the 1 as before")
}

func requeueClaim(h *harness) {
	m := h.in(entity.Dead, func(m *entity.Message) { m.RetryCount = 2 })
	check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))(h)
	check.Same(h, h.claimable(original), 1, "messages that can be claimed, want the requeued one")
	h.wantFinished(h.attempt(m.ID, entity.Acknowledged), entity.Resolved, 1)
}

// requeueRefused: Requeue is refused for every status except DEAD. This includes RETRYING, although the result of an
// attempt may change RETRYING to PENDING.
func requeueRefused(h *harness) {
	for _, s := range []entity.Status{entity.Pending, entity.Retrying, entity.Resolved} {
		m := h.in(s)
		h.wantNoArrow("Requeue", s, entity.Pending, check.Err(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice"))))
		h.clock.Advance(100 * expiry)
		again := check.Err(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))
		h.wantNoArrow("Requeue much later", s, entity.Pending, again)
		h.wantUnchanged(m)
	}
}

func requeueUnknown(h *harness) {
	id := uuid.New()
	h.wantNotFound("Requeue", id, check.Err(h.Repository.Requeue(h.Context(), id, entity.By("alice"))))
}

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
	answer := check.Must(h.Repository.MarkDead(h.Context(), before.ID, entity.By("test")))(h)
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
	h.wantClaimed("GiveUp while a claim lives", m.ID, check.Err(h.Repository.MarkDead(h.Context(), m.ID, entity.By("test"))))
	h.wantUnchanged(m)
}

// giveUpExpired: a message whose claim has expired cannot be marked dead while it is not known whether its record was
// published.
func giveUpExpired(h *harness) {
	m := h.in(entity.Retrying)
	h.clock.Advance(100 * expiry)
	h.wantClaimed("GiveUp once the claim expired", m.ID, check.Err(h.Repository.MarkDead(h.Context(), m.ID, entity.By("test"))))
	h.wantUnchanged(m)
}

func giveUpUnsettleable(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	late := repository.Claim{MessageID: m.ID, ID: h.get(m.ID).Claim.ID}
	h.clock.Advance(time.Second)
	h.giveUp(h.get(m.ID))
	dead := h.get(m.ID)
	check.Len(h, h.finishAll(result(late, entity.Acknowledged)), 0, "Finish after GiveUp")
	h.wantUnchanged(dead)
}

func giveUpHistory(h *harness) {
	m, pending := h.put(), h.put()
	h.unsettleable(m.ID)
	before := h.get(m.ID)
	for _, id := range []uuid.UUID{m.ID, pending.ID} {
		check.Must(h.Repository.MarkDead(h.Context(), id, entity.By("eve")))(h)
	}
	h.wantAbandoned(before, "eve", entity.Dead)
	check.Len(h, h.history(pending.ID), 0, "history of what was never tried")
}

// wantAbandoned checks the last attempt in the history of a message. It must be the attempt of the claim that the
// message had before, with the error class UNKNOWN.
func (h *harness) wantAbandoned(before entity.Message, actor string, to entity.Status) {
	h.Helper()
	attempts := h.history(before.ID)
	check.Require(h, len(attempts) != 0, "history is empty, want the unsettled attempt")
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
		h.wantNoArrow("GiveUp", s, entity.Dead, check.Err(h.Repository.MarkDead(h.Context(), m.ID, entity.By("test"))))
		h.wantUnchanged(m)
	}
}

func giveUpUnknown(h *harness) {
	id := uuid.New()
	h.wantNotFound("GiveUp", id, check.Err(h.Repository.MarkDead(h.Context(), id, entity.By("test"))))
}
