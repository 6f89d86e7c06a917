package repositorytest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func claimPromises() []promise {
	return []promise{
		{"StartsAnAttemptAndStoresTheIntent", claimStarts},
		{"TellsBrieflyWhatItWrote", claimBrief},
		{"KeepsTheBytes", claimKeepsBytes},
		{"ClearsTheErrorOfTheAttemptBefore", claimClearsError},
		{"GivesEachMessageItsOwnIntent", claimOwnIntents},
		{"LeavesOutOtherStatesAndWhatIsGone", claimLeavesOut},
		{"LeavesOutUsedUpAttempts", claimUsedUp},
		{"IgnoresTheNextAttemptTime", claimNextAttempt},
		{"NothingAskedIsNothingTaken", claimNothing},
		{"TwiceInOneCallIsTakenOnce", claimTwiceInOneCall},
		{"AskedAgainUnderTheSameIDIsTheSameClaim", claimAgain},
		{"ExpiredClaimIsNotTakenAgain", claimExpired},
		{"UnsettleableIsNotTakenUnasked", claimUnsettleable},
		{"TakeOverTakesTheUnsettleable", claimTakeOver},
		{"TakeOverIgnoresTheLimit", claimTakeOverLimit},
		{"TakeOverAtTheLimitThatIsGivenBackIsDead", claimTakeOverGivenBack},
		{"AttemptTakenOverIsInTheHistory", claimTakeOverHistory},
		{"TakeOverTakesNothingElse", claimTakeOverOthers},
		{"TakeOverCountsOnceUnderManyCallers", claimTakeOverOnce},
		{"TakesEachMessageOnceUnder50Callers", claimOnce(false)},
		{"TakesEachMessageOnceUnder50WaitingCallers", claimOnce(true)},
		{"LeavesOutWhatWasMappedSinceItWasPlanned", claimMapped},
		{"WaitSeesTheOtherCallersResult", claimWait},
		{"ClaimableIsWhatAnAttemptCouldTake", claimableIDs},
		{"OppositeOrdersDoNotDeadlock", claimOppositeOrders},
	}
}

func claimStarts(h *harness) {
	m := h.put(func(m *entity.Message) { m.RetryCount = 1 })
	before := h.get(m.ID)
	c := intent(m.ID)
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1, "Claim took %d, want 1", len(taken))
	want := entity.Claim{ID: c.ID, ExpiresAt: entity.TruncateTime(h.clock.Now().Add(expiry)), Topic: original, Partition: 2, EndOffset: 40}
	for name, got := range map[string]entity.Message{"Claim": taken[0], "Get": h.get(m.ID)} {
		if got.ID != m.ID || got.Status != entity.Retrying || got.RetryCount != 2 || got.LastRetryAt != h.clock.Kept() {
			h.Errorf("%s = %s, %d attempts, last %v, want RETRYING, 2, %v", name, got.Status, got.RetryCount, got.LastRetryAt, h.clock.Kept())
		}
		check.Same(h, got.Claim, want, "%s has claim", name)
		check.True(h, got.OriginalTopic == original && got.MaxRetries == 3 && got.Source == before.Source,
			"%s = %q, at most %d attempts, source %+v, want them as before", name, got.OriginalTopic, got.MaxRetries, got.Source)
		h.wantMoved(before, got)
	}
	r := taken[0].Record
	check.True(h, r.Value == nil && r.Key == nil && len(r.Headers) == 0, "Claim returned bytes %+v, want none", r)
}

func claimKeepsBytes(h *harness) {
	m := h.put(func(m *entity.Message) {
		m.Record.Key, m.Record.Headers = []byte{}, []entity.Header{{Key: "h", Value: nil}}
	})
	before := h.get(m.ID)
	h.claim(m.ID)
	after := before
	got := h.get(m.ID)
	after.Status, after.RetryCount, after.LastRetryAt = entity.Retrying, 1, h.clock.Kept()
	after.Claim, after.UpdatedAt = got.Claim, got.UpdatedAt
	h.wantUnchanged(after)
}

// claimClearsError: Claim clears the error of the previous attempt, its class and the time of the next attempt. A class
// that is stored during the claim must belong to the new attempt, because it decides whether this attempt counts when
// it is settled.
func claimClearsError(h *harness) {
	m := h.put(func(m *entity.Message) {
		m.LastPublishError, m.LastPublishErrorClass = "connection reset", entity.BrokerUnavailable
		m.NextAttemptAt = h.clock.Kept()
	})
	taken := h.claimAll(intent(m.ID))
	check.Require(h, len(taken) == 1, "Claim took %d, want 1", len(taken))
	for name, got := range map[string]entity.Message{"Claim": taken[0], "Get": h.get(m.ID)} {
		if got.LastPublishError != "" || got.LastPublishErrorClass != "" || !got.NextAttemptAt.IsZero() {
			h.Errorf("%s has error %q, class %q, next attempt %v, want none", name,
				got.LastPublishError, got.LastPublishErrorClass, got.NextAttemptAt)
		}
	}
}

func claimOwnIntents(h *harness) {
	claims := intents(h.puts(5)...)
	for i := range claims {
		claims[i].Topic = []string{"orders", "payments"}[i%2]
		claims[i].Partition, claims[i].EndOffset = int32(i), int64(1000+i)
	}
	taken := h.claimAll(claims...)
	check.Require(h, len(taken) == len(claims), "Claim took %d, want %d", len(taken), len(claims))
	for _, m := range taken {
		i := slices.IndexFunc(claims, func(c repository.Claim) bool { return c.MessageID == m.ID })
		check.Require(h, i >= 0, "Claim took %s, which was not requested", m.ID)
		got := repository.Claim{MessageID: m.ID, ID: m.Claim.ID, Topic: m.Claim.Topic, Partition: m.Claim.Partition, EndOffset: m.Claim.EndOffset}
		check.Same(h, got, claims[i], "Claim stored")
	}
}

func claimLeavesOut(h *harness) {
	pending := h.put()
	claims := intents(uuid.New(), pending.ID)
	var others []entity.Message
	for _, s := range entity.Statuses()[1:] {
		m := h.in(s)
		others, claims = append(others, m), append(claims, intent(m.ID))
	}
	h.wantIDs("Claim", ids(h.claimAll(claims...)), []uuid.UUID{pending.ID})
	for _, m := range others {
		h.wantUnchanged(m)
	}
}

func claimUsedUp(h *harness) {
	for _, change := range []func(*entity.Message){
		func(m *entity.Message) { m.RetryCount = 3 },
		func(m *entity.Message) { m.RetryCount = 4 },
		func(m *entity.Message) { m.MaxRetries = 0 },
	} {
		before := h.get(h.put(change).ID)
		taken := h.claimAll(intent(before.ID))
		check.True(h, len(taken) == 0, "Claim at %d/%d took it, want it left out", before.RetryCount, before.MaxRetries)
		h.wantUnchanged(before)
	}
}

func claimNextAttempt(h *harness) {
	m := h.put(func(m *entity.Message) { m.NextAttemptAt = h.clock.Now().Add(time.Hour) })
	h.claim(m.ID)
}

func claimNothing(h *harness) {
	h.put()
	check.Len(h, h.claimAll(), 0, "Claim of nothing")
}

func claimTwiceInOneCall(h *harness) {
	m := h.put()
	taken := h.claimAll(intent(m.ID), intent(m.ID))
	check.Require(h, len(taken) == 1, "Claim took %d, want 1", len(taken))
	if got := h.get(m.ID); got.RetryCount != 1 || got.Claim != taken[0].Claim {
		h.Errorf("stored %d attempts under %s, want 1 under the claim that was answered, %s", got.RetryCount, got.Claim.ID, taken[0].Claim.ID)
	}
}

func claimExpired(h *harness) {
	m := h.put()
	h.claim(m.ID)
	before := h.get(m.ID)
	h.clock.Advance(1000 * expiry)
	for _, wait := range []bool{false, true} {
		taken, err := h.Repository.Claim(h.Context(), intents(m.ID), repository.Claiming{Expiry: expiry, Wait: wait, Cause: entity.By("alice")})
		check.True(h, err == nil && len(taken) == 0,
			"Claim of an expired claim = %v, %v, want none: it is settled first", ids(taken), err)
	}
	h.wantUnchanged(before)
}

func takeOver(id uuid.UUID) repository.Claim {
	c := intent(id)
	c.TakeOver = true
	return c
}

func claimUnsettleable(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	before := h.get(m.ID)
	check.Len(h, h.claimAll(intent(m.ID)), 0, "Claim took an unsettleable message unasked, want it left out")
	h.wantUnchanged(before)
}

func claimTakeOver(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	old := repository.Claim{MessageID: m.ID, ID: h.get(m.ID).Claim.ID}
	c := takeOver(m.ID)
	taken := h.claimAll(c)
	if len(taken) != 1 || taken[0].RetryCount != 2 || taken[0].Claim.ID != c.ID || taken[0].LastRetryAt != h.clock.Kept() {
		h.Fatalf("Claim with TakeOver = %+v, want the second attempt, under %s", taken, c.ID)
	}
	check.Len(h, h.finishAll(result(old, entity.Acknowledged)), 0, "result of the claim taken over")
	h.clock.Advance(2 * expiry)
	h.wantIDs("Expired of the new claim", h.expired(10), []uuid.UUID{m.ID})
	h.wantFinished(h.finish(c, entity.Acknowledged), entity.Resolved, 2)
}

// claimTakeOverLimit: the last attempt that the retry limit allows is in doubt and cannot be settled. A claim with
// TakeOver claims its message all the same, because nothing else could end such an attempt.
func claimTakeOverLimit(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 1 })
	h.unsettleable(m.ID)
	c := takeOver(m.ID)
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1 && taken[0].RetryCount == 2 && taken[0].MaxRetries == 1,
		"Claim with TakeOver = %+v, want the second attempt of one", taken)
	h.wantFinished(h.finish(c, entity.Failed), entity.Dead, 2)
}

func claimTakeOverGivenBack(h *harness) {
	for _, verdict := range []entity.Verdict{entity.GivenBack, entity.Refused} {
		m := h.put(func(m *entity.Message) { m.MaxRetries = 1 })
		h.unsettleable(m.ID)
		c := takeOver(m.ID)
		h.claimAll(c)
		h.wantFinished(h.finish(c, verdict), entity.Dead, 1)
	}
}

func claimTakeOverHistory(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	before := h.get(m.ID)
	c := takeOver(m.ID)
	if _, err := h.Repository.Claim(h.Context(), []repository.Claim{c},
		repository.Claiming{Expiry: expiry, Cause: entity.By("eve")}); err != nil {
		h.Fatalf("Claim: %v", err)
	}
	h.wantAbandoned(before, "eve", entity.Retrying)
	h.finish(c, entity.Acknowledged)
	got := h.history(m.ID)
	check.True(h, len(got) == 2 && got[1].ID == c.ID && got[1].Number == got[0].Number+1, "history = %+v, want both attempts", got)
}

func claimTakeOverOthers(h *harness) {
	pending, doubtful := h.put(), h.put()
	others := []entity.Message{h.in(entity.Resolved), h.in(entity.Dead), h.in(entity.Retrying)}
	h.finish(h.claim(doubtful.ID), entity.InDoubt)
	others = append(others, h.get(doubtful.ID))
	for _, when := range []string{"claims live", "claims expired"} {
		for _, m := range others {
			check.True(h, len(h.claimAll(takeOver(m.ID))) == 0,
				"while %s, TakeOver took a message in %s, want only what is unsettleable", when, m.Status)
			h.wantUnchanged(m)
		}
		h.clock.Advance(2 * expiry)
	}
	h.wantIDs("TakeOver of PENDING took", ids(h.claimAll(takeOver(pending.ID))), []uuid.UUID{pending.ID})
}

func claimTakeOverOnce(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	h.wantOne("Claim with TakeOver", func() bool {
		taken, err := h.Repository.Claim(h.Context(), []repository.Claim{takeOver(m.ID)}, repository.Claiming{Expiry: expiry, Wait: true, Cause: entity.By("alice")})
		check.True(h, err == nil, "Claim: %v", err)
		return len(taken) == 1
	})
	check.Same(h, h.get(m.ID).RetryCount, 2, "retry count")
}

// claimOnce: 50 callers claim the same 20 messages at the same time, and begin with different messages. Each message is
// claimed only once.
func claimOnce(wait bool) func(h *harness) {
	return func(h *harness) {
		const callers = 50
		want := h.puts(20)
		var mu sync.Mutex
		var got []entity.Message
		together(callers, func(i int) {
			mine := slices.Concat(want[i%len(want):], want[:i%len(want)])
			taken, err := h.Repository.Claim(h.Context(), intents(mine...), repository.Claiming{Expiry: expiry, Wait: wait, Cause: entity.By("alice")})
			check.True(h, err == nil, "Claim: %v", err)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, taken...)
		})
		h.wantSameIDs("all callers took", ids(got), want)
		for _, m := range got {
			if stored := h.get(m.ID); stored.RetryCount != 1 || stored.Claim != m.Claim {
				h.Errorf("message %s: %d attempts under %s, want 1 under the winner's %s", m.ID, stored.RetryCount, stored.Claim.ID, m.Claim.ID)
			}
		}
	}
}

// claimBrief claims a message with the option Brief, and then repeats the claim with the same id, like a caller that
// has not received the answer. Both answers must be the same.
func claimBrief(h *harness) {
	for _, wait := range []bool{false, true} {
		m := h.put(func(m *entity.Message) { m.RetryCount = 1 })
		c := intent(m.ID)
		c.RedriveID, c.TopicID = uuid.New(), "life-1"
		how := repository.Claiming{Expiry: expiry, Cause: entity.By("alice"), Brief: true, Wait: wait}
		for _, time := range []string{"first", "second"} {
			taken, err := h.Repository.Claim(h.Context(), []repository.Claim{c}, how)
			check.Require(h, err == nil && len(taken) == 1, "%s Claim = %v, %v, want the message", time, taken, err)
			whole := h.get(m.ID)
			want := entity.Message{
				ID: m.ID, Status: entity.Retrying, RetryCount: 2, MaxRetries: whole.MaxRetries,
				UpdatedAt: whole.UpdatedAt, LastRetryAt: whole.LastRetryAt, Claim: whole.Claim,
			}
			check.Same(h, taken[0], want, "%s Claim", time)
			check.True(h, whole.Claim.RedriveID == c.RedriveID && whole.Claim.TopicID == c.TopicID && !whole.UpdatedAt.IsZero(),
				"%s Claim left %+v, want it with the intent", time, whole)
		}
	}
}

func claimMapped(h *harness) {
	stays, moves := h.put(unknownOrigin), h.put(unknownOrigin)
	h.mapTo("orders", entity.By("alice"), stays.ID, moves.ID)
	plan := func(id uuid.UUID, original string) repository.Claim {
		return repository.Claim{MessageID: id, ID: uuid.New(), Topic: "orders", OriginalTopic: original}
	}
	planned := []repository.Claim{plan(stays.ID, "orders"), plan(moves.ID, "orders")}
	h.mapTo("payments", entity.By("bob"), moves.ID)
	for _, wait := range []bool{false, true} {
		how := repository.Claiming{Expiry: time.Minute, Cause: entity.By("redrive"), Wait: wait}
		taken := check.Must(h.Repository.Claim(h.Context(), planned, how))(h)
		check.True(h, len(taken) == 1 && taken[0].ID == stays.ID,
			"Claim(wait %v) took %v, want the message that is still of orders", wait, taken)
	}
	got := h.get(moves.ID)
	check.True(h, got.Status == entity.Pending && got.RetryCount == 0,
		"the mapped message is %s after %d attempts, want it as it was", got.Status, got.RetryCount)
	taken, err := h.Repository.Claim(h.Context(), []repository.Claim{plan(moves.ID, "")}, repository.Claiming{Expiry: time.Minute})
	check.True(h, err == nil && len(taken) == 1,
		"Claim without a topic took %v, %v, want the message wherever it belongs", taken, err)
}

// claimWait claims a message with the option Wait while another caller may be marking it dead. In whichever order the
// two happen, the answer of Claim must agree with what is stored.
func claimWait(h *harness) {
	for range rounds {
		m := h.put()
		var taken []entity.Message
		var claimErr, giveUpErr error
		together(2, func(i int) {
			if i == 0 {
				taken, claimErr = h.Repository.Claim(h.Context(), intents(m.ID), repository.Claiming{Expiry: expiry, Wait: true, Cause: entity.By("alice")})
				return
			}
			_, giveUpErr = h.Repository.MarkDead(h.Context(), m.ID, entity.By("test"))
		})
		check.Require(h, claimErr == nil, "Claim: %v", claimErr)
		if len(taken) == 1 {
			h.wantClaimed("GiveUp after a claim", m.ID, giveUpErr)
			h.wantStatus(m.ID, entity.Retrying)
			continue
		}
		check.True(h, giveUpErr == nil, "GiveUp = %v and nothing was claimed, want one of them to win", giveUpErr)
		h.wantStatus(m.ID, entity.Dead)
	}
}

func claimOppositeOrders(h *harness) {
	for range rounds {
		forth := h.puts(20)
		back := slices.Clone(forth)
		slices.Reverse(back)
		var mu sync.Mutex
		var got []uuid.UUID
		together(8, func(i int) {
			mine := [][]uuid.UUID{forth, back}[i%2]
			taken, err := h.Repository.Claim(h.Context(), intents(mine...), repository.Claiming{Expiry: expiry, Wait: true, Cause: entity.By("alice")})
			check.True(h, err == nil, "Claim: %v", err)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, ids(taken)...)
		})
		h.wantSameIDs("all callers took", got, forth)
	}
}

// claimAgain: a claim that is repeated, by the driver or by the caller, because the answer was lost, returns the
// messages again and changes nothing, until their attempts have ended.
func claimAgain(h *harness) {
	ids := h.puts(3)
	claims := intents(ids...)
	h.claimAll(claims[:2]...)
	first := []entity.Message{h.get(ids[0]), h.get(ids[1])}
	check.Len(h, h.claimAll(claims...), 3, "asked again, Claim took messages")
	for _, before := range first {
		h.wantUnchanged(before)
	}
	check.Len(h, h.claimAll(intents(ids...)...), 0, "another Claim took messages")
	h.finish(claims[0], entity.Acknowledged)
	check.Len(h, h.claimAll(claims[0]), 0, "Claim of an attempt that has ended took messages")
}

func claimableIDs(h *harness) {
	one, other := h.put(), h.put()
	ids := []uuid.UUID{uuid.New(), one.ID, other.ID, h.put(func(m *entity.Message) { m.RetryCount = m.MaxRetries }).ID}
	for _, s := range entity.Statuses()[1:] {
		ids = append(ids, h.in(s).ID)
	}
	got := check.Must(h.Repository.Claimable(h.Context(), ids))(h)
	h.wantSameIDs("Claimable", got, []uuid.UUID{one.ID, other.ID})
}
