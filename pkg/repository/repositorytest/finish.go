package repositorytest

import (
	"slices"
	"time"

	"github.com/google/uuid"

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

// endings are the verdicts that end an attempt.
var endings = []entity.Verdict{
	entity.Acknowledged, entity.Skipped, entity.Failed, entity.Rejected, entity.Refused, entity.GivenBack,
}

// verdicts are all of them.
func verdicts() []entity.Verdict { return append(slices.Clone(endings), entity.InDoubt) }

func (h *harness) wantFinished(got repository.Finished, status entity.Status, retryCount int) {
	h.Helper()
	if got.Status != status || got.RetryCount != retryCount {
		h.Errorf("Finish = %s after %d attempts, want %s after %d", got.Status, got.RetryCount, status, retryCount)
	}
	stored := h.get(got.MessageID)
	if stored.Status != status || stored.RetryCount != retryCount {
		h.Errorf("stored %s after %d attempts, want %s after %d", stored.Status, stored.RetryCount, status, retryCount)
	}
}

func (h *harness) wantOutcome(id uuid.UUID, want entity.Outcome) {
	h.Helper()
	if got := h.get(id).Outcome; got != want {
		h.Errorf("outcome is %q, want %q", got, want)
	}
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

// finishOutcome has a record that came back before its own publish was
// acknowledged.
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
	want := entity.Moment(h.clock.Now().Add(4 * time.Second))
	if stored := h.get(m.ID).NextAttemptAt; got.NextAttemptAt != want || stored != want {
		h.Errorf("next attempt answered %v, stored %v, want %v", got.NextAttemptAt, stored, want)
	}
}

func finishFailedAtLimit(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 2 })
	h.wantFinished(h.attempt(m.ID, entity.Failed), entity.Pending, 1)
	got := h.attempt(m.ID, entity.Failed)
	h.wantFinished(got, entity.Dead, 2)
	if stored := h.get(m.ID).NextAttemptAt; !got.NextAttemptAt.IsZero() || !stored.IsZero() {
		h.Errorf("DEAD with next attempt %v, stored %v, want never", got.NextAttemptAt, stored)
	}
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
	if got.Claim != before.Claim {
		h.Errorf("claim is %+v, want it as it was, %+v", got.Claim, before.Claim)
	}
	if got.LastPublishError != "connection reset" || got.LastPublishErrorClass != entity.BrokerUnavailable {
		h.Errorf("recorded %s: %q, want class and error of the doubt", got.LastPublishErrorClass, got.LastPublishError)
	}
}

func finishSettles(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		c := h.claim(m.ID)
		h.finish(c, entity.InDoubt)
		h.clock.Advance(2 * expiry)
		h.finish(c, entity.InDoubt)
		h.finish(c, verdict)
		if got := h.get(m.ID); got.Claimed() || got.Claim != (entity.Claim{}) {
			h.Errorf("verdict %d after a doubt: %s under %+v, want no claim", verdict, got.Status, got.Claim)
		}
	}
}

func finishRecords(h *harness) {
	for _, verdict := range []entity.Verdict{entity.Failed, entity.Rejected, entity.Refused} {
		m := h.put()
		r := result(h.claim(m.ID), verdict)
		h.finishAll(r)
		got := h.get(m.ID)
		if got.LastPublishError != r.Error || got.LastPublishErrorClass != r.Class {
			h.Errorf("verdict %d recorded %s: %q, want %s: %q", verdict, got.LastPublishErrorClass, got.LastPublishError, r.Class, r.Error)
		}
		if got.ErrorMessage != "boom" {
			h.Errorf("verdict %d made the consumer's words %q, want %q", verdict, got.ErrorMessage, "boom")
		}
	}
}

func finishAnswers(h *harness) {
	for _, verdict := range verdicts() {
		got := h.attempt(h.put().ID, verdict)
		m := h.get(got.MessageID)
		want := repository.Finished{
			MessageID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, NextAttemptAt: m.NextAttemptAt,
		}
		if got != want {
			h.Errorf("verdict %d answered %+v, stored is %+v", verdict, got, want)
		}
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
		if got.Claim != (entity.Claim{}) {
			h.Errorf("verdict %d left claim %+v, want none", verdict, got.Claim)
		}
		h.wantMoved(before, got)
		if got.CreatedAt != before.CreatedAt || got.LastRetryAt != before.LastRetryAt {
			h.Errorf("verdict %d: created %v, last retry %v, want them as before, %v and %v",
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
	if len(finished) != len(want) {
		h.Errorf("Finish answered %d, want %d", len(finished), len(want))
	}
	for _, f := range finished {
		if f.Status != want[f.MessageID] {
			h.Errorf("Finish left %s %s, want %s", f.MessageID, f.Status, want[f.MessageID])
		}
		h.wantStatus(f.MessageID, want[f.MessageID])
	}
}

// finishLate repeats each verdict after each ending, under the claim that ended.
func finishLate(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		c := h.claim(m.ID)
		h.finish(c, verdict)
		before, attempts := h.get(m.ID), len(h.history(m.ID))
		h.clock.Advance(time.Second)
		for _, late := range verdicts() {
			if got := h.finishAll(result(c, late)); len(got) != 0 {
				h.Errorf("verdict %d after %d answered %+v, want nothing", late, verdict, got)
			}
		}
		h.wantUnchanged(before)
		if got := len(h.history(m.ID)); got != attempts {
			h.Errorf("history has %d attempts after late results, want %d", got, attempts)
		}
	}
}

// finishOtherClaim gives the results of earlier and foreign claims to a message
// that a new claim holds.
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
			if got := h.finishAll(result(c, verdict)); len(got) != 0 {
				h.Errorf("verdict %d under %s claim answered %+v, want nothing", verdict, name, got)
			}
		}
	}
	h.wantUnchanged(before)
	h.wantFinished(h.finish(now, entity.Acknowledged), entity.Resolved, 1)
}

func finishRepeated(h *harness) {
	for _, verdict := range endings {
		m := h.put()
		r := result(h.claim(m.ID), verdict)
		if got := h.finishAll(r, r, r); len(got) != 1 {
			h.Errorf("verdict %d three times in one call answered %d, want 1", verdict, len(got))
		}
		if got := h.history(m.ID); len(got) != 1 {
			h.Errorf("verdict %d three times in one call left %d attempts, want 1", verdict, len(got))
		}
		if got := h.get(m.ID).RetryCount; got < 0 || got > 1 {
			h.Errorf("verdict %d three times in one call left retry count %d, want 0 or 1", verdict, got)
		}
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
	if len(got) != 1 || got[0].MessageID != m.ID {
		h.Errorf("Finish of one gone and one good = %+v, want the good one", got)
	}
	if n := len(h.history(gone.MessageID)); n != 0 {
		h.Errorf("a message that is gone has %d attempts, want none", n)
	}
}

func finishNothing(h *harness) {
	if got := h.finishAll(); len(got) != 0 {
		h.Errorf("Finish of nothing = %+v, want none", got)
	}
}
