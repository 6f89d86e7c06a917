package repositorytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func finishPromises() []promise {
	return []promise{
		{"AcknowledgedSetsOutcomePublished", finishAcknowledged},
		{"SkippedResolvesWithoutOutcome", finishSkipped},
		{"OutcomeNeverMovesBack", finishOutcome},
		{"FailedReturnsToPendingWithNextAttempt", finishFailed},
		{"FailedAtTheLimitIsDead", finishFailedAtLimit},
		{"RejectedIsDeadAtOnce", finishRejected},
		{"RefusedGivesTheAttemptBack", finishGivesBack(entity.Refused)},
		{"GivenBackGivesTheAttemptBack", finishGivesBack(entity.GivenBack)},
		{"InDoubtKeepsTheClaim", finishInDoubt},
		{"InDoubtIsSettledUnderTheSameClaim", finishSettles},
		{"RecordsClassAndErrorBesideTheConsumers", finishRecords},
		{"AnswersWhatIsStored", finishAnswers},
		{"EndsTheClaimAndMovesUpdatedAt", finishEndsClaim},
		{"MovesManyEachByItsOwnVerdict", finishMany},
		{"LateResultChangesNothing", finishLate},
		{"AnotherClaimsResultChangesNothing", finishOtherClaim},
		{"RepeatedInOneCallCountsOnce", finishRepeated},
		{"ExpiredClaimsOwnResultCounts", finishExpired},
		{"UnknownMessageIsLeftOut", finishUnknown},
		{"NothingAskedIsNothingFinished", finishNothing},
	}
}

// endings are the verdicts that end an attempt, except Rescued and Abandoned.
var endings = []entity.Verdict{
	entity.Acknowledged, entity.Skipped, entity.Failed, entity.Rejected, entity.Refused, entity.GivenBack,
}

// verdicts returns endings and InDoubt.
func verdicts() []entity.Verdict { return append(slices.Clone(endings), entity.InDoubt) }

func (h *harness) wantFinished(got repository.Finished, status entity.Status, retryCount int) {
	h.Helper()
	check.True(h, got.Status == status && got.RetryCount == retryCount,
		"Finish = %s after %d attempts, want %s after %d", got.Status, got.RetryCount, status, retryCount)
	stored := h.get(got.MessageID)
	check.True(h, stored.Status == status && stored.RetryCount == retryCount,
		"stored %s after %d attempts, want %s after %d", stored.Status, stored.RetryCount, status, retryCount)
}

func (h *harness) wantOutcome(id uuid.UUID, want entity.Outcome) {
	h.Helper()
	check.Same(h, h.get(id).Outcome, want, "outcome")
}

func finishAcknowledged(h *harness) {
	m := h.put()
	h.wantFinished(h.attempt(m.ID, entity.Acknowledged), entity.Resolved, 1)
	h.wantOutcome(m.ID, entity.Published)
}

func finishSkipped(h *harness) {
	m := h.put()
	h.wantFinished(h.attempt(m.ID, entity.Skipped), entity.Resolved, 1)
	h.wantOutcome(m.ID, "")
}

// finishOutcome: when a record comes back before its attempt is acknowledged, the acknowledgement does not change the
// outcome, which stays returned.
func finishOutcome(h *harness) {
	m := h.put(full)
	c := repository.Claim{MessageID: m.ID, ID: m.Claim.ID}
	h.wantFinished(h.finish(c, entity.Acknowledged), entity.Resolved, 2)
	h.wantOutcome(m.ID, entity.Returned)
}

func finishFailed(h *harness) {
	m := h.put()
	got := h.attempt(m.ID, entity.Failed)
	h.wantFinished(got, entity.Pending, 1)
	want := entity.TruncateTime(h.clock.Now().Add(4 * time.Second))
	stored := h.get(m.ID).NextAttemptAt
	check.True(h, got.NextAttemptAt == want && stored == want,
		"next attempt answered %v, stored %v, want %v", got.NextAttemptAt, stored, want)
}

func finishFailedAtLimit(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 2 })
	h.wantFinished(h.attempt(m.ID, entity.Failed), entity.Pending, 1)
	got := h.attempt(m.ID, entity.Failed)
	h.wantFinished(got, entity.Dead, 2)
	stored := h.get(m.ID).NextAttemptAt
	check.True(h, got.NextAttemptAt.IsZero() && stored.IsZero(),
		"DEAD with next attempt %v, stored %v, want never", got.NextAttemptAt, stored)
}

func finishRejected(h *harness) {
	m := h.put()
	h.wantFinished(h.attempt(m.ID, entity.Rejected), entity.Dead, 1)
}

func finishGivesBack(verdict entity.Verdict) func(h *harness) {
	return func(h *harness) {
		for used := range 3 {
			m := h.put(func(m *entity.Message) { m.RetryCount = used })
			h.wantFinished(h.attempt(m.ID, verdict), entity.Pending, used)
		}
	}
}

func finishInDoubt(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	before := h.get(m.ID)
	h.clock.Advance(time.Second)
	h.wantFinished(h.finish(c, entity.InDoubt), entity.Retrying, 1)
	got := h.get(m.ID)
	check.Same(h, got.Claim, before.Claim, "claim, want it as it was")
	check.True(h, got.LastPublishError == "connection reset" && got.LastPublishErrorClass == entity.BrokerUnavailable,
		"recorded %s: %q, want class and error of the doubt", got.LastPublishErrorClass, got.LastPublishError)
}

func finishSettles(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		c := h.claim(m.ID)
		h.finish(c, entity.InDoubt)
		h.clock.Advance(2 * expiry)
		h.finish(c, entity.InDoubt)
		h.finish(c, verdict)
		got := h.get(m.ID)
		check.True(h, !got.Claimed() && got.Claim == (entity.Claim{}),
			"verdict %q after a doubt: %s under %+v, want no claim", verdict, got.Status, got.Claim)
	}
}

func finishRecords(h *harness) {
	for _, verdict := range []entity.Verdict{entity.Failed, entity.Rejected, entity.Refused} {
		m := h.put()
		r := result(h.claim(m.ID), verdict)
		h.finishAll(r)
		got := h.get(m.ID)
		check.True(h, got.LastPublishError == r.Error && got.LastPublishErrorClass == r.Class,
			"verdict %q recorded %s: %q, want %s: %q", verdict, got.LastPublishErrorClass, got.LastPublishError, r.Class, r.Error)
		check.Same(h, got.ErrorMessage, "boom", "verdict %q made the consumer's words", verdict)
	}
}

func finishAnswers(h *harness) {
	for _, verdict := range verdicts() {
		got := h.attempt(h.put().ID, verdict)
		m := h.get(got.MessageID)
		want := repository.Finished{
			MessageID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, NextAttemptAt: m.NextAttemptAt,
		}
		check.Same(h, got, want, "verdict %q answered and stored", verdict)
	}
}

func finishEndsClaim(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		c := h.claim(m.ID)
		before := h.get(m.ID)
		h.clock.Advance(time.Second)
		h.finish(c, verdict)
		got := h.get(m.ID)
		check.Same(h, got.Claim, (entity.Claim{}), "verdict %q left claim", verdict)
		h.wantMoved(before, got)
		if got.CreatedAt != before.CreatedAt || got.LastRetryAt != before.LastRetryAt {
			h.Errorf("verdict %q: created %v, last retry %v, want them as before, %v and %v",
				verdict, got.CreatedAt, got.LastRetryAt, before.CreatedAt, before.LastRetryAt)
		}
	}
}

func finishMany(h *harness) {
	want := map[uuid.UUID]entity.Status{}
	var results []repository.Result
	for verdict, status := range map[entity.Verdict]entity.Status{
		entity.Acknowledged: entity.Resolved, entity.Skipped: entity.Resolved, entity.Failed: entity.Pending,
		entity.Rejected: entity.Dead, entity.Refused: entity.Pending, entity.GivenBack: entity.Pending, entity.InDoubt: entity.Retrying,
	} {
		for range 3 {
			m := h.put()
			results = append(results, result(h.claim(m.ID), verdict))
			want[m.ID] = status
		}
	}
	finished := h.finishAll(results...)
	check.Same(h, len(finished), len(want), "Finish answered")
	for _, f := range finished {
		check.Same(h, f.Status, want[f.MessageID], "Finish left %s", f.MessageID)
		h.wantStatus(f.MessageID, want[f.MessageID])
	}
}

// finishLate: once a result has ended an attempt, further results with the same claim change nothing.
func finishLate(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		c := h.claim(m.ID)
		h.finish(c, verdict)
		before, attempts := h.get(m.ID), len(h.history(m.ID))
		h.clock.Advance(time.Second)
		for _, late := range verdicts() {
			check.Len(h, h.finishAll(result(c, late)), 0, "verdict %q after %q answered", late, verdict)
		}
		h.wantUnchanged(before)
		check.Same(h, len(h.history(m.ID)), attempts, "attempts after late results of history")
	}
}

// finishOtherClaim: while a claim holds a message, a result changes nothing when it has the id of an earlier claim or
// of another message's claim, or no claim id.
func finishOtherClaim(h *harness) {
	m := h.put()
	old := h.claim(m.ID)
	h.finish(old, entity.GivenBack)
	now := h.claim(m.ID)
	before := h.get(m.ID)
	foreign := h.claim(h.put().ID)
	foreign.MessageID = m.ID
	for name, c := range map[string]repository.Claim{"an earlier": old, "another message's": foreign, "no": {MessageID: m.ID}} {
		for _, verdict := range verdicts() {
			check.Len(h, h.finishAll(result(c, verdict)), 0, "verdict %q under %s claim answered", verdict, name)
		}
	}
	h.wantUnchanged(before)
	h.wantFinished(h.finish(now, entity.Acknowledged), entity.Resolved, 1)
}

func finishRepeated(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		r := result(h.claim(m.ID), verdict)
		check.Len(h, h.finishAll(r, r, r), 1, "verdict %q three times in one call answered", verdict)
		check.Len(h, h.history(m.ID), 1, "verdict %q three times in one call left attempts", verdict)
		got := h.get(m.ID).RetryCount
		check.True(h, got >= 0 && got <= 1, "verdict %q three times in one call left retry count %d, want 0 or 1", verdict, got)
	}
}

func finishExpired(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	h.clock.Advance(100 * expiry)
	h.wantFinished(h.finish(c, entity.Acknowledged), entity.Resolved, 1)
}

func finishUnknown(h *harness) {
	m := h.put()
	good := result(h.claim(m.ID), entity.Acknowledged)
	gone := result(intent(uuid.New()), entity.Acknowledged)
	got := h.finishAll(gone, good)
	check.True(h, len(got) == 1 && got[0].MessageID == m.ID, "Finish of one gone and one good = %+v, want the good one", got)
	check.Same(h, len(h.history(gone.MessageID)), 0, "attempts of a message that is gone")
}

func finishNothing(h *harness) {
	check.Len(h, h.finishAll(), 0, "Finish of nothing")
}

func rescuePromises() []promise {
	promises := []promise{
		{"TenthInARowIsDead", rescueTenth},
		{"DoubtInBetweenDoesNotStartTheRowAnew", rescueDoubt},
		{"RequeueStartsTheRowAnew", rescueRequeue},
		{"GivenBackIsNoRescueAndNoEndOfTheRow", rescueGivenBack},
	}
	for name, verdict := range map[string]entity.Verdict{"Failed": entity.Failed, "Refused": entity.Refused} {
		promises = append(promises, promise{fmt.Sprintf("%sInBetweenStartsTheRowAnew", name), rescueReset(verdict)})
	}
	return promises
}

// rescues makes n attempts on a message that each end as a rescue. After each attempt the message must be PENDING.
func (h *harness) rescues(id uuid.UUID, n int) {
	h.Helper()
	for i := range n {
		got := h.attempt(id, entity.Rescued)
		check.Require(h, got.Status == entity.Pending, "rescue %d leads to %s, want PENDING", i+1, got.Status)
	}
}

func (h *harness) lastRescue(id uuid.UUID) {
	h.Helper()
	check.Same(h, h.attempt(id, entity.Rescued).Status, entity.Dead, "rescue %d leads to", repository.RescueLimit)
	h.wantStatus(id, entity.Dead)
}

func rescueTenth(h *harness) {
	m := h.put()
	h.rescues(m.ID, repository.RescueLimit-1)
	h.lastRescue(m.ID)
	check.Same(h, len(h.history(m.ID)), repository.RescueLimit, "attempts in the history")
}

func rescueReset(verdict entity.Verdict) func(h *harness) {
	return func(h *harness) {
		m := h.put(func(m *entity.Message) { m.MaxRetries = 100 })
		h.rescues(m.ID, repository.RescueLimit-1)
		h.attempt(m.ID, verdict)
		h.rescues(m.ID, repository.RescueLimit-1)
		h.lastRescue(m.ID)
	}
}

func rescueDoubt(h *harness) {
	m := h.put()
	h.rescues(m.ID, repository.RescueLimit-1)
	c := h.claim(m.ID)
	h.finish(c, entity.InDoubt)
	check.Same(h, h.finish(c, entity.Rescued).Status, entity.Dead, "rescue %d after a doubt leads to", repository.RescueLimit)
}

func rescueRequeue(h *harness) {
	m := h.put()
	h.rescues(m.ID, repository.RescueLimit-1)
	h.lastRescue(m.ID)
	check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))(h)
	h.rescues(m.ID, repository.RescueLimit-1)
	h.lastRescue(m.ID)
}

// rescueGivenBack: an attempt that is given back does not count as a rescue, and does not interrupt a row of rescues.
// Its process is alive, so the message has not crashed it.
func rescueGivenBack(h *harness) {
	m := h.put()
	for i := range 3 * repository.RescueLimit {
		got := h.attempt(m.ID, entity.GivenBack)
		check.Require(h, got.Status == entity.Pending && got.RetryCount == 0,
			"attempt %d given back leads to %s, %d attempts, want PENDING, 0", i+1, got.Status, got.RetryCount)
	}
	h.rescues(m.ID, repository.RescueLimit-1)
	h.attempt(m.ID, entity.GivenBack)
	h.lastRescue(m.ID)
}
