package repositorytest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// mapPromises are about original topics that operators set.
func mapPromises() []promise {
	return []promise{
		{"SetsTheTopicAndSaysWhoKnowsIt", mapSets},
		{"TakesThePendingAndTheDead", mapStatuses},
		{"LeavesWhatItsOwnHeaderNames", mapHeaders},
		{"ReplacesWhatItsOwnHeaderNamesWhenItMay", mapOverHeader},
		{"ReplacesWhatWasGuessedOrSaidBefore", mapReplaces},
		{"IsInTheTrailFromTopicToTopic", mapAudit},
		{"TrailShowsTheLastError", mapAuditError},
		{"SameTopicAgainChangesNothing", mapAgain},
		{"SameOperationAgainCounts", mapOperation},
		{"TopicsThatNoneCanHaveAreInvalid", mapInvalid},
		{"NamedTwiceIsChangedOnce", mapTwice},
		{"UnknownIsLeftOut", mapUnknown},
		{"CountsMove", mapCounts},
		{"GroupIsWatchedForTheTopic", mapGroups},
		{"ReturnsAreOfTheTopicThatWasSet", mapReturns},
		{"EachMessageIsChangedByOneOfManyCallers", mapRace},
		{"SelectionTellsOfThoseWithAHeader", mapSelection},
		{"SelectionOfIDsTellsWhy", mapSelectionOfIDs},
		{"RedriveKeepsTheTopic", mapRedrive},
	}
}

func unknownOrigin(m *entity.Message) { m.OriginalTopic, m.Origin.Confidence = "", entity.FromNothing }

func (h *harness) mapTo(topic string, cause entity.Cause, ids ...uuid.UUID) []uuid.UUID {
	h.Helper()
	changed, err := h.Repository.Change(h.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: ids, OriginalTopic: topic,
	}, cause)
	if err != nil {
		h.Fatalf("Change(map to %s): %v", topic, err)
	}
	return changed
}

func mapSets(h *harness) {
	h.put(unknownOrigin)
	before := h.get(h.put(unknownOrigin).ID)
	h.clock.Advance(time.Minute)
	h.wantIDs("Change", h.mapTo("orders", entity.By("alice"), before.ID), []uuid.UUID{before.ID})
	got := h.get(before.ID)
	if got.OriginalTopic != "orders" || got.Origin.Confidence != entity.FromOperator {
		h.Errorf("original topic = %q by %s, want orders by operator", got.OriginalTopic, got.Origin.Confidence)
	}
	h.wantMoved(before, got)
	got.OriginalTopic, got.Origin.Confidence, got.UpdatedAt = before.OriginalTopic, before.Origin.Confidence, before.UpdatedAt
	if got.Status != before.Status || got.RetryCount != before.RetryCount || got.NextAttemptAt != before.NextAttemptAt ||
		got.Source != before.Source || got.LastRetryAt != before.LastRetryAt {
		h.Errorf("message became\n     %+v\nwant the rest as before, %+v", got, before)
	}
}

func mapStatuses(h *harness) {
	var all, want []uuid.UUID
	var rest []entity.Message
	for _, s := range entity.Statuses() {
		m := h.in(s, unknownOrigin)
		all = append(all, m.ID)
		if s == entity.Pending || s == entity.Dead {
			want = append(want, m.ID)
			continue
		}
		rest = append(rest, m)
	}
	doubtful := h.put(unknownOrigin)
	h.unsettleable(doubtful.ID)
	rest = append(rest, h.get(doubtful.ID))
	h.clock.Advance(time.Minute)
	h.wantSameIDs("Change", h.mapTo("orders", entity.By("alice"), append(all, doubtful.ID)...), want)
	for _, m := range rest {
		h.wantUnchanged(m)
	}
}

func mapHeaders(h *harness) {
	m := h.get(h.put().ID)
	if got := h.mapTo("elsewhere", entity.By("alice"), m.ID); len(got) != 0 {
		h.Errorf("Change = %v, want nothing", got)
	}
	h.wantUnchanged(m)
	h.wantEntries(m.ID)
}

func mapOverHeader(h *harness) {
	position := func(m *entity.Message) {
		m.Origin.Confidence, m.Origin.Partition, m.Origin.Offset = entity.FromHeader, new(int32(3)), new(int64(17))
	}
	over := func(id uuid.UUID, topic string) entity.Message {
		h.Helper()
		changed, err := h.Repository.Change(h.Context(), repository.Change{
			Action: entity.RedriveMap, IDs: []uuid.UUID{id}, OriginalTopic: topic, OverHeader: true,
		}, entity.By("alice"))
		if err != nil || len(changed) != 1 {
			h.Fatalf("Change(map to %s) = %v, %v, want the message", topic, changed, err)
		}
		got := h.get(id)
		if got.OriginalTopic != topic || got.Origin.Confidence != entity.FromOperator {
			h.Errorf("original topic = %q by %s, want %s by operator", got.OriginalTopic, got.Origin.Confidence, topic)
		}
		return got
	}
	if got := over(h.put(position).ID, "elsewhere"); got.Origin.Partition != nil || got.Origin.Offset != nil {
		h.Errorf("partition and offset of the header's topic are kept: %v, %v", got.Origin.Partition, got.Origin.Offset)
	}
	if got := over(h.put(position).ID, original); got.Origin.Partition == nil || *got.Origin.Partition != 3 || got.Origin.Offset == nil || *got.Origin.Offset != 17 {
		h.Errorf("partition and offset of the same topic are %v, %v, want 3 and 17", got.Origin.Partition, got.Origin.Offset)
	}
}

func mapReplaces(h *harness) {
	for _, c := range []entity.Confidence{entity.FromMapping, entity.FromName, entity.FromOperator} {
		m := h.put(func(m *entity.Message) { m.Origin.Confidence = c })
		h.wantIDs(string(c), h.mapTo("elsewhere", entity.By("alice"), m.ID), []uuid.UUID{m.ID})
		if got := h.get(m.ID); got.OriginalTopic != "elsewhere" || got.Origin.Confidence != entity.FromOperator {
			h.Errorf("%s: original topic = %q by %s, want elsewhere by operator", c, got.OriginalTopic, got.Origin.Confidence)
		}
	}
	named := h.put(func(m *entity.Message) { m.Origin.Confidence = entity.FromName })
	h.wantIDs("the same topic", h.mapTo(original, entity.By("alice"), named.ID), []uuid.UUID{named.ID})
	if got := h.get(named.ID).Origin.Confidence; got != entity.FromOperator {
		h.Errorf("confidence = %s, want operator", got)
	}
}

func mapAudit(h *harness) {
	long := strings.Repeat("t", entity.MaxTopic)
	m, cause := h.put(unknownOrigin), fullCause()
	h.mapTo(long, cause, m.ID)
	first := entity.AuditEntry{
		At: h.clock.Kept(), Action: entity.ActionMap, Kind: entity.KindMessage, ObjectID: m.ID, To: long, Cause: cause,
	}
	h.clock.Advance(time.Second)
	other := fullCause()
	h.mapTo("orders", other, m.ID)
	second := first
	second.At, second.From, second.To, second.Cause = h.clock.Kept(), long, "orders", other
	h.wantEntries(m.ID, first, second)
}

func mapAuditError(h *harness) {
	m := h.put(unknownOrigin)
	h.attempt(m.ID, entity.Failed)
	before := h.entriesOf(m.ID)
	h.clock.Advance(time.Second)
	h.mapTo("orders", entity.By("alice"), m.ID)
	want := withError(h.auditEntry(entity.ActionMap, m.ID, "", "orders", 1, entity.By("alice")))
	h.wantEntries(m.ID, append(before, want)...)
}

func mapAgain(h *harness) {
	m := h.put(unknownOrigin)
	h.mapTo("orders", entity.By("alice"), m.ID)
	before := h.get(m.ID)
	h.clock.Advance(time.Minute)
	h.wantIDs("a second Change", h.mapTo("orders", entity.By("bob"), m.ID), []uuid.UUID{m.ID})
	h.wantUnchanged(before)
	if got := len(h.entriesOf(m.ID)); got != 1 {
		h.Errorf("trail has %d entries, want 1", got)
	}
}

func mapOperation(h *harness) {
	m, cause := h.put(unknownOrigin), fullCause()
	h.mapTo("orders", cause, m.ID)
	h.attempt(m.ID, entity.Acknowledged)
	h.wantIDs("Change by the same operation", h.mapTo("orders", cause, m.ID), []uuid.UUID{m.ID})
	if got := h.mapTo("orders", fullCause(), m.ID); len(got) != 0 {
		h.Errorf("Change by another operation = %v, want nothing", got)
	}
}

func mapInvalid(h *harness) {
	m := h.put(unknownOrigin)
	for _, topic := range []string{"", ".", "a b", "a\x00", "ü", strings.Repeat("t", entity.MaxTopic+1)} {
		got, err := h.Repository.Change(h.Context(), repository.Change{
			Action: entity.RedriveMap, IDs: []uuid.UUID{m.ID}, OriginalTopic: topic,
		}, entity.By("alice"))
		if !errors.Is(err, entity.ErrInvalid) || len(got) != 0 {
			h.Errorf("Change(map to %.20q) = %v, %v, want ErrInvalid", topic, got, err)
		}
	}
	h.wantEntries(m.ID)
}

func mapTwice(h *harness) {
	m := h.put(unknownOrigin)
	h.wantIDs("Change", h.mapTo("orders", entity.By("alice"), m.ID, m.ID, m.ID), []uuid.UUID{m.ID})
	if got := len(h.entriesOf(m.ID)); got != 1 {
		h.Errorf("trail has %d entries, want 1", got)
	}
}

func mapUnknown(h *harness) {
	m := h.put(unknownOrigin)
	h.wantIDs("Change", h.mapTo("orders", entity.By("alice"), uuid.New(), m.ID, uuid.Nil), []uuid.UUID{m.ID})
	if got := h.mapTo("orders", entity.By("alice")); len(got) != 0 {
		h.Errorf("Change of nothing = %v, want nothing", got)
	}
}

func mapCounts(h *harness) {
	all := h.puts(3, unknownOrigin)
	h.mapTo("payments", entity.By("alice"), all[:2]...)
	counts, err := h.Repository.Counts(h.Context())
	want := []repository.Count{
		{OriginalTopic: "", Status: entity.Pending, Messages: 1}, {OriginalTopic: "payments", Status: entity.Pending, Messages: 2},
	}
	if err != nil || !slices.Equal(counts, want) {
		h.Errorf("Counts = %v, %v, want %v", counts, err, want)
	}
	list := h.list("payments", repository.Page{Number: 1, Size: 10})
	h.wantSameIDs("List", ids(list.Messages), all[:2])
}

func mapGroups(h *harness) {
	m := h.put(unknownOrigin, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
	none := h.put(unknownOrigin)
	h.mapTo("payments", entity.By("alice"), m.ID, none.ID)
	c := intent(m.ID)
	c.Topic = "payments"
	h.claimAll(c)
	h.finish(c, entity.Acknowledged)
	watched, err := h.Repository.WatchedGroups(h.Context())
	if want := []repository.TopicGroup{{Topic: "payments", Group: "billing"}}; err != nil || !slices.Equal(watched, want) {
		h.Errorf("WatchedGroups = %v, %v, want %v", watched, err, want)
	}
}

func mapReturns(h *harness) {
	messages, _ := h.arrives(1, unknownOrigin)
	h.mapTo("payments", entity.By("alice"), messages[0].ID)
	c := intent(messages[0].ID)
	c.Topic = "payments"
	h.claimAll(c)
	h.finish(c, entity.Acknowledged)
	h.clock.Advance(time.Second)
	child, got := h.arrives(1, func(m *entity.Message) { m.OriginalTopic = "payments" })
	h.wantReturn(got, child[0], messages[0].ID, 1)
}

// mapRace has callers name the same messages in opposite orders.
func mapRace(h *harness) {
	forth := h.puts(10, unknownOrigin)
	back := slices.Clone(forth)
	slices.Reverse(back)
	var mu sync.Mutex
	var changed []uuid.UUID
	together(6, func(i int) {
		got, err := h.Repository.Change(h.Context(), repository.Change{
			Action: entity.RedriveMap, IDs: [][]uuid.UUID{forth, back}[i%2], OriginalTopic: "payments",
		}, entity.By("alice"))
		if err != nil {
			h.Errorf("Change: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		changed = append(changed, got...)
	})
	if len(changed) != 6*len(forth) {
		h.Errorf("all callers changed %d messages, want %d each", len(changed), len(forth))
	}
	if got := len(h.trail(repository.TrailQuery{Action: entity.ActionMap})); got != len(forth) {
		h.Errorf("trail has %d entries, want %d", got, len(forth))
	}
}

func mapAll(changes ...func(*repository.NewRedrive)) repository.NewRedrive {
	return retryAll(append([]func(*repository.NewRedrive){func(n *repository.NewRedrive) {
		n.Action, n.Options.OriginalTopic, n.Selection.Topic = entity.RedriveMap, "payments", deadLetter
	}}, changes...)...)
}

func mapSelection(h *harness) {
	unknown, dead := h.put(unknownOrigin).ID, h.in(entity.Dead, unknownOrigin).ID
	h.in(entity.Resolved, unknownOrigin)
	h.in(entity.Retrying, unknownOrigin)
	guessed := h.put(func(m *entity.Message) { m.Origin.Confidence = entity.FromName }).ID
	h.put()
	h.in(entity.Dead)
	h.in(entity.Resolved)
	leftOut := map[string]int{repository.SkippedTaken: 1, repository.SkippedOriginKnown: 2}
	h.wantSelected("messages", mapAll(), leftOut, unknown, dead, guessed)
	h.wantSelected("all statuses", mapAll(func(n *repository.NewRedrive) { n.Selection.Statuses = entity.Statuses() }), map[string]int{
		repository.SkippedTaken: 1, repository.SkippedOriginKnown: 2, repository.SkippedNotRetryable: 2,
	}, unknown, dead, guessed)
}

func mapSelectionOfIDs(h *harness) {
	unknown, header := h.put(unknownOrigin).ID, h.put().ID
	resolved, claimed := h.in(entity.Resolved).ID, h.in(entity.Retrying, unknownOrigin).ID
	h.wantSelected("ids", mapAll(func(n *repository.NewRedrive) {
		n.Selection = entity.Selection{IDs: []uuid.UUID{header, unknown, resolved, claimed, uuid.New()}}
	}), map[string]int{
		repository.SkippedOriginKnown: 1, repository.SkippedNotRetryable: 1, repository.SkippedTaken: 1, repository.SkippedGone: 1,
	}, unknown)
}

func mapRedrive(h *harness) {
	h.put(unknownOrigin)
	r := h.create(mapAll())
	if r.Action != entity.RedriveMap || r.Options.OriginalTopic != "payments" || r.Counts.Waiting != 1 {
		h.Errorf("redrive = %s to %q of %d, want map to payments of 1", r.Action, r.Options.OriginalTopic, r.Counts.Waiting)
	}
}
