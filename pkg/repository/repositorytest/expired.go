package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
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
	check.Require(h, len(abandoned) == 1, "Expired = %v, want the one in RETRYING", abandoned)
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
	check.Require(h, err == nil && len(got) == 1, "Expired = %d, %v, want 1", len(got), err)
	if got[0].Claim != want.Claim || got[0].RetryCount != 1 || got[0].OriginalTopic != original || got[0].LastRetryAt != want.LastRetryAt {
		h.Errorf("Expired = %+v, want %+v", got[0], want)
	}
	check.True(h, got[0].Record.Value == nil, "Expired loaded %q, want no value", got[0].Record.Value)
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

// unsettleable claims a message, lets the claim expire, and stores the result that its attempt is in doubt and cannot
// be settled. The store then marks the message as unsettleable.
func (h *harness) unsettleable(id uuid.UUID) {
	h.Helper()
	r := result(h.claim(id), entity.InDoubt)
	h.clock.Advance(2 * expiry)
	r.Class, r.Error = entity.UnknownClass, "the log starts after the noted offset"
	got := h.finishAll(r)
	check.Require(h, len(got) == 1 && got[0].Status == entity.Retrying, "Finish = %+v, want one in RETRYING", got)
}

func expiredUnsettleable(h *harness) {
	marked, other := h.put(), h.put()
	h.unsettleable(marked.ID)
	h.claim(other.ID)
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired(1)", h.expired(1), []uuid.UUID{other.ID})
	got := h.get(marked.ID)
	check.True(h, got.Status == entity.Retrying && got.LastPublishErrorClass == entity.UnknownClass,
		"unsettleable is %s, %s, want RETRYING, UNKNOWN", got.Status, got.LastPublishErrorClass)
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
	check.Must(h.Repository.MarkDead(h.Context(), m.ID, entity.By("test")))(h)
	check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))(h)
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

// expiredAfter: a caller that cannot settle the oldest expired claims now must be able to skip them and read the next
// ones.
func expiredAfter(h *harness) {
	want := h.puts(5)
	for _, id := range want {
		h.claim(id)
	}
	h.clock.Advance(2 * expiry)
	var got []uuid.UUID
	after := repository.Cursor{}
	for range len(want) + 1 {
		page := check.Must(h.Repository.Expired(h.Context(), repository.ExpiredQuery{After: after, Limit: 2}))(h)
		got = append(got, ids(page)...)
		if len(page) > 0 {
			last := page[len(page)-1]
			after = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
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
		got := check.Must(h.Repository.Expired(h.Context(), repository.ExpiredQuery{ID: test.id, Limit: 10}))(h)
		h.wantIDs("Expired of "+test.of, ids(got), test.want)
	}
}

func historyPromises() []promise {
	return []promise{
		{"SaysWhoWhenWhereAndWhat", historySays},
		{"HasEveryEndingOldestFirst", historyEndings},
		{"NumbersCountUpOverARequeue", historyNumbers},
		{"DoubtIsSettledIntoOneAttempt", historyDoubt},
		{"IsEmptyWithoutAttempts", historyEmpty},
		{"IsEmptyOnceDeleted", historyDeleted},
	}
}

func historySays(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	started := h.clock.Kept()
	h.clock.Advance(1500 * time.Millisecond)
	h.finish(c, entity.Failed)
	failed := entity.Attempt{
		MessageID: m.ID, Number: 1, RetryCount: 1, ID: c.ID, Verdict: entity.Failed, Actor: "alice",
		StartedAt: started, EndedAt: h.clock.Kept(),
		From: entity.Retrying, To: entity.Pending,
		Class: entity.NetworkTimeout, Error: "no answer in 5s",
		Topic: original, Partition: 2, Offset: -1,
	}
	h.clock.Advance(time.Minute)
	c = intent(m.ID)
	c.RedriveID, c.TopicID = uuid.New(), "life-of-orders"
	h.claimAll(c)
	h.finish(c, entity.Acknowledged)
	published := entity.Attempt{
		MessageID: m.ID, Number: 2, RetryCount: 2, ID: c.ID, RedriveID: c.RedriveID, Verdict: entity.Acknowledged, Actor: "alice",
		StartedAt: h.clock.Kept(), EndedAt: h.clock.Kept(),
		From: entity.Retrying, To: entity.Resolved,
		Topic: original, TopicID: "life-of-orders", Partition: 2, Offset: 41,
	}
	check.Same(h, h.history(m.ID), []entity.Attempt{failed, published}, "History")
}

func historyEndings(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 100 })
	h.attempt(h.put().ID, entity.Failed) // another message gets a history, which History must not return for the message m
	steps := []struct {
		verdict entity.Verdict
		to      entity.Status
	}{
		{entity.GivenBack, entity.Pending},
		{entity.Failed, entity.Pending},
		{entity.Refused, entity.Pending},
		{entity.GivenBack, entity.Pending},
		{entity.Skipped, entity.Resolved},
	}
	for _, s := range steps {
		h.attempt(m.ID, s.verdict)
	}
	got := h.history(m.ID)
	check.Require(h, len(got) == len(steps), "History has %d attempts, want %d", len(got), len(steps))
	for i, a := range got {
		check.True(h, a.Number == i+1 && a.To == steps[i].to && a.From == entity.Retrying && a.MessageID == m.ID,
			"attempt %d = %+v, want it to %s", i+1, a, steps[i].to)
	}
}

func historyNumbers(h *harness) {
	m := h.put()
	h.attempt(m.ID, entity.Failed)
	h.attempt(m.ID, entity.Rejected)
	check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))(h)
	h.attempt(m.ID, entity.Failed)
	numbers := check.Each(h.history(m.ID), func(a entity.Attempt) int { return a.Number })
	check.Same(h, numbers, []int{1, 2, 3}, "numbers")
}

func historyDoubt(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	h.finish(c, entity.InDoubt)
	h.finish(c, entity.InDoubt)
	h.finish(c, entity.Acknowledged)
	got := h.history(m.ID)
	check.True(h, len(got) == 1 && got[0].ID == c.ID && got[0].To == entity.Resolved && got[0].Class == "",
		"History = %+v, want one attempt under %s to RESOLVED", got, c.ID)
}

func historyEmpty(h *harness) {
	for name, id := range map[string]uuid.UUID{"without attempts": h.put().ID, "that is unknown": uuid.New()} {
		check.Len(h, h.history(id), 0, "History of a message %s", name)
	}
}

func historyDeleted(h *harness) {
	m := h.in(entity.Dead)
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	check.Len(h, h.history(m.ID), 0, "History of a deleted message")
}
