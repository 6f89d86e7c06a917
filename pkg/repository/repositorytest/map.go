package repositorytest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// mapPromises returns the promises about original topics that operators set.
func mapPromises() []promise {
	return []promise{
		{"SetsTheTopicAndSaysWhoKnowsIt", mapSets},
		{"TakesThePendingAndTheDead", mapStatuses},
		{"LeavesWhatItsOwnHeaderNames", mapHeaders},
		{"ReplacesWhatItsOwnHeaderNamesWhenItMay", mapOverHeader},
		{"KeepsAPositionThatNamesNoTopic", mapKeepsPosition},
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

func (h *harness) mapTo(topic string, cause entity.AuditInfo, ids ...uuid.UUID) []uuid.UUID {
	h.Helper()
	return check.Must(h.Repository.Change(h.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: ids, OriginalTopic: topic,
	}, cause))(h)
}

func mapSets(h *harness) {
	h.put(unknownOrigin)
	before := h.get(h.put(unknownOrigin).ID)
	h.clock.Advance(time.Minute)
	h.wantIDs("Change", h.mapTo("orders", entity.By("alice"), before.ID), []uuid.UUID{before.ID})
	got := h.get(before.ID)
	check.True(h, got.OriginalTopic == "orders" && got.Origin.Confidence == entity.FromOperator,
		"original topic = %q by %s, want orders by operator", got.OriginalTopic, got.Origin.Confidence)
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
	check.Len(h, h.mapTo("elsewhere", entity.By("alice"), m.ID), 0, "Change")
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
		check.Require(h, err == nil && len(changed) == 1, "Change(map to %s) = %v, %v, want the message", topic, changed, err)
		got := h.get(id)
		check.True(h, got.OriginalTopic == topic && got.Origin.Confidence == entity.FromOperator,
			"original topic = %q by %s, want %s by operator", got.OriginalTopic, got.Origin.Confidence, topic)
		return got
	}
	if got := over(h.put(position).ID, "elsewhere"); got.Origin.Partition != nil || got.Origin.Offset != nil {
		h.Errorf("partition and offset of the header's topic are kept: %v, %v", got.Origin.Partition, got.Origin.Offset)
	}
	if got := over(h.put(position).ID, original); got.Origin.Partition == nil || *got.Origin.Partition != 3 || got.Origin.Offset == nil || *got.Origin.Offset != 17 {
		h.Errorf("partition and offset of the same topic are %v, %v, want 3 and 17", got.Origin.Partition, got.Origin.Offset)
	}
}

// The position of a message whose original topic no header names belongs to whatever topic an operator sets, also when
// the operator corrects it.
func mapKeepsPosition(h *harness) {
	for _, c := range []entity.Confidence{entity.FromNothing, entity.FromName, entity.FromMapping} {
		m := h.put(func(m *entity.Message) {
			if c == entity.FromNothing {
				m.OriginalTopic = ""
			}
			m.Origin.Confidence, m.Origin.Partition, m.Origin.Offset = c, new(int32(0)), new(int64(7))
		})
		if got := h.get(m.ID).Origin; got.Partition == nil || got.Offset == nil {
			h.Errorf("%s: stored partition and offset are %v, %v", c, got.Partition, got.Offset)
		}
		for _, topic := range []string{"mistaken", "elsewhere"} {
			h.wantIDs(string(c), h.mapTo(topic, entity.By("alice"), m.ID), []uuid.UUID{m.ID})
			if got := h.get(m.ID).Origin; got.Partition == nil || *got.Partition != 0 || got.Offset == nil || *got.Offset != 7 {
				h.Errorf("%s: partition and offset after %s was set are %v, %v, want 0 and 7", c, topic, got.Partition, got.Offset)
			}
		}
	}
}

func mapReplaces(h *harness) {
	for _, c := range []entity.Confidence{entity.FromMapping, entity.FromName, entity.FromOperator} {
		m := h.put(func(m *entity.Message) { m.Origin.Confidence = c })
		h.wantIDs(string(c), h.mapTo("elsewhere", entity.By("alice"), m.ID), []uuid.UUID{m.ID})
		got := h.get(m.ID)
		check.True(h, got.OriginalTopic == "elsewhere" && got.Origin.Confidence == entity.FromOperator,
			"%s: original topic = %q by %s, want elsewhere by operator", c, got.OriginalTopic, got.Origin.Confidence)
	}
	named := h.put(func(m *entity.Message) { m.Origin.Confidence = entity.FromName })
	h.wantIDs("the same topic", h.mapTo(original, entity.By("alice"), named.ID), []uuid.UUID{named.ID})
	check.Same(h, h.get(named.ID).Origin.Confidence, entity.FromOperator, "confidence, want operator")
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
	check.Same(h, len(h.entriesOf(m.ID)), 1, "entries of the trail")
}

func mapOperation(h *harness) {
	m, cause := h.put(unknownOrigin), fullCause()
	h.mapTo("orders", cause, m.ID)
	h.attempt(m.ID, entity.Acknowledged)
	h.wantIDs("Change by the same operation", h.mapTo("orders", cause, m.ID), []uuid.UUID{m.ID})
	check.Len(h, h.mapTo("orders", fullCause(), m.ID), 0, "Change by another operation")
}

func mapInvalid(h *harness) {
	m := h.put(unknownOrigin)
	for _, topic := range []string{"", ".", "a b", "a\x00", "ü", strings.Repeat("t", entity.MaxTopic+1)} {
		got, err := h.Repository.Change(h.Context(), repository.Change{
			Action: entity.RedriveMap, IDs: []uuid.UUID{m.ID}, OriginalTopic: topic,
		}, entity.By("alice"))
		check.True(h, errors.Is(err, entity.ErrInvalid) && len(got) == 0,
			"Change(map to %.20q) = %v, %v, want ErrInvalid", topic, got, err)
	}
	h.wantEntries(m.ID)
}

func mapTwice(h *harness) {
	m := h.put(unknownOrigin)
	h.wantIDs("Change", h.mapTo("orders", entity.By("alice"), m.ID, m.ID, m.ID), []uuid.UUID{m.ID})
	check.Same(h, len(h.entriesOf(m.ID)), 1, "entries of the trail")
}

func mapUnknown(h *harness) {
	m := h.put(unknownOrigin)
	h.wantIDs("Change", h.mapTo("orders", entity.By("alice"), uuid.New(), m.ID, uuid.Nil), []uuid.UUID{m.ID})
	check.Len(h, h.mapTo("orders", entity.By("alice")), 0, "Change of nothing")
}

func mapCounts(h *harness) {
	all := h.puts(3, unknownOrigin)
	h.mapTo("payments", entity.By("alice"), all[:2]...)
	counts, err := h.Repository.Counts(h.Context())
	want := []repository.Count{
		{OriginalTopic: "", Status: entity.Pending, Messages: 1}, {OriginalTopic: "payments", Status: entity.Pending, Messages: 2},
	}
	check.True(h, err == nil && slices.Equal(counts, want), "Counts = %v, %v, want %v", counts, err, want)
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
	want := []repository.TopicGroup{{Topic: "payments", Group: "billing"}}
	check.True(h, err == nil && slices.Equal(watched, want), "WatchedGroups = %v, %v, want %v", watched, err, want)
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

// mapRace: when several callers set the original topic of the same messages at the same time, in opposite orders, each
// message is changed once, and every caller learns that the message has this topic.
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
		check.True(h, err == nil, "Change: %v", err)
		mu.Lock()
		defer mu.Unlock()
		changed = append(changed, got...)
	})
	check.True(h, len(changed) == 6*len(forth), "all callers changed %d messages, want %d each", len(changed), len(forth))
	check.Same(h, len(h.trail(repository.TrailQuery{Action: entity.ActionMap})), len(forth), "entries of the trail")
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
	check.True(h, r.Action == entity.RedriveMap && r.Options.OriginalTopic == "payments" && r.Counts.Waiting == 1,
		"redrive = %s to %q of %d, want map to payments of 1", r.Action, r.Options.OriginalTopic, r.Counts.Waiting)
}

func mappingPromises() []promise {
	return []promise{
		{"IsEmptyAtFirst", mappingEmpty},
		{"KeepsRulesInTheirOrder", mappingOrder},
		{"IsReplacedAsAWhole", mappingReplaced},
		{"OtherVersionIsAConflict", mappingConflict},
		{"SameOperationAgainIsNoConflict", mappingAgain},
		{"OneOfManyCallersWins", mappingRace},
		{"IsInTheTrailWithItsRules", mappingAudit},
		{"LongRulesAreCutOffInTheTrail", mappingLong},
		{"UnmappedAreTheMostFirst", unmappedOrder},
		{"UnmappedAreOnlyTheVisible", unmappedVisible},
		{"UnmappedGoWhenTheyAreMapped", unmappedMapped},
	}
}

func (h *harness) mapping() entity.Mapping {
	h.Helper()
	return check.Must(h.Repository.Mapping(h.Context()))(h)
}

func (h *harness) replace(expected int64, cause entity.AuditInfo, rules ...entity.TopicRule) entity.Mapping {
	h.Helper()
	return check.Must(h.Repository.ReplaceMapping(h.Context(), rules, expected, cause))(h)
}

func (h *harness) wantMapping(want entity.Mapping) {
	h.Helper()
	check.Same(h, h.mapping(), want, "Mapping")
}

var someRules = []entity.TopicRule{
	{Pattern: "*.dlq", Original: "$1"}, {Pattern: `^a"(\\.*)→$`, Original: "${1}"}, {Pattern: "*.dlq", Original: "again"},
}

func mappingEmpty(h *harness) { h.wantMapping(entity.Mapping{}) }

func mappingOrder(h *harness) {
	got := h.replace(0, entity.By("alice"), someRules...)
	want := entity.Mapping{Rules: someRules, Version: 1, UpdatedAt: h.clock.Kept(), UpdatedBy: "alice"}
	check.Same(h, got, want, "ReplaceMapping")
	h.wantMapping(want)
}

func mappingReplaced(h *harness) {
	h.replace(0, entity.By("alice"), someRules...)
	h.clock.Advance(time.Hour)
	h.replace(1, entity.By("bob"), someRules[1])
	h.wantMapping(entity.Mapping{Rules: someRules[1:2], Version: 2, UpdatedAt: h.clock.Kept(), UpdatedBy: "bob"})
	h.clock.Advance(time.Hour)
	h.replace(2, entity.By("carol"))
	h.wantMapping(entity.Mapping{Version: 3, UpdatedAt: h.clock.Kept(), UpdatedBy: "carol"})
}

func mappingConflict(h *harness) {
	h.replace(0, entity.By("alice"), someRules...)
	before := h.mapping()
	for _, expected := range []int64{0, 2, -1} {
		_, err := h.Repository.ReplaceMapping(h.Context(), someRules[:1], expected, fullCause())
		var conflict *entity.MappingConflictError
		check.True(h, errors.As(err, &conflict) && conflict.Version == 1 && errors.Is(err, entity.ErrConflict),
			"ReplaceMapping of version %d = %v, want a MappingConflictError with version 1", expected, err)
	}
	h.wantMapping(before)
	check.Same(h, len(h.trail(repository.TrailQuery{Kind: entity.KindMapping})), 1, "entries of the trail")
}

func mappingAgain(h *harness) {
	cause := fullCause()
	h.replace(0, cause, someRules...)
	check.Same(h, h.replace(0, cause, someRules...).Version, 1, "the same operation again = version")
	h.replace(1, entity.By("bob"))
	got := h.replace(0, cause, someRules...)
	check.True(h, got.Version == 2 && len(got.Rules) == 0, "the same operation later = %+v, want the present mapping", got)
	check.Same(h, len(h.trail(repository.TrailQuery{Kind: entity.KindMapping})), 2, "entries of the trail")
}

func mappingRace(h *harness) {
	var won atomic.Int64
	together(8, func(int) {
		_, err := h.Repository.ReplaceMapping(h.Context(), someRules, 0, fullCause())
		switch {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, entity.ErrConflict):
			h.Errorf("ReplaceMapping: %v, want ErrConflict", err)
		}
	})
	check.True(h, won.Load() == 1 && h.mapping().Version == 1,
		"%d callers won, version %d, want 1 and 1", won.Load(), h.mapping().Version)
}

func mappingAudit(h *harness) {
	cause := fullCause()
	h.replace(0, cause, someRules[0], entity.TopicRule{Pattern: "a", Original: "b"})
	h.clock.Advance(time.Second)
	h.replace(1, cause)
	got := h.trail(repository.TrailQuery{Kind: entity.KindMapping, Action: entity.ActionReplace})
	want := entity.AuditEntry{
		At: h.clock.Kept(), Action: entity.ActionReplace, Kind: entity.KindMapping, From: "1", To: "2", Cause: cause,
	}
	first := want
	first.At, first.From, first.To, first.LastError = want.At.Add(-time.Second), "0", "1", "*.dlq -> $1\na -> b"
	for i := range got {
		got[i].ID = 0
	}
	check.Same(h, got, []entity.AuditEntry{want, first}, "trail")
}

func mappingLong(h *harness) {
	var rules []entity.TopicRule
	for i := range 1000 {
		rules = append(rules, entity.TopicRule{Pattern: "topic" + strconv.Itoa(i), Original: strings.Repeat("t", 100)})
	}
	h.replace(0, entity.By("alice"), rules...)
	check.Same(h, len(h.mapping().Rules), 1000, "rules")
	got := h.trail(repository.TrailQuery{Kind: entity.KindMapping})[0].LastError
	check.True(h, len(got) <= 10_000 && strings.HasPrefix(got, "topic0 -> ttt") && strings.HasSuffix(got, "more"),
		"trail has %d bytes of rules, %.20q … %q, want some and how many more", len(got), got, got[max(0, len(got)-20):])
}

func (h *harness) wantUnmapped(visible *entity.TopicPatterns, want ...repository.UnmappedTopic) {
	h.Helper()
	got, err := h.Repository.Unmapped(h.Context(), visible)
	check.True(h, err == nil && slices.Equal(got, want), "Unmapped = %v, %v, want %v", got, err, want)
}

// from makes the given dead-letter topic and offset those of a message, whose original topic is unknown.
func (h *harness) from(topic string, offset int64) func(*entity.Message) {
	return func(m *entity.Message) {
		unknownOrigin(m)
		m.Source = h.source(topic, offset)
	}
}

func unmappedOrder(h *harness) {
	h.wantUnmapped(nil)
	h.put()
	h.put(h.from("b.dlq", 1))
	h.put(h.from("a.dlq", 1))
	h.in(entity.Dead, h.from("c.dlq", 1))
	h.put(h.from("c.dlq", 2))
	h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "", entity.Source{} })
	h.wantUnmapped(nil, repository.UnmappedTopic{DLQTopic: "c.dlq", Messages: 2}, repository.UnmappedTopic{Messages: 1},
		repository.UnmappedTopic{DLQTopic: "a.dlq", Messages: 1}, repository.UnmappedTopic{DLQTopic: "b.dlq", Messages: 1})
}

func unmappedVisible(h *harness) {
	h.put(h.from("a.dlq", 1))
	h.put(h.from("b.dlq", 1))
	h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "", entity.Source{} })
	some := check.Must(entity.ParseTopicPatterns("visible", "a.*", "c"))(h)
	h.wantUnmapped(&some, repository.UnmappedTopic{DLQTopic: "a.dlq", Messages: 1})
	h.wantUnmapped(&entity.TopicPatterns{})
}

func unmappedMapped(h *harness) {
	m := h.put(h.from("a.dlq", 1))
	gone := h.put(h.from("b.dlq", 1))
	h.mapTo("orders", entity.By("alice"), m.ID)
	check.NoError(h, h.Repository.Delete(h.Context(), gone.ID, entity.By("alice")))
	h.wantUnmapped(nil)
}
