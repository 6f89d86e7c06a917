package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func duePromises() []promise {
	return []promise{
		{"NeverAttemptedIsDue", dueFresh},
		{"OnlyOfTheTopics", dueTopics},
		{"ExceptedPairsAreLeftOutButForWhatOperatorsSaid", dueExcept},
		{"FailedWaitsForItsTime", dueFailed},
		{"GivenBackRescuedAndRequeuedAreDue", dueTouched},
		{"OnlyWhatCanBeClaimed", dueClaimable},
		{"OldestFirstOverBothKinds", dueOrder},
		{"LimitKeepsTheOldestAndGoesOn", dueLimit},
		{"WhatFoundNoRoomIsNotPassed", dueFull},
		{"EveryMessageIsFoundOnce", dueAll},
		{"BehindAPlaceOnlyTheNeverAttempted", dueAfter},
		{"StuckCountsOldAttempts", stuckAge},
		{"StuckCountsTheUnsettled", stuckUnsettled},
	}
}

func (h *harness) due(q repository.DueQuery) ([]uuid.UUID, repository.Cursor) {
	h.Helper()
	ids, next, err := h.Repository.Due(h.Context(), q)
	check.Require(h, err == nil, "Due(%+v): %v", q, err)
	return ids, next
}

func (h *harness) wantDue(topics []string, want ...uuid.UUID) {
	h.Helper()
	got, next := h.due(repository.DueQuery{Topics: topics, Limit: 100})
	h.wantIDs("Due", got, want)
	check.Same(h, next, (repository.Cursor{}), "Due goes on at, want the end")
}

// backingOff returns a message whose first attempt failed, and whose next attempt is due after the time wait.
func (h *harness) backingOff(wait time.Duration, changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	m := h.put(changes...)
	c := h.claim(m.ID)
	r := result(c, entity.Failed)
	r.RetryIn = wait
	h.finishAll(r)
	return m
}

func ofTopic(topic string) func(*entity.Message) {
	return func(m *entity.Message) { m.OriginalTopic = topic }
}

var orders = []string{original}

func dueFresh(h *harness) {
	h.wantDue(orders)
	m := h.put()
	h.wantDue(orders, m.ID)
	h.wantDue(orders, m.ID)
}

func dueTopics(h *harness) {
	a, _, c := h.put(ofTopic("a")), h.put(ofTopic("b")), h.backingOff(0, ofTopic("c"))
	h.put(ofTopic(""))
	h.backingOff(0, ofTopic("b"))
	h.wantDue([]string{"c", "a", "a"}, a.ID, c.ID)
	h.wantDue([]string{"nobody"})
	h.wantDue([]string{deadLetter}) // automatic retry selects messages only by their original topic
	h.wantDue(nil)
}

func dueFailed(h *harness) {
	m := h.backingOff(time.Minute)
	h.wantDue(orders)
	h.clock.Advance(time.Minute - time.Second)
	h.wantDue(orders)
	h.clock.Advance(time.Second)
	h.wantDue(orders, m.ID)
}

func dueTouched(h *harness) {
	given, rescued, requeued := h.put(), h.put(), h.in(entity.Dead)
	h.attempt(given.ID, entity.GivenBack)
	h.attempt(rescued.ID, entity.Rescued)
	check.Must(h.Repository.Requeue(h.Context(), requeued.ID, entity.By("alice")))(h)
	h.wantDue(orders, given.ID, rescued.ID, requeued.ID)
}

func dueClaimable(h *harness) {
	h.in(entity.Retrying)
	h.in(entity.Resolved)
	h.in(entity.Dead)
	h.put(func(m *entity.Message) { m.RetryCount = m.MaxRetries })
	h.put(func(m *entity.Message) { m.RetryCount, m.NextAttemptAt = m.MaxRetries, h.clock.Now() })
	m := h.put()
	h.wantDue(orders, m.ID)
}

func dueOrder(h *harness) {
	first := h.backingOff(0)
	second := h.put()
	third := h.backingOff(0)
	fourth := h.put()
	h.wantDue(orders, first.ID, second.ID, third.ID, fourth.ID)
}

func dueLimit(h *harness) {
	old := h.backingOff(0)
	fresh := h.puts(5)
	late := h.backingOff(0)
	got, next := h.due(repository.DueQuery{Topics: orders, Limit: 3})
	h.wantIDs("Due with limit 3", got, []uuid.UUID{old.ID, fresh[0], fresh[1]})
	got, next = h.due(repository.DueQuery{Topics: orders, After: next, Limit: 4})
	h.wantIDs("Due after them", got, []uuid.UUID{old.ID, fresh[2], fresh[3], fresh[4]})
	check.Same(h, next, (repository.Cursor{}), "Due goes on at, want the end: all that were never attempted were seen")
	for _, id := range append(fresh, old.ID) {
		h.attempt(id, entity.Rejected)
	}
	h.wantDue(orders, late.ID)
}

func dueFull(h *harness) {
	touched := []uuid.UUID{h.backingOff(0).ID, h.backingOff(0).ID}
	fresh := h.puts(3)
	got, next := h.due(repository.DueQuery{Topics: orders, Limit: 4})
	h.wantIDs("Due with limit 4", got, append(touched, fresh[:2]...))
	want := repository.Cursor{CreatedAt: h.get(fresh[1]).CreatedAt, ID: fresh[1]}
	check.Same(h, next, want, "next of Due, want the place of the last returned message")
}

// dueAll: Due finds all due messages of a topic when many messages of other topics were stored between them.
func dueAll(h *harness) {
	const n = 5000
	s := h.open(deadLetter, 0, 0)
	var want []uuid.UUID
	b := h.batch(s, 0, n)
	for i := range b.Messages {
		if i%500 == 3 || i >= n-3 {
			want = append(want, b.Messages[i].ID)
		} else {
			b.Messages[i].OriginalTopic = "elsewhere"
		}
	}
	h.store(b, 1)
	var got []uuid.UUID
	q := repository.DueQuery{Topics: orders, Limit: 4}
	for range n {
		ids, next := h.due(q)
		got = append(got, ids...)
		if q.After = next; next == (repository.Cursor{}) {
			break
		}
	}
	h.wantSameIDs("Due to the end", got, want)
}

func dueAfter(h *harness) {
	first, second := h.put(), h.put()
	touched := h.backingOff(0)
	place := repository.Cursor{CreatedAt: h.get(first.ID).CreatedAt, ID: first.ID}
	got, _ := h.due(repository.DueQuery{Topics: orders, After: place, Limit: 10})
	h.wantIDs("Due after the first", got, []uuid.UUID{second.ID, touched.ID})
	place = repository.Cursor{CreatedAt: h.clock.Now(), ID: uuid.Max}
	got, next := h.due(repository.DueQuery{Topics: orders, After: place, Limit: 10})
	h.wantIDs("Due after all", got, []uuid.UUID{touched.ID})
	check.Same(h, next, (repository.Cursor{}), "Due goes on at, want the end")
}

func (h *harness) wantStuck(age time.Duration, want int64) {
	h.Helper()
	check.Same(h, check.Must(h.Repository.Stuck(h.Context(), age))(h), want, "Stuck(%s)", age)
}

func stuckAge(h *harness) {
	h.wantStuck(0, 0)
	h.in(entity.Pending)
	h.in(entity.Resolved)
	m := h.put()
	h.claim(m.ID)
	h.wantStuck(10*time.Minute, 0)
	h.clock.Advance(10 * time.Minute)
	h.wantStuck(10*time.Minute, 0)
	h.clock.Advance(time.Second)
	h.wantStuck(10*time.Minute, 1)
	h.wantStuck(time.Hour, 0)
}

func stuckUnsettled(h *harness) {
	m := h.put()
	h.unsettleable(m.ID)
	h.clock.Advance(time.Hour)
	h.wantStuck(time.Minute, 1)
}

func dueExcept(h *harness) {
	from := func(topic string) func(*entity.Message) {
		return func(m *entity.Message) { m.Source = h.source(topic, h.next) }
	}
	operator := func(m *entity.Message) { m.Origin.Confidence = entity.FromOperator }
	forged := h.put(ofTopic("orders"), from("gamma.dlq"))
	waited := h.backingOff(0, ofTopic("orders"), from("gamma.dlq"))
	own := h.put(ofTopic("orders"), from("orders.dlq"))
	said := h.put(ofTopic("orders"), from("gamma.dlq"), operator)
	other := h.put(ofTopic("payments"), from("gamma.dlq"))
	h.clock.Advance(time.Second)
	topics := []string{"orders", "payments"}
	h.wantDue(topics, forged.ID, waited.ID, own.ID, said.ID, other.ID)
	got, next := h.due(repository.DueQuery{Topics: topics, Limit: 100, Except: []repository.TopicPair{
		{Original: "orders", DLQ: "gamma.dlq"}, {Original: "orders", DLQ: "never.seen"},
	}})
	h.wantIDs("Due", got, []uuid.UUID{own.ID, said.ID, other.ID})
	check.Same(h, next, (repository.Cursor{}), "Due goes on at, want the end")
}
