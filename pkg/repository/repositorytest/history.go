package repositorytest

import (
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

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
	if got, want := h.history(m.ID), []entity.Attempt{failed, published}; !reflect.DeepEqual(got, want) {
		h.Errorf("History =\n     %+v\nwant %+v", got, want)
	}
}

func historyEndings(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 100 })
	h.attempt(h.put().ID, entity.Failed) // another message's attempt, not to be seen
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
	if len(got) != len(steps) {
		h.Fatalf("History has %d attempts, want %d", len(got), len(steps))
	}
	for i, a := range got {
		if a.Number != i+1 || a.To != steps[i].to || a.From != entity.Retrying || a.MessageID != m.ID {
			h.Errorf("attempt %d = %+v, want it to %s", i+1, a, steps[i].to)
		}
	}
}

func historyNumbers(h *harness) {
	m := h.put()
	h.attempt(m.ID, entity.Failed)
	h.attempt(m.ID, entity.Rejected)
	if _, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.attempt(m.ID, entity.Failed)
	var numbers []int
	for _, a := range h.history(m.ID) {
		numbers = append(numbers, a.Number)
	}
	if want := []int{1, 2, 3}; !reflect.DeepEqual(numbers, want) {
		h.Errorf("numbers = %v, want %v", numbers, want)
	}
}

func historyDoubt(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	h.finish(c, entity.InDoubt)
	h.finish(c, entity.InDoubt)
	h.finish(c, entity.Acknowledged)
	got := h.history(m.ID)
	if len(got) != 1 || got[0].ID != c.ID || got[0].To != entity.Resolved || got[0].Class != "" {
		h.Errorf("History = %+v, want one attempt under %s to RESOLVED", got, c.ID)
	}
}

func historyEmpty(h *harness) {
	for name, id := range map[string]uuid.UUID{"without attempts": h.put().ID, "that is unknown": uuid.New()} {
		if got := h.history(id); len(got) != 0 {
			h.Errorf("History of a message %s = %+v, want none", name, got)
		}
	}
}

func historyDeleted(h *harness) {
	m := h.in(entity.Dead)
	if err := h.Repository.Delete(h.Context(), m.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	if got := h.history(m.ID); len(got) != 0 {
		h.Errorf("History of a deleted message = %+v, want none", got)
	}
}
