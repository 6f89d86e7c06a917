package repositorytest

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// repeatsPromises returns the promises about dead letters of a record that already has one, in dialects that name the
// record's position.
func repeatsPromises() []promise {
	return []promise{
		{"EqualDeadLetterIsCounted", repeatsCounted},
		{"CountedWhileTheFirstIsRetried", repeatsRetrying},
		{"AnyDifferenceIsAMessageOfItsOwn", repeatsDifferent},
		{"WithoutADigestNothingIsARepeat", repeatsWithoutDigest},
		{"OtherDeadLetterTopicOrIncarnationIsAMessageOfItsOwn", repeatsElsewhere},
		{"OlderThanADayIsAMessageOfItsOwn", repeatsOld},
		{"OfAFinalMessageIsAMessageThatNamesIt", repeatsFinal},
		{"FurtherRepeatsOfAFinalMessageAreCountedAtTheSecond", repeatsFinalAgain},
		{"OfARequeuedMessageIsCounted", repeatsRequeued},
		{"OfADeletedMessageIsAMessageOfItsOwn", repeatsDeleted},
		{"WithinABatchIsCounted", repeatsWithin},
		{"WithinABatchOfSeveralPartitionsIsCounted", repeatsAcross},
		{"RedeliveredIsNotCountedAgain", repeatsRedelivered},
		{"StaleRangeCountsNothing", repeatsStale},
		{"LatestPositionsAreKept", repeatsPositions},
		{"StoredAtOnceIsOneMessage", repeatsAtOnce},
		{"StoredAtOnceBehindAFinalMessageIsOneMessage", repeatsAtOnceFinal},
		{"OfASentMessageIsNoReturn", repeatsNoReturn},
		{"AutomaticRetryLeavesItOut", repeatsNotDue},
		{"BulkRetryLeavesItOutAndCountsIt", repeatsLeftOut},
	}
}

// failed makes a dead letter one of a record at position 5 of partition 2 of its original topic.
func failed(m *entity.Message) {
	partition, offset := int32(2), int64(5)
	m.Failure.ConsumerGroup, m.Failure.Dialect = "billing", "spring-dlt"
	m.Origin.Partition, m.Origin.Offset, m.Origin.Timestamp = &partition, &offset, time.UnixMilli(1_700_000_000_000).UTC()
	m.Record.Key, m.Record.Value = []byte("k"), []byte("v")
	m.Record.Headers = []entity.Header{{Key: "kafka_dlt-exception-message", Value: []byte("boom")}, {Key: "tenant", Value: []byte("a")}}
}

// digested sets the digest, as ingest does.
func digested(m *entity.Message) {
	var kept []entity.Header
	for _, header := range m.Record.Headers {
		if !strings.HasPrefix(header.Key, "kafka_dlt-") {
			kept = append(kept, header)
		}
	}
	m.SetDigest(kept)
}

// fails returns a batch with the next dead letter of a partition of the default dead-letter topic. The dead letter is
// equal to all others that fails returns, except for the changes.
func (h *harness) fails(part int32, changes ...func(*entity.Message)) repository.Batch {
	h.Helper()
	s := h.open(deadLetter, 0, part)
	changes = append(append([]func(*entity.Message){failed}, changes...), digested)
	b := h.batch(s, h.position(s, 0), 1, changes...)
	b.ReturnWindow = window
	return b
}

// fail stores the batch that fails returns, and returns its message, which may not be stored as a message of its own.
func (h *harness) fail(part int32, changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	b := h.fails(part, changes...)
	h.arrive(b)
	h.clock.Advance(time.Second)
	return b.Messages[0]
}

// wantRepeats checks the repeats of a message.
func (h *harness) wantRepeats(id uuid.UUID, want entity.Repeats) {
	h.Helper()
	check.Equal(h, h.get(id).Repeats, want, "repeats of %s", id)
}

func repeatAt(part int32, offset int64) entity.Repeats {
	return entity.Repeats{Count: 1, Positions: []entity.RepeatPosition{{Partition: part, Offset: offset}}}
}

func repeatsCounted(h *harness) {
	first := h.fail(0)
	h.wantRepeats(first.ID, entity.Repeats{})
	h.fail(0, func(m *entity.Message) {
		m.ErrorMessage, m.Failure.Class = "another text", "Other"
		m.Record.Headers = []entity.Header{m.Record.Headers[1], {Key: "kafka_dlt-exception-message", Value: []byte("other")}}
	})
	h.wantStored(deadLetter, []uuid.UUID{first.ID})
	h.wantRepeats(first.ID, repeatAt(0, 1))
	h.fail(3)
	h.wantStored(deadLetter, []uuid.UUID{first.ID})
	h.wantRepeats(first.ID, entity.Repeats{Count: 2, Positions: []entity.RepeatPosition{{Partition: 3, Offset: 0}, {Partition: 0, Offset: 1}}})
	check.Equal(h, h.list(deadLetter, repository.Page{Number: 1, Size: 1}).Messages[0].Repeats.Count, 2, "repeats in a list")
}

func repeatsRetrying(h *harness) {
	first := h.fail(0)
	h.claim(first.ID)
	h.fail(0)
	h.wantStored(deadLetter, []uuid.UUID{first.ID})
	h.wantRepeats(first.ID, repeatAt(0, 1))
}

func repeatsDifferent(h *harness) {
	all := []uuid.UUID{h.fail(0).ID}
	for name, change := range map[string]func(*entity.Message){
		"group":              func(m *entity.Message) { m.Failure.ConsumerGroup = "shipping" },
		"no group":           func(m *entity.Message) { m.Failure.ConsumerGroup = "" },
		"original topic":     func(m *entity.Message) { m.OriginalTopic = "payments" },
		"original partition": func(m *entity.Message) { *m.Origin.Partition = 1 },
		"original offset":    func(m *entity.Message) { *m.Origin.Offset = 6 },
		"timestamp":          func(m *entity.Message) { m.Origin.Timestamp = m.Origin.Timestamp.Add(time.Millisecond) },
		"no timestamp":       func(m *entity.Message) { m.Origin.Timestamp = time.Time{} },
		"key":                func(m *entity.Message) { m.Record.Key = []byte("l") },
		"empty key":          func(m *entity.Message) { m.Record.Key = []byte{} },
		"null key":           func(m *entity.Message) { m.Record.Key = nil },
		"value":              func(m *entity.Message) { m.Record.Value = []byte("w") },
		"tombstone":          func(m *entity.Message) { m.Record.Value = nil },
		"key and value":      func(m *entity.Message) { m.Record.Key, m.Record.Value = []byte("kv"), []byte{} },
		"value of a header":  func(m *entity.Message) { m.Record.Headers[1].Value = []byte("b") },
		"name of a header":   func(m *entity.Message) { m.Record.Headers[1].Key = "owner" },
		"null header":        func(m *entity.Message) { m.Record.Headers[1].Value = nil },
		"no header":          func(m *entity.Message) { m.Record.Headers = m.Record.Headers[:1] },
		"header twice":       func(m *entity.Message) { m.Record.Headers = append(m.Record.Headers, m.Record.Headers[1]) },
	} {
		m := h.fail(0, change)
		all = append(all, m.ID)
		h.wantRepeats(m.ID, entity.Repeats{})
		h.fail(0, change)
		got := h.get(m.ID).Repeats.Count
		check.True(h, got == 1, "with another %s, the equal dead letters were counted %d times, want once", name, got)
	}
	h.wantStored(deadLetter, all)
}

func repeatsWithoutDigest(h *harness) {
	var all []uuid.UUID
	for range 2 {
		b := h.fails(0)
		b.Messages[0].Digest = uuid.Nil
		h.arrive(b)
		all = append(all, b.Messages[0].ID)
	}
	h.wantStored(deadLetter, all)
}

func repeatsElsewhere(h *harness) {
	first := h.fail(0)
	for _, ref := range []repository.TopicRef{h.topic(deadLetter, "life-2"), h.topic("other.dlq", "life-1")} {
		s := stream{topic: deadLetter, ref: ref}
		b := h.batch(s, h.position(s, 0), 1, failed, digested)
		h.arrive(b)
		h.wantRepeats(b.Messages[0].ID, entity.Repeats{})
	}
	h.wantRepeats(first.ID, entity.Repeats{})
}

func repeatsOld(h *harness) {
	first := h.fail(0)
	h.clock.Advance(entity.RepeatWindow)
	second := h.fail(0)
	h.wantRepeats(first.ID, entity.Repeats{})
	h.wantRepeats(second.ID, entity.Repeats{})
	h.fail(0)
	h.wantStored(deadLetter, []uuid.UUID{first.ID, second.ID})
	h.wantRepeats(second.ID, repeatAt(0, 2))
}

func repeatsFinal(h *harness) {
	for i, verdict := range []entity.Verdict{entity.Acknowledged, entity.Rejected} {
		own := func(m *entity.Message) { *m.Origin.Offset = int64(i) }
		first := h.fail(0, own)
		h.attempt(first.ID, verdict)
		second := h.fail(0, own)
		h.wantRepeats(first.ID, entity.Repeats{})
		h.wantRepeats(second.ID, entity.Repeats{Of: first.ID})
		h.wantStatus(second.ID, entity.Pending)
		h.attempt(second.ID, entity.Acknowledged) // a single retry sends it
		h.wantStatus(second.ID, entity.Resolved)
	}
}

func repeatsFinalAgain(h *harness) {
	first := h.fail(0)
	h.attempt(first.ID, entity.Acknowledged)
	second := h.fail(0)
	h.fail(1)
	h.wantRepeats(first.ID, entity.Repeats{})
	h.wantRepeats(second.ID, entity.Repeats{Of: first.ID, Count: 1, Positions: repeatAt(1, 0).Positions})
	h.attempt(second.ID, entity.Acknowledged)
	third := h.fail(0)
	h.wantRepeats(third.ID, entity.Repeats{Of: first.ID})
	h.wantStored(deadLetter, []uuid.UUID{first.ID, second.ID, third.ID})
}

func repeatsRequeued(h *harness) {
	first := h.fail(0)
	h.attempt(first.ID, entity.Rejected)
	check.Must(h.Repository.Requeue(h.Context(), first.ID, entity.By("ops")))(h)
	h.fail(0)
	h.wantRepeats(first.ID, repeatAt(0, 1))
	h.wantStored(deadLetter, []uuid.UUID{first.ID})
}

func repeatsDeleted(h *harness) {
	first := h.fail(0)
	h.fail(0)
	check.NoError(h, h.Repository.Delete(h.Context(), first.ID, entity.By("ops")))
	second := h.fail(0)
	h.wantRepeats(second.ID, entity.Repeats{})
	h.fail(0)
	h.wantStored(deadLetter, []uuid.UUID{second.ID})
	h.wantRepeats(second.ID, repeatAt(0, 3))
}

func repeatsWithin(h *harness) {
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, 0, 3, failed, digested)
	other := h.message(failed, func(m *entity.Message) { m.Source, *m.Origin.Offset = b.Messages[2].Source, 6 }, digested)
	b.Messages[2].Source.Offset, other.Source.Offset = 3, 2
	b.Messages = []entity.Message{b.Messages[0], b.Messages[1], other, b.Messages[2]}
	b.Ranges[0].To = 4
	h.arrive(b)
	h.wantStored(deadLetter, []uuid.UUID{b.Messages[0].ID, other.ID})
	h.wantPosition(s, 4)
	h.wantRepeats(other.ID, entity.Repeats{})
	h.wantRepeats(b.Messages[0].ID, entity.Repeats{Count: 2, Positions: []entity.RepeatPosition{{Offset: 3}, {Offset: 1}}})
}

func repeatsAcross(h *harness) {
	b := join(h.fails(0), h.fails(1), h.fails(2, func(m *entity.Message) { *m.Origin.Offset = 6 }), h.fails(3))
	h.arrive(b)
	got := h.list(deadLetter, repository.Page{Number: 1, Size: 10}).Messages
	check.Require(h, len(got) == 2, "%d messages, want 2", len(got))
	check.Same(h, got[0].Repeats.Count+got[1].Repeats.Count, 2, "repeats")
	for part := range int32(4) {
		h.wantPosition(h.open(deadLetter, 0, part), 1)
	}
}

func repeatsRedelivered(h *harness) {
	first := h.fail(0)
	b := h.fails(0)
	h.arrive(b)
	for range 2 {
		h.store(b, 0)
	}
	h.wantRepeats(first.ID, repeatAt(0, 1))
	h.wantStored(deadLetter, []uuid.UUID{first.ID})
}

func repeatsStale(h *harness) {
	first := h.fail(0)
	stale := h.fails(0)
	stale.Ranges[0].From, stale.Ranges[0].To, stale.Messages[0].Source.Offset = 7, 8, 7
	fresh := h.fails(1)
	h.store(join(stale, fresh), 1)
	h.wantRepeats(first.ID, repeatAt(1, 0))
	h.wantStored(deadLetter, []uuid.UUID{first.ID})
}

func repeatsPositions(h *harness) {
	first := h.fail(0)
	s := h.open(deadLetter, 0, 0)
	for range 2 {
		from := h.position(s, 0)
		h.arrive(h.batch(s, from, 70, failed, digested))
	}
	got := h.get(first.ID).Repeats
	check.Require(h, got.Count == 140 && len(got.Positions) == entity.MaxRepeatPositions, "%d repeats, %d positions", got.Count, len(got.Positions))
	for i, at := range got.Positions {
		check.Same(h, at, entity.RepeatPosition{Offset: int64(140 - i)}, "position %d", i)
	}
}

// repeatAtOnce stores an equal dead letter of each partition at the same time.
func (h *harness) repeatAtOnce(stores int) {
	h.Helper()
	batches := make([]repository.Batch, stores)
	for i := range batches {
		batches[i] = h.fails(int32(i + 1))
	}
	together(stores, func(i int) {
		stored, err := h.Repository.Store(h.Context(), batches[i])
		check.True(h, err == nil && len(stored.Ranges) == 1, "Store = %+v, %v", stored, err)
	})
}

func repeatsAtOnce(h *harness) {
	const stores = 8
	h.repeatAtOnce(stores)
	got := h.list(deadLetter, repository.Page{Number: 1, Size: stores}).Messages
	check.Require(h, len(got) == 1, "%d messages, want 1", len(got))
	check.Same(h, got[0].Repeats.Count, stores-1, "repeats")
	check.Len(h, got[0].Repeats.Positions, stores-1, "positions")
}

func repeatsAtOnceFinal(h *harness) {
	const stores = 8
	first := h.fail(0)
	h.attempt(first.ID, entity.Acknowledged)
	h.clock.Advance(time.Second)
	h.repeatAtOnce(stores)
	got := h.list(deadLetter, repository.Page{Number: 1, Size: stores}).Messages
	check.Require(h, len(got) == 2, "%d messages, want 2", len(got))
	check.True(h, got[0].Repeats.Of == first.ID && got[0].Repeats.Count == stores-1, "the newer message has the repeats %+v", got[0].Repeats)
}

func repeatsNoReturn(h *harness) {
	first := h.fail(0)
	h.attempt(first.ID, entity.Acknowledged)
	b := h.fails(0)
	returns := h.arrive(b)
	h.wantNoReturn(returns, b.Messages, first.ID)
	h.wantRepeats(b.Messages[0].ID, entity.Repeats{Of: first.ID})
}

// repeatOfFinal stores a message, brings it to a final status, and stores a repeat of it, which it returns.
func (h *harness) repeatOfFinal() entity.Message {
	h.Helper()
	first := h.fail(0)
	h.attempt(first.ID, entity.Acknowledged)
	return h.fail(0)
}

func repeatsNotDue(h *harness) {
	repeat := h.repeatOfFinal()
	other := h.put()
	h.wantDue(orders, other.ID)
	c := h.claim(repeat.ID)
	r := result(c, entity.Failed)
	h.finishAll(r)
	h.clock.Advance(time.Hour)
	h.wantDue(orders, other.ID)
	check.True(h, h.get(repeat.ID).NextAttemptAt.IsZero(), "a failed repeat has a time at which it is retried")
	h.attempt(repeat.ID, entity.Rejected)
	check.Must(h.Repository.Requeue(h.Context(), repeat.ID, entity.By("ops")))(h)
	check.True(h, h.get(repeat.ID).NextAttemptAt.IsZero(), "a requeued repeat has a time at which it is retried")
	h.wantDue(orders, other.ID)
}

func repeatsLeftOut(h *harness) {
	repeat := h.repeatOfFinal()
	other := h.put()
	reasons := map[string]int{entity.ReasonRepeat: 1}
	h.wantIDs("retry of a topic", h.leased(h.create(retryAll()).ID), []uuid.UUID{other.ID})
	if h.core {
		return
	}
	h.wantSelected("retry of a topic", retryAll(), reasons, other.ID)
	h.wantSelected("retry of ids", retryAll(func(n *repository.NewRedrive) {
		n.Selection = entity.Selection{IDs: []uuid.UUID{repeat.ID, other.ID}}
	}), reasons, other.ID)
	found := h.survey(retryAll())
	check.True(h, len(found) == 2 && found[0].Messages+found[1].Messages == 2 &&
		(found[0].Reason == entity.ReasonRepeat) != (found[1].Reason == entity.ReasonRepeat), "the dry run counts %+v", found)
	h.wantSelected("deletion", retryAll(func(n *repository.NewRedrive) {
		n.Action, n.Selection.Statuses = entity.RedriveDelete, []entity.Status{entity.Pending}
	}), nil, repeat.ID, other.ID)
}
