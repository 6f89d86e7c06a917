package repositorytest

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// returnsPromises returns the promises about records that come back without the headers of dlq-manager, and about the
// returns by headers of the same attempts.
func returnsPromises() []promise {
	return []promise{
		{"SameKeyAndValueIsTheChild", returnsChild},
		{"WithoutAWindowNothingIsLookedFor", returnsOff},
		{"OlderThanTheWindowIsNoReturn", returnsWindow},
		{"OneReturnForAnAttempt", returnsOnce},
		{"LatestAttemptIsTheParent", returnsLatest},
		{"EqualMessagesOfABatchHaveParentsOfTheirOwn", returnsEqual},
		{"NeverAcrossTopics", returnsTopics},
		{"NeverForUnknownOrigins", returnsUnknown},
		{"NeverWithoutKeyOrValue", returnsEmpty},
		{"OtherBytesAreNoReturn", returnsOther},
		{"AttemptsThatSentNothingDoNotCount", returnsVerdicts},
		{"BeforeTheResultIsAReturn", returnsBeforeResult},
		{"BeforeTheResultOfAnEditedAttempt", returnsBeforeEditedResult},
		{"ClaimThatIsOlderThanTheWindowHasNoReturn", returnsOldClaim},
		{"ClaimHasOneReturn", returnsOnceBeforeResult},
		{"ResultThatNothingWasSentTakesItBack", returnsRefuted},
		{"HeadersOutlastAResultThatNothingWasSent", returnsHeadersNotRefuted},
		{"ReturnAndResultInAnyOrder", returnsRace},
		{"FromAnotherDeadLetterTopicChangesNoOutcome", returnsUnconfirmed},
		{"FromADeclaredDeadLetterTopicIsConfirmed", returnsDeclared},
		{"UnconfirmedLineEndsAtTheLimit", returnsUnconfirmedLine},
		{"ConfirmedParentGoesFirst", returnsConfirmedFirst},
		{"EqualMessagesOfSeveralDeadLetterTopics", returnsSeveralTopics},
		{"ForeignHeadersAreNotLookedFor", returnsForeign},
		{"AttemptThatHeadersNameIsTaken", returnsHeaders},
		{"AttemptNamedInTheSameBatchIsTaken", returnsSameBatch},
		{"AtTheLimitItArrivesDead", returnsLimit},
		{"LineEndsAtTheLimit", returnsLine},
		{"DeletedParentIsNone", returnsDeleted},
		{"StaleRangeReturnsNothing", returnsStale},
		{"ConcurrentReturnsOfOneAttempt", returnsConcurrent},
	}
}

const window = 24 * time.Hour

func keyed(key, value string) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Key, m.Record.Value = []byte(key), []byte(value) }
}

// arrives stores n messages at the end of a dead-letter topic and returns them, with the returns that Store found.
// Their key is "k" and their value "v", unless changes set other values.
func (h *harness) arrives(n int, changes ...func(*entity.Message)) ([]entity.Message, []repository.Arrival) {
	h.Helper()
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, h.position(s, 0), n, append([]func(*entity.Message){keyed("k", "v")}, changes...)...)
	b.ReturnWindow = window
	return b.Messages, h.arrive(b)
}

func (h *harness) arrive(b repository.Batch) []repository.Arrival {
	h.Helper()
	stored, err := h.Repository.Store(h.Context(), b)
	check.Require(h, err == nil && len(stored.Ranges) == len(b.Ranges), "Store = %+v, %v, want all of %+v", stored, err, b.Ranges)
	return stored.Returns
}

// sent stores a message that is no return, makes an acknowledged attempt on the message, and returns it.
func (h *harness) sent(changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	messages, returns := h.arrives(1, changes...)
	check.Require(h, len(returns) == 0, "Store found the returns %+v, want none", returns)
	h.clock.Advance(time.Second)
	h.attempt(messages[0].ID, entity.Acknowledged)
	h.clock.Advance(time.Second)
	return messages[0]
}

// wantReturn checks that Store has recognised exactly one return, by key and value, and that it is confirmed: the
// message child, whose parent is the message with the id parent. It also checks that the stored message names this
// parent.
func (h *harness) wantReturn(got []repository.Arrival, child entity.Message, parent uuid.UUID, count int) {
	h.Helper()
	check.Require(h, len(got) == 1, "Store found the returns %+v, want one", got)
	want := repository.Arrival{
		MessageID: child.ID, Parent: parent, Root: got[0].Root, Topic: child.OriginalTopic,
		RetryCount: count, MaxRetries: child.MaxRetries, Status: got[0].Status, ByContent: true,
		Confirmed: true,
	}
	check.Same(h, got[0], want, "Store")
	m := h.get(child.ID)
	if m.UnconfirmedReturn || m.Parent != parent || m.RetryCount != count || m.Root != want.Root || m.Status != want.Status {
		h.Errorf("child has parent %s, root %s, %d attempts, %s, want %s, %s, %d, %s",
			m.Parent, m.Root, m.RetryCount, m.Status, parent, want.Root, count, want.Status)
	}
	h.wantOutcome(parent, entity.Returned)
}

// wantNoReturn checks that none of the messages is a return, and that the outcome of parent is published.
func (h *harness) wantNoReturn(got []repository.Arrival, messages []entity.Message, parent uuid.UUID) {
	h.Helper()
	check.True(h, len(got) == 0, "Store found the returns %+v, want none", got)
	for _, m := range messages {
		h.wantForeign(h.get(m.ID))
	}
	h.wantOutcome(parent, entity.Published)
}

func returnsChild(h *harness) {
	m := h.sent()
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], m.ID, 1)
	check.True(h, got[0].Root == m.ID && got[0].Status == entity.Pending,
		"child has root %s and is %s, want %s, PENDING", got[0].Root, got[0].Status, m.ID)
}

func returnsOff(h *harness) {
	m := h.sent()
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, h.position(s, 0), 1, keyed("k", "v"))
	h.wantNoReturn(h.arrive(b), b.Messages, m.ID)
}

func returnsWindow(h *harness) {
	m := h.sent()
	h.clock.Advance(window)
	late, got := h.arrives(1)
	h.wantNoReturn(got, late, m.ID)

	h.attempt(late[0].ID, entity.Acknowledged)
	h.clock.Advance(window - time.Second)
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], late[0].ID, 1)
}

func returnsOnce(h *harness) {
	m := h.sent()
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], m.ID, 1)
	second, got := h.arrives(1)
	check.True(h, len(got) == 0, "Store found the returns %+v, want none: the attempt has one", got)
	h.wantForeign(h.get(second[0].ID))
}

func returnsLatest(h *harness) {
	pair, _ := h.arrives(2)
	h.attempt(pair[1].ID, entity.Acknowledged)
	h.clock.Advance(time.Minute)
	h.attempt(pair[0].ID, entity.Acknowledged)
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], pair[0].ID, 1)
	child, got = h.arrives(1)
	h.wantReturn(got, child[0], pair[1].ID, 1)
}

func returnsEqual(h *harness) {
	pair, _ := h.arrives(2)
	for _, m := range pair {
		h.clock.Advance(time.Minute)
		h.attempt(m.ID, entity.Acknowledged)
	}
	three, got := h.arrives(3)
	check.Require(h, len(got) == 2, "Store found the returns %+v, want two", got)
	h.wantReturn(got[:1], three[0], pair[1].ID, 1)
	h.wantReturn(got[1:], three[1], pair[0].ID, 1)
	h.wantForeign(h.get(three[2].ID))
}

func returnsTopics(h *harness) {
	m := h.sent()
	other, got := h.arrives(1, ofTopic("elsewhere"))
	h.wantNoReturn(got, other, m.ID)
}

func returnsUnknown(h *harness) {
	m, _ := h.arrives(1, ofTopic(""))
	c := intent(m[0].ID)
	c.Topic = ""
	h.claimAll(c)
	h.acknowledge(c)
	other, got := h.arrives(1, ofTopic(""))
	h.wantNoReturn(got, other, m[0].ID)
}

func returnsEmpty(h *harness) {
	for _, change := range []func(*entity.Message){
		func(m *entity.Message) { m.Record.Key = nil },
		func(m *entity.Message) { m.Record.Key = []byte{} },
		func(m *entity.Message) { m.Record.Value = nil },
		func(m *entity.Message) { m.Record.Value = []byte{} },
		func(m *entity.Message) {
			m.Record.State, m.Record.Value, m.Record.Size, m.Record.SHA256 = entity.ValueOverLimit, nil, 99, make([]byte, 32)
		},
	} {
		m := h.sent(change)
		again, got := h.arrives(1, change)
		h.wantNoReturn(got, again, m.ID)
	}
}

func returnsOther(h *harness) {
	m := h.sent()
	for _, change := range []func(*entity.Message){keyed("K", "v"), keyed("k", "v "), keyed("kv", ""), keyed("", "kv")} {
		other, got := h.arrives(1, change)
		h.wantNoReturn(got, other, m.ID)
	}
}

func returnsVerdicts(h *harness) {
	for _, v := range sentNothing {
		m, _ := h.arrives(1)
		h.attempt(m[0].ID, v)
		again, got := h.arrives(1)
		check.True(h, len(got) == 0, "after verdict %q Store found the returns %+v, want none", v, got)
		h.wantForeign(h.get(again[0].ID))
	}
	m, _ := h.arrives(1)
	r := result(h.claim(m[0].ID), entity.Acknowledged)
	r.Class = entity.AlreadyPublished
	h.finishAll(r)
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], m[0].ID, 1)
}

// sentNothing lists the verdicts which say that the record of an attempt is not in the target log.
var sentNothing = []entity.Verdict{
	entity.Skipped, entity.Failed, entity.Rejected, entity.Refused, entity.GivenBack, entity.Rescued,
}

func returnsBeforeResult(h *harness) {
	for _, first := range []entity.Verdict{entity.Acknowledged, entity.InDoubt} {
		m, _ := h.arrives(1)
		c := h.claim(m[0].ID)
		if first == entity.InDoubt {
			h.finish(c, first)
		}
		child, got := h.arrives(1)
		h.wantReturn(got, child[0], m[0].ID, 1)
		h.finish(c, entity.Acknowledged)
		h.wantStatus(m[0].ID, entity.Resolved)
		h.wantOutcome(m[0].ID, entity.Returned)
		h.clock.Advance(2 * window)
	}
}

func returnsBeforeEditedResult(h *harness) {
	m, _ := h.arrives(1)
	c := edited(m[0].ID, &entity.Edit{Topic: "orders.fixed", SetValue: true, Value: []byte("new")})
	c.Topic, c.SentHash = "orders.fixed", entity.RecordHash([]byte("k"), []byte("new"))
	h.claimAll(c)
	for _, changes := range [][]func(*entity.Message){
		{}, {ofTopic("orders.fixed")}, {keyed("k", "new")}, {ofTopic("orders.fixed"), keyed("other", "new")},
	} {
		other, got := h.arrives(1, changes...)
		check.True(h, len(got) == 0, "Store found the returns %+v, want none: the attempt sends another record", got)
		h.wantForeign(h.get(other[0].ID))
	}
	child, got := h.arrives(1, ofTopic("orders.fixed"), keyed("k", "new"))
	h.wantReturn(got, child[0], m[0].ID, 1)
}

func returnsOldClaim(h *harness) {
	m, _ := h.arrives(1)
	c := h.claim(m[0].ID)
	h.finish(c, entity.InDoubt)
	h.clock.Advance(window + time.Second)
	late, got := h.arrives(1)
	check.True(h, len(got) == 0, "Store found the returns %+v, want none", got)
	h.wantForeign(h.get(late[0].ID))
}

func returnsOnceBeforeResult(h *harness) {
	m, _ := h.arrives(1)
	c := h.claim(m[0].ID)
	two, got := h.arrives(2)
	h.wantReturn(got, two[0], m[0].ID, 1)
	h.finish(c, entity.Acknowledged)
	after, got := h.arrives(1)
	check.True(h, len(got) == 0, "Store found the returns %+v, want none: the attempt has one", got)
	h.wantForeign(h.get(two[1].ID))
	h.wantForeign(h.get(after[0].ID))
}

// returnsRefuted: while a message is claimed, a dead letter with the same key and value arrives, and counts as the
// return of the claim's attempt. When the attempt then ends without having sent its record, the outcome of the message
// must be removed again.
func returnsRefuted(h *harness) {
	for _, v := range sentNothing {
		m, _ := h.arrives(1)
		c := h.claim(m[0].ID)
		equal, got := h.arrives(1)
		h.wantReturn(got, equal[0], m[0].ID, 1)
		h.finish(c, v)
		h.wantOutcome(m[0].ID, "")
		if got := h.get(equal[0].ID); got.Parent != m[0].ID || got.RetryCount != 1 {
			h.Errorf("after verdict %q the child has parent %s, %d attempts, want %s, 1", v, got.Parent, got.RetryCount, m[0].ID)
		}
		if h.get(m[0].ID).Status == entity.Pending {
			h.clock.Advance(time.Minute)
			h.attempt(m[0].ID, entity.Acknowledged)
			h.wantOutcome(m[0].ID, entity.Published)
			child, got := h.arrives(1)
			h.wantReturn(got, child[0], m[0].ID, h.get(m[0].ID).RetryCount)
		}
		h.clock.Advance(2 * window)
	}
}

// returnsHeadersNotRefuted: a return by headers proves that the attempt sent its record, even when its result says that
// it sent nothing.
func returnsHeadersNotRefuted(h *harness) {
	m, _ := h.arrives(1)
	c := h.claim(m[0].ID)
	h.arrives(1, func(m *entity.Message) { m.Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID} })
	h.finish(c, entity.Rescued)
	h.wantOutcome(m[0].ID, entity.Returned)
}

// returnsRace sends records that always come back, until their lineages reach the retry limit. Each return is stored
// before the result of its attempt, after it, or at the same time.
func returnsRace(h *harness) {
	lines := 50
	if os.Getenv("DLQ_TEST_LONG") == "1" {
		lines = 1000
	}
	for when, order := range map[string]func(store, finish func()){
		"before": func(store, finish func()) { store(); finish() },
		"during": func(store, finish func()) { together(2, func(i int) { []func(){store, finish}[i]() }) },
		"after":  func(store, finish func()) { finish(); store() },
	} {
		for line := range lines {
			h.raceLine(fmt.Sprintf("%s %d", when, line), order)
		}
	}
}

func (h *harness) raceLine(key string, order func(store, finish func())) {
	h.Helper()
	h.clock.Advance(time.Second)
	change := keyed(key, "v")
	m, _ := h.arrives(1, change)
	s, root, parents := h.open(deadLetter, 0, 0), m[0].ID, []uuid.UUID{}
	for trip := 1; ; trip++ {
		parent := m[0].ID
		c := h.claim(parent)
		b := h.batch(s, h.position(s, 0), 1, change)
		b.ReturnWindow = window
		var got repository.Stored
		var stored, finished error
		order(
			func() { got, stored = h.Repository.Store(h.Context(), b) },
			func() {
				_, finished = h.Repository.Finish(h.Context(), []repository.Result{result(c, entity.Acknowledged)}, entity.By("alice"))
			},
		)
		check.Require(h, stored == nil && finished == nil, "%s: Store: %v, Finish: %v", key, stored, finished)
		h.wantReturn(got.Returns, b.Messages[0], parent, trip)
		check.Require(h, len(got.Returns) == 1 && got.Returns[0].Root == root,
			"%s, trip %d: Store found %+v, want one of root %s", key, trip, got.Returns, root)
		m, parents = b.Messages, append(parents, parent)
		if got.Returns[0].Status != entity.Dead {
			continue
		}
		check.Same(h, trip, entity.DefaultMaxRetries, "%s: DEAD after trips", key)
		break
	}
	for _, id := range parents {
		p := h.get(id)
		check.True(h, p.Status == entity.Resolved && p.Outcome == entity.Returned,
			"%s: parent is %s, outcome %q, want RESOLVED, returned", key, p.Status, p.Outcome)
	}
}

const foreign = "gamma.dlq.v1"

// arrivesIn stores one message, as the method arrives does, but in the given dead-letter topic. The parameter declared
// says whether this dead-letter topic is declared for the message's original topic.
func (h *harness) arrivesIn(topic string, declared bool, changes ...func(*entity.Message)) (entity.Message, []repository.Arrival) {
	h.Helper()
	s := h.open(topic, 0, 0)
	b := h.batch(s, h.position(s, 0), 1, append([]func(*entity.Message){keyed("k", "v")}, changes...)...)
	b.ReturnWindow, b.Declared = window, func(*entity.Message) bool { return declared }
	return b.Messages[0], h.arrive(b)
}

// wantUnconfirmed checks that Store found one return, which is unconfirmed, and that the stored message is this return.
func (h *harness) wantUnconfirmed(got []repository.Arrival, child entity.Message, parent uuid.UUID, count int) {
	h.Helper()
	check.Require(h, len(got) == 1 && got[0].MessageID == child.ID && got[0].Parent == parent && !got[0].Confirmed,
		"Store found the returns %+v, want %s, an unconfirmed one of %s", got, child.ID, parent)
	if m := h.get(child.ID); !m.UnconfirmedReturn || m.Parent != parent || m.RetryCount != count {
		h.Errorf("child has parent %s, %d attempts, unconfirmed: %v, want %s, %d, true", m.Parent, m.RetryCount, m.UnconfirmedReturn, parent, count)
	}
}

// returnsUnconfirmed: a producer may copy headers and contents of records to a dead-letter topic to which it may write.
// The message of such a record becomes only an unconfirmed return.
func returnsUnconfirmed(h *harness) {
	m, _ := h.arrives(1)
	c := intent(m[0].ID)
	c.RedriveID = h.create(retryAll()).ID
	h.claimAll(c)
	named := func(m *entity.Message) { m.Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID} }
	for _, forged := range [][]func(*entity.Message){{named}, {}} {
		child, got := h.arrivesIn(foreign, false, forged...)
		h.wantUnconfirmed(got, child, c.MessageID, 1)
	}
	h.finish(c, entity.Acknowledged)
	again, got := h.arrivesIn(foreign, false, named)
	h.wantUnconfirmed(got, again, c.MessageID, 1)
	once, got := h.arrivesIn(foreign, false)
	check.True(h, len(got) == 0, "Store found the returns %+v, want none: the attempt has an unconfirmed one", got)
	h.wantForeign(h.get(once.ID))
	h.wantOutcome(c.MessageID, entity.Published)
	check.Same(h, h.redrive(c.RedriveID).Counts.Returned, 0, "the redrive counts returns")

	child, got := h.arrives(1)
	h.wantReturn(got, child[0], c.MessageID, 1)
	check.Same(h, h.redrive(c.RedriveID).Counts.Returned, 1, "the redrive counts returns")
}

func returnsDeclared(h *harness) {
	m := h.sent()
	child, got := h.arrivesIn(foreign, true)
	h.wantReturn(got, child, m.ID, 1)

	second, _ := h.arrives(1, keyed("other", "v"))
	c := h.claim(second[0].ID)
	_, got = h.arrivesIn(foreign, true, func(m *entity.Message) { m.Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID} })
	check.True(h, len(got) == 1 && got[0].Confirmed && !got[0].ByContent,
		"Store found the returns %+v, want a confirmed one by headers", got)
	h.wantOutcome(c.MessageID, entity.Returned)
}

func returnsUnconfirmedLine(h *harness) {
	m, _ := h.arrives(1)
	last := m[0]
	for trip := 1; trip <= entity.DefaultMaxRetries; trip++ {
		h.clock.Advance(time.Minute)
		h.attempt(last.ID, entity.Acknowledged)
		parent := last.ID
		var got []repository.Arrival
		last, got = h.arrivesIn(fmt.Sprintf("hop-%d.dlq.v1", trip), false)
		h.wantUnconfirmed(got, last, parent, trip)
		h.wantOutcome(parent, entity.Published)
	}
	h.wantStatus(last.ID, entity.Dead)
}

// returnsConfirmedFirst: two attempts sent the same record. The later attempt is on a message in another dead-letter
// topic, so a return of this attempt would be unconfirmed. The return must belong to the earlier attempt, for which it
// is confirmed.
func returnsConfirmedFirst(h *harness) {
	m := h.sent()
	other, _ := h.arrivesIn(foreign, false, func(m *entity.Message) { m.Return = &entity.Return{} })
	h.attempt(other.ID, entity.Acknowledged)
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], m.ID, 1)
}

func returnsSeveralTopics(h *harness) {
	m := h.sent()
	var b repository.Batch
	for _, topic := range []string{foreign, "delta.dlq.v1", deadLetter} {
		s := h.open(topic, 0, 0)
		part := h.batch(s, h.position(s, 0), 1, keyed("k", "v"))
		b.Ranges, b.Messages = append(b.Ranges, part.Ranges...), append(b.Messages, part.Messages...)
	}
	b.ReturnWindow = window
	got := h.arrive(b)
	check.True(h, len(got) == 2 && got[0].Confirmed != got[1].Confirmed,
		"Store found the returns %+v, want a confirmed and an unconfirmed one", got)
	child := h.get(b.Messages[2].ID)
	check.True(h, child.Parent == m.ID && !child.UnconfirmedReturn,
		"the return in the parent's topic has parent %s, unconfirmed: %v", child.Parent, child.UnconfirmedReturn)
	h.wantOutcome(m.ID, entity.Returned)
}

// returnsForeign: a message whose Return names an attempt that does not exist is no return, because its headers were
// copied from another record.
func returnsForeign(h *harness) {
	m := h.sent()
	said, got := h.arrives(1, func(c *entity.Message) { c.Return = &entity.Return{Parent: m.ID, Attempt: uuid.New()} })
	h.wantNoReturn(got, said, m.ID)
}

func returnsHeaders(h *harness) {
	m, _ := h.arrives(1)
	c := h.claim(m[0].ID)
	say := func(m *entity.Message) { m.Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID} }
	first, got := h.arrives(1, say)
	check.True(h, len(got) == 1 && !got[0].ByContent && got[0].Parent == c.MessageID,
		"Store found %+v, want the return by headers", got)
	h.finish(c, entity.Acknowledged)
	second, got := h.arrives(1)
	check.True(h, len(got) == 0, "Store found %+v, want none: the attempt has a return", got)
	h.wantForeign(h.get(second[0].ID))

	// When an attempt already has a return, a further dead letter becomes its return only if the record's headers name
	// the attempt.
	third, got := h.arrives(1, say)
	check.True(h, len(got) == 1 && h.get(third[0].ID).Parent == c.MessageID && h.get(first[0].ID).Parent == c.MessageID,
		"Store found %+v, want another child of %s", got, c.MessageID)
}

func returnsSameBatch(h *harness) {
	m, _ := h.arrives(1)
	c := h.claim(m[0].ID)
	h.finish(c, entity.Acknowledged)
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, h.position(s, 0), 3, keyed("k", "v"))
	b.ReturnWindow = window
	for _, i := range []int{1, 2} {
		b.Messages[i].Return = &entity.Return{Parent: c.MessageID, Attempt: c.ID}
	}
	got := h.arrive(b)
	check.True(h, len(got) == 2 && got[0].MessageID == b.Messages[1].ID && got[1].MessageID == b.Messages[2].ID,
		"Store found %+v, want those with headers, %s and %s", got, b.Messages[1].ID, b.Messages[2].ID)
	h.wantForeign(h.get(b.Messages[0].ID))
}

func returnsLimit(h *harness) {
	m := h.sent(func(m *entity.Message) { m.MaxRetries = 1 })
	child, got := h.arrives(1, func(m *entity.Message) { m.MaxRetries = 1 })
	h.wantReturn(got, child[0], m.ID, 1)
	check.Same(h, got[0].Status, entity.Dead, "status of the child")
}

// returnsLine: a consumer that always fails and drops all headers must not cause endless retries. The lineage of its
// record ends with a DEAD message at the retry limit.
func returnsLine(h *harness) {
	m, _ := h.arrives(1)
	root := m[0].ID
	for trip := 1; trip <= 10; trip++ {
		h.clock.Advance(time.Minute)
		h.attempt(m[0].ID, entity.Acknowledged)
		child, got := h.arrives(1)
		h.wantReturn(got, child[0], m[0].ID, trip)
		check.Same(h, got[0].Root, root, "trip %d has root", trip)
		if m = child; got[0].Status == entity.Dead {
			check.Same(h, trip, entity.DefaultMaxRetries, "dead after round trips")
			return
		}
	}
	h.Error("it goes round for ever")
}

func returnsDeleted(h *harness) {
	m := h.sent()
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	child, got := h.arrives(1)
	check.True(h, len(got) == 0, "Store found %+v, want none", got)
	h.wantForeign(h.get(child[0].ID))
}

func returnsStale(h *harness) {
	m := h.sent()
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, 99, 1, keyed("k", "v"))
	b.ReturnWindow = window
	stored, err := h.Repository.Store(h.Context(), b)
	check.True(h, err == nil && len(stored.Ranges) == 0 && len(stored.Returns) == 0, "Store = %+v, %v, want nothing", stored, err)
	h.wantOutcome(m.ID, entity.Published)
	child, got := h.arrives(1)
	h.wantReturn(got, child[0], m.ID, 1)
}

// returnsConcurrent: dead letters with the same key and value are stored from several partitions at the same time. Each
// attempt that sent such a record must get exactly one of them as its return.
func returnsConcurrent(h *harness) {
	const attempts, callers = 3, 8
	sent, _ := h.arrives(attempts)
	for _, m := range sent {
		h.clock.Advance(time.Second)
		h.attempt(m.ID, entity.Acknowledged)
	}
	batches := make([]repository.Batch, callers)
	for i := range batches {
		batches[i] = h.batch(h.open(deadLetter, 0, int32(i+1)), 0, 1, keyed("k", "v"))
		batches[i].ReturnWindow = window
	}
	var mu sync.Mutex
	var parents []uuid.UUID
	together(callers, func(i int) {
		stored, err := h.Repository.Store(h.Context(), batches[i])
		check.True(h, err == nil && len(stored.Ranges) == 1, "Store = %+v, %v, want it stored", stored, err)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range stored.Returns {
			parents = append(parents, a.Parent)
		}
	})
	h.wantSameIDs("parents", parents, ids(sent))
	children := 0
	for _, b := range batches {
		if m := h.get(b.Messages[0].ID); m.Parent != uuid.Nil {
			children++
			check.True(h, slices.Contains(ids(sent), m.Parent), "child has parent %s, want one of %v", m.Parent, ids(sent))
		}
	}
	check.Same(h, children, attempts, "children: one for each attempt")
}
