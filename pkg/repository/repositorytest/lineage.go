package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func lineagePromises() []promise {
	return []promise{
		{"ReturnIsTheChildOfItsAttempt", lineageChild},
		{"ReturnBeforeTheResultCounts", lineageBeforeResult},
		{"GrandchildKeepsTheRoot", lineageRoot},
		{"AtTheLimitItArrivesDead", lineageLimit},
		{"AttemptOfNobodyIsForeign", lineageForeignAttempt},
		{"AttemptOfAnotherMessageIsForeign", lineageOtherMessage},
		{"OtherOriginalTopicIsForeign", lineageOtherTopic},
		{"DeletedParentIsForeign", lineageDeleted},
		{"RedeliveredReturnCountsOnce", lineageRedelivered},
		{"AttemptGivenUpIsKnown", lineageGivenUp},
		{"AttemptTakenOverIsKnown", lineageTakenOver},
		{"CountIsThatOfTheAttempt", lineageCount},
		{"StoreTellsOfReturns", lineageTold},
		{"SeveralRecordsOfOneAttemptAreAllChildren", lineageSeveral},
		{"ArrivalAtTheLimitIsInTheTrail", lineageAudit},
		{"ForeignHeadersNeverKill", lineageForeignNeverKills},
	}
}

// sendBack claims a message like a retry that sends it back to its original topic, and returns the claim. The caller
// must finish the attempt.
func (h *harness) sendBack(id uuid.UUID) repository.Claim {
	h.Helper()
	c := intent(id)
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1, "Claim took %d, want 1", len(taken))
	return c
}

func (h *harness) acknowledge(c repository.Claim) {
	h.Helper()
	check.Must(h.Repository.Finish(h.Context(), []repository.Result{
		{MessageID: c.MessageID, ClaimID: c.ID, Verdict: entity.Acknowledged, Partition: 2, Offset: 41},
	}, entity.By("alice")))(h)
}

// always is a function for Batch.Declared that accepts every dead-letter topic.
func always(*entity.Message) bool { return true }

// comeBack stores a new message whose Return names the parent and the attempt, and returns the stored message.
func (h *harness) comeBack(parent, attempt uuid.UUID, changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	s := h.open("returns.dlq", 0, 0)
	changes = append([]func(*entity.Message){func(m *entity.Message) {
		m.Return = &entity.Return{Parent: parent, Attempt: attempt}
	}}, changes...)
	b := h.batch(s, h.position(s, 0), 1, changes...)
	b.Declared = always
	id := b.Messages[0].ID
	h.store(b, 1)
	return h.get(id)
}

func (h *harness) wantForeign(got entity.Message) {
	h.Helper()
	if got.Parent != uuid.Nil || got.Root != uuid.Nil || got.RetryCount != 0 || got.Status != entity.Pending {
		h.Errorf("message has parent %s, root %s, %d attempts, %s, want none of a lineage",
			got.Parent, got.Root, got.RetryCount, got.Status)
	}
}

func lineageChild(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	got := h.comeBack(m.ID, c.ID)
	if got.Parent != m.ID || got.Root != m.ID || got.RetryCount != 1 || got.Status != entity.Pending {
		h.Errorf("child has parent %s, root %s, %d attempts, %s, want %s, the same, 1, PENDING",
			got.Parent, got.Root, got.RetryCount, got.Status, m.ID)
	}
	h.wantOutcome(m.ID, entity.Returned)
}

func lineageBeforeResult(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	if got := h.comeBack(m.ID, c.ID); got.Parent != m.ID || got.RetryCount != 1 {
		h.Errorf("child has parent %s, %d attempts, want %s, 1", got.Parent, got.RetryCount, m.ID)
	}
	h.acknowledge(c)
	if got := h.get(m.ID); got.Status != entity.Resolved || got.Outcome != entity.Returned {
		h.Errorf("parent is %s, outcome %q, want RESOLVED, returned", got.Status, got.Outcome)
	}
}

func lineageRoot(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	child := h.comeBack(m.ID, c.ID)
	c = h.sendBack(child.ID)
	h.acknowledge(c)
	if got := h.comeBack(child.ID, c.ID); got.Parent != child.ID || got.Root != m.ID || got.RetryCount != 2 {
		h.Errorf("grandchild has parent %s, root %s, %d attempts, want %s, %s, 2",
			got.Parent, got.Root, got.RetryCount, child.ID, m.ID)
	}
}

func lineageLimit(h *harness) {
	m := h.put(func(m *entity.Message) { m.RetryCount = 2 })
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	got := h.comeBack(m.ID, c.ID)
	check.True(h, got.Status == entity.Dead && got.RetryCount == 3 && got.Parent == m.ID,
		"child is %s after %d attempts, parent %s, want DEAD after 3 of %s", got.Status, got.RetryCount, got.Parent, m.ID)
}

func lineageForeignAttempt(h *harness) {
	m := h.put()
	h.acknowledge(h.sendBack(m.ID))
	h.wantForeign(h.comeBack(m.ID, uuid.New()))
	h.wantOutcome(m.ID, entity.Published)
}

func lineageOtherMessage(h *harness) {
	m, other := h.put(), h.put()
	h.acknowledge(h.sendBack(m.ID))
	c := h.sendBack(other.ID)
	h.acknowledge(c)
	h.wantForeign(h.comeBack(m.ID, c.ID))
}

func lineageOtherTopic(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	h.wantForeign(h.comeBack(m.ID, c.ID, func(m *entity.Message) { m.OriginalTopic = "elsewhere" }))
	h.wantOutcome(m.ID, entity.Published)
}

func lineageDeleted(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	h.wantForeign(h.comeBack(m.ID, c.ID))
}

func lineageRedelivered(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	s := h.open("returns.dlq", 0, 0)
	b := h.batch(s, 0, 1, func(m *entity.Message) { m.Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID} })
	b.Declared = always
	h.store(b, 1)
	h.store(b, 0)
	h.acknowledge(c)
	h.wantOutcome(m.ID, entity.Returned)
}

// lineageGivenUp: a message was marked DEAD because its attempt could not be settled. But the record of the attempt was
// in the target log, and comes back. It must become a child of the message.
func lineageGivenUp(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	attempt := h.get(m.ID).Claim.ID
	check.Must(h.Repository.MarkDead(h.Context(), m.ID, entity.By("test")))(h)
	got := h.comeBack(m.ID, attempt)
	check.True(h, got.Parent == m.ID && got.RetryCount == 1,
		"child has parent %s, %d attempts, want %s, 1", got.Parent, got.RetryCount, m.ID)
}

func lineageTakenOver(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	attempt := h.get(m.ID).Claim.ID
	c := takeOver(m.ID)
	h.claimAll(c)
	h.acknowledge(c)
	got := h.comeBack(m.ID, attempt)
	check.True(h, got.Parent == m.ID && got.RetryCount == 1,
		"child has parent %s, %d attempts, want %s, 1", got.Parent, got.RetryCount, m.ID)
}

// lineageCount: a requeue sets the message's number of attempts to 0. A return of an attempt before the requeue still
// continues that attempt's number.
func lineageCount(h *harness) {
	m := h.put(func(m *entity.Message) { m.RetryCount = 1 })
	h.unsettleable(m.ID)
	attempt := h.get(m.ID).Claim.ID
	check.Must(h.Repository.MarkDead(h.Context(), m.ID, entity.By("test")))(h)
	check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")))(h)
	check.Same(h, h.comeBack(m.ID, attempt).RetryCount, 2, "attempts of child, want 2 as the attempt had")
}

func lineageTold(h *harness) {
	m := h.put(func(m *entity.Message) { m.RetryCount = 2 })
	c := h.sendBack(m.ID)
	s := h.open("returns.dlq", 0, 0)
	b := h.batch(s, 0, 3)
	for i := range 2 {
		b.Messages[i].Return = &entity.Return{Parent: m.ID, Attempt: []uuid.UUID{uuid.New(), c.ID}[i]}
	}
	stored, err := h.Repository.Store(h.Context(), b)
	want := repository.Arrival{
		MessageID: b.Messages[1].ID, Parent: m.ID, Root: m.ID, Topic: original,
		RetryCount: 3, MaxRetries: 3, Status: entity.Dead,
	}
	check.True(h, err == nil && len(stored.Returns) == 1 && stored.Returns[0] == want,
		"Store found the returns %+v, %v, want %+v", stored.Returns, err, want)
	if stored, err = h.Repository.Store(h.Context(), b); err != nil || len(stored.Returns) != 0 {
		h.Errorf("Store of the same found the returns %+v, %v, want none: nothing was stored", stored.Returns, err)
	}
}

func lineageSeveral(h *harness) {
	m := h.put()
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	s := h.open("returns.dlq", 0, 0)
	say := func(m *entity.Message) { m.Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID} }
	for from := range int64(2) {
		b := h.batch(s, from*2, 2, say)
		h.store(b, 1)
		for _, child := range b.Messages {
			got := h.get(child.ID)
			check.True(h, got.Parent == m.ID && got.RetryCount == 1,
				"child has parent %s, %d attempts, want %s, 1", got.Parent, got.RetryCount, m.ID)
		}
	}
}

func lineageAudit(h *harness) {
	m := h.put(func(m *entity.Message) { m.RetryCount = 1 })
	first := h.sendBack(m.ID)
	h.acknowledge(first)
	alive := h.comeBack(m.ID, first.ID)
	h.wantEntries(alive.ID)
	second := h.sendBack(alive.ID)
	h.acknowledge(second)
	h.clock.Advance(time.Minute)
	dead := h.comeBack(alive.ID, second.ID)
	h.wantEntries(dead.ID, h.auditEntry(entity.ActionDead, dead.ID, "", entity.Dead, 3, entity.AuditInfo{
		Actor: entity.ActorIngest, Reason: "came back after 3 of 3 attempts",
	}))
}

// lineageForeignNeverKills: an application copies the headers of dlq-manager onto records for another topic. The
// messages of these records are no returns and never become DEAD, however often they arrive.
func lineageForeignNeverKills(h *harness) {
	m := h.put(func(m *entity.Message) { m.RetryCount = 2 })
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	for range 3 {
		got := h.comeBack(m.ID, c.ID, ofTopic("orders-enriched"))
		h.wantForeign(got)
		h.wantEntries(got.ID)
	}
	h.wantOutcome(m.ID, entity.Published)
}
