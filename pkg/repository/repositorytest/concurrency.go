package repositorytest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// rounds is the number of times that a test repeats a race which it would not see every time.
const rounds = 10

func concurrencyPromises() []promise {
	return []promise{
		{"ClaimAndDeleteHaveOneWinner", raceClaimDelete},
		{"ResultCountsOnceUnderManyCallers", raceFinish},
		{"TwoVerdictsOfOneClaimHaveOneWinner", raceVerdicts},
		{"RequeueCountsOnceUnderManyCallers", raceRequeue},
		{"DeleteCountsOnceUnderManyCallers", raceDelete},
		{"ResultsInOppositeOrdersDoNotDeadlock", raceFinishOrders},
		{"ListsAreOneMomentWhileMessagesMove", raceList},
	}
}

func raceClaimDelete(h *harness) {
	for round := range rounds {
		m := h.put()
		var taken []entity.Message
		var claimErr, deleteErr error
		together(2, func(i int) {
			if i == 0 {
				taken, claimErr = h.Repository.Claim(h.Context(), intents(m.ID), repository.Claiming{Expiry: expiry, Wait: round%2 == 0})
				return
			}
			deleteErr = h.Repository.Delete(h.Context(), m.ID, entity.By("alice"))
		})
		check.Require(h, claimErr == nil, "Claim: %v", claimErr)
		if len(taken) == 1 {
			h.wantClaimed("Delete after a claim", m.ID, deleteErr)
			h.wantStatus(m.ID, entity.Retrying)
			continue
		}
		check.True(h, deleteErr == nil, "Delete = %v and nothing was claimed, want one of them to win", deleteErr)
	}
}

// wantOne calls the function do in many goroutines at the same time. do must return true in exactly one of these
// goroutines.
func (h *harness) wantOne(what string, do func() bool) {
	h.Helper()
	var winners atomic.Int32
	together(16, func(int) {
		if do() {
			winners.Add(1)
		}
	})
	check.Same(h, winners.Load(), 1, "%s counted for callers", what)
}

func raceFinish(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		r := result(h.claim(m.ID), verdict)
		h.wantOne("Finish", func() bool {
			got, err := h.Repository.Finish(h.Context(), []repository.Result{r}, entity.By("alice"))
			check.True(h, err == nil, "Finish: %v", err)
			return len(got) == 1
		})
		check.Len(h, h.history(m.ID), 1, "verdict %q left attempts", verdict)
	}
}

// raceVerdicts: when a publisher that is late and the settler end the same claim at the same time, only one result is
// stored.
func raceVerdicts(h *harness) {
	for range rounds {
		m := h.put()
		c := h.claim(m.ID)
		statuses := make([]entity.Status, 2)
		together(2, func(i int) {
			got, err := h.Repository.Finish(h.Context(), []repository.Result{result(c, []entity.Verdict{entity.Acknowledged, entity.GivenBack}[i])}, entity.By("alice"))
			check.True(h, err == nil, "Finish: %v", err)
			if len(got) == 1 {
				statuses[i] = got[0].Status
			}
		})
		stored := h.get(m.ID).Status
		check.True(h, (statuses[0] == "") != (statuses[1] == "") && slices.Contains(statuses, stored),
			"verdicts were answered %q, stored is %s, want one answer, the stored one", statuses, stored)
	}
}

func raceRequeue(h *harness) {
	m := h.in(entity.Dead)
	h.wantOne("Requeue", func() bool {
		_, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice"))
		check.True(h, err == nil || errors.Is(err, entity.ErrConflict), "Requeue = %v, want success or a conflict", err)
		return err == nil
	})
	h.wantStatus(m.ID, entity.Pending)
}

func raceDelete(h *harness) {
	m := h.put()
	h.wantOne("Delete", func() bool {
		err := h.Repository.Delete(h.Context(), m.ID, entity.By("alice"))
		check.True(h, err == nil || errors.Is(err, entity.ErrNotFound), "Delete = %v, want success or not found", err)
		return err == nil
	})
}

func raceFinishOrders(h *harness) {
	for range rounds {
		forth := check.Each(h.puts(10), func(id uuid.UUID) repository.Result { return result(h.claim(id), entity.Acknowledged) })
		back := slices.Clone(forth)
		slices.Reverse(back)
		var finished atomic.Int32
		together(6, func(i int) {
			got, err := h.Repository.Finish(h.Context(), [][]repository.Result{forth, back}[i%2], entity.By("alice"))
			check.True(h, err == nil, "Finish: %v", err)
			finished.Add(int32(len(got)))
		})
		check.Same(h, finished.Load(), 10, "results counted, want each of 10 once")
	}
}

// raceList reads a page while messages change: no message may be missing on the page or be on it twice.
func raceList(h *harness) {
	want := h.puts(6)
	slices.Reverse(want)
	together(6, func(i int) {
		for range rounds {
			if i%2 == 0 {
				got, err := h.Repository.List(h.Context(), original, firstPage)
				check.True(h, err == nil && got.Total == 6 && slices.Equal(ids(got.Messages), want),
					"List = %v of %d, %v, want %v", ids(got.Messages), got.Total, err, want)
				continue
			}
			c := intent(want[i])
			if _, err := h.Repository.Claim(h.Context(), []repository.Claim{c}, repository.Claiming{Expiry: expiry, Wait: true, Cause: entity.By("alice")}); err != nil {
				h.Errorf("Claim: %v", err)
			}
			if _, err := h.Repository.Finish(h.Context(), []repository.Result{result(c, entity.Refused)}, entity.By("alice")); err != nil {
				h.Errorf("Finish: %v", err)
			}
		}
	})
}

func contextPromises() []promise {
	return []promise{
		{"PingAnswers", pings},
		{"CallersWhoAreGoneGetNothingDone", gone},
	}
}

func pings(h *harness) {
	check.NoError(h, h.Repository.Ping(h.Context()))
}

func gone(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	pending, retrying, dead := h.in(entity.Pending), h.put(), h.in(entity.Dead)
	c := h.claim(retrying.ID)
	retrying = h.get(retrying.ID)
	s := h.open("other.dlq", 0, 0)
	b := h.batch(s, 0, 1)
	repo := h.Repository
	calls := map[string]func() error{
		"Claim": func() error {
			_, err := repo.Claim(ctx, intents(pending.ID), repository.Claiming{Expiry: time.Second, Wait: true})
			return err
		},
		"Finish": func() error {
			_, err := repo.Finish(ctx, []repository.Result{result(c, entity.Acknowledged)}, entity.By("alice"))
			return err
		},
		"Delete": func() error { return repo.Delete(ctx, pending.ID, entity.By("alice")) },
		"GiveUp": func() error { _, err := repo.MarkDead(ctx, pending.ID, entity.By("alice")); return err },
		"Requeue": func() error {
			_, err := repo.Requeue(ctx, dead.ID, entity.By("alice"))
			return err
		},
		"Store": func() error { _, err := repo.Store(ctx, b); return err },
		"Get":   func() error { _, err := repo.Get(ctx, uuid.New(), whole); return err },
	}
	for name, call := range calls {
		if err := call(); err == nil || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrConflict) {
			h.Errorf("%s by a caller who is gone = %v, want its context's error", name, err)
		}
	}
	for _, m := range []entity.Message{pending, retrying, dead} {
		h.wantUnchanged(m)
	}
	h.wantStored("other.dlq", nil)
	h.wantPosition(s, 0)
}
