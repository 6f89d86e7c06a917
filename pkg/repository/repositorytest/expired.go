package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func expiredPromises() []promise {
	return []promise{
		{"IsOnlyClaimsWhoseTimeIsOver", expiredOnly},
		{"IsOldestFirstAndAtMostTheLimit", expiredOrder},
		{"GoesOnBehindAPlace", expiredAfter},
		{"AnswersForOneMessage", expiredOne},
		{"HasTheIntentAndNoValue", expiredIntent},
		{"HasWhatIsInDoubt", expiredInDoubt},
		{"LeavesOutTheUnsettleable", expiredUnsettleable},
		{"UnknownDoubtOfALiveClaimIsStillSettled", expiredLiveUnknown},
		{"UnsettleableBindsOneClaimOnly", expiredNewClaim},
		{"UnknownErrorOfAnEarlierAttemptDoesNotCount", expiredEarlierUnknown},
	}
}

func expiredOnly(h *harness) {
	for _, s := range entity.Statuses() {
		h.in(s)
	}
	h.clock.Advance(2 * expiry)
	abandoned := h.expired(10)
	if len(abandoned) != 1 {
		h.Fatalf("Expired = %v, want the one in RETRYING", abandoned)
	}
	h.wantStatus(abandoned[0], entity.Retrying)

	live := h.put()
	h.claim(live.ID)
	h.clock.Advance(expiry - time.Second)
	h.wantIDs("Expired while a claim lives", h.expired(10), abandoned)
	h.clock.Advance(2 * time.Second)
	h.wantIDs("Expired after it", h.expired(10), append(abandoned, live.ID))
}

func expiredOrder(h *harness) {
	want := h.puts(5)
	for _, id := range want {
		h.claim(id)
		h.clock.Advance(time.Second)
	}
	h.clock.Advance(expiry)
	h.wantIDs("Expired(10)", h.expired(10), want)
	h.wantIDs("Expired(5)", h.expired(5), want)
	h.wantIDs("Expired(2)", h.expired(2), want[:2])
}

func expiredIntent(h *harness) {
	m := h.put()
	h.claim(m.ID)
	want := h.get(m.ID)
	h.clock.Advance(2 * expiry)
	got, err := h.Repository.Expired(h.Context(), repository.ExpiredQuery{Limit: 10})
	if err != nil || len(got) != 1 {
		h.Fatalf("Expired = %d, %v, want 1", len(got), err)
	}
	if got[0].Claim != want.Claim || got[0].RetryCount != 1 || got[0].OriginalTopic != original || got[0].LastRetryAt != want.LastRetryAt {
		h.Errorf("Expired = %+v, want %+v", got[0], want)
	}
	if got[0].Record.Value != nil {
		h.Errorf("Expired loaded %q, want no value", got[0].Record.Value)
	}
}

func expiredInDoubt(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	h.finish(c, entity.InDoubt)
	h.wantIDs("Expired while the claim lives", h.expired(10), nil)
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired", h.expired(10), []uuid.UUID{m.ID})
	h.finish(c, entity.InDoubt)
	h.wantIDs("Expired after one more doubt of a known class", h.expired(10), []uuid.UUID{m.ID})
}

// unsettleable claims a message, lets the claim expire, and notes that nobody
// can tell what became of it.
func (h *harness) unsettleable(id uuid.UUID) {
	h.Helper()
	r := result(h.claim(id), entity.InDoubt)
	h.clock.Advance(2 * expiry)
	r.Class, r.Error = entity.UnknownClass, "the log starts behind the noted offset"
	if got := h.finishAll(r); len(got) != 1 || got[0].Status != entity.Retrying {
		h.Fatalf("Finish = %+v, want one in RETRYING", got)
	}
}

func expiredUnsettleable(h *harness) {
	marked, other := h.put(), h.put()
	h.unsettleable(marked.ID)
	h.claim(other.ID)
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired(1)", h.expired(1), []uuid.UUID{other.ID})
	if got := h.get(marked.ID); got.Status != entity.Retrying || got.LastPublishErrorClass != entity.UnknownClass {
		h.Errorf("unsettleable is %s, %s, want RETRYING, UNKNOWN", got.Status, got.LastPublishErrorClass)
	}
}

func expiredLiveUnknown(h *harness) {
	m := h.put()
	r := result(h.claim(m.ID), entity.InDoubt)
	r.Class = entity.UnknownClass
	h.finishAll(r)
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired", h.expired(10), []uuid.UUID{m.ID})
}

func expiredNewClaim(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	if _, err := h.Repository.GiveUp(h.Context(), m.ID, entity.By("test")); err != nil {
		h.Fatal(err)
	}
	if _, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.claim(m.ID)
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired of the next claim", h.expired(10), []uuid.UUID{m.ID})
}

func expiredEarlierUnknown(h *harness) {
	m := h.put()
	r := result(h.claim(m.ID), entity.Failed)
	r.Class, r.Error = entity.UnknownClass, "broker said error 9999"
	h.finishAll(r)
	h.claim(m.ID)
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired of the next claim", h.expired(10), []uuid.UUID{m.ID})
}

// expiredAfter: whoever cannot settle the oldest claims now must get at those
// behind them.
func expiredAfter(h *harness) {
	want := h.puts(5)
	for _, id := range want {
		h.claim(id)
	}
	h.clock.Advance(2 * expiry)
	var got []uuid.UUID
	after := repository.Place{}
	for range len(want) + 1 {
		page, err := h.Repository.Expired(h.Context(), repository.ExpiredQuery{After: after, Limit: 2})
		if err != nil {
			h.Fatalf("Expired: %v", err)
		}
		got = append(got, ids(page)...)
		if len(page) > 0 {
			last := page[len(page)-1]
			after = repository.Place{CreatedAt: last.CreatedAt, ID: last.ID}
		}
	}
	h.wantIDs("all pages of Expired", got, want)
}

func expiredOne(h *harness) {
	live, over, pending := h.put(), h.put(), h.put()
	h.claim(over.ID)
	h.clock.Advance(2 * expiry)
	h.claim(live.ID)
	for _, test := range []struct {
		of   string
		id   uuid.UUID
		want []uuid.UUID
	}{
		{"an expired claim", over.ID, []uuid.UUID{over.ID}},
		{"a live claim", live.ID, nil},
		{"a PENDING message", pending.ID, nil},
		{"nobody", uuid.New(), nil},
	} {
		got, err := h.Repository.Expired(h.Context(), repository.ExpiredQuery{ID: test.id, Limit: 10})
		if err != nil {
			h.Fatalf("Expired: %v", err)
		}
		h.wantIDs("Expired of "+test.of, ids(got), test.want)
	}
}
