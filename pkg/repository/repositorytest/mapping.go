package repositorytest

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

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
	m, err := h.Repository.Mapping(h.Context())
	if err != nil {
		h.Fatalf("Mapping: %v", err)
	}
	return m
}

func (h *harness) replace(expected int64, cause entity.Cause, rules ...entity.TopicRule) entity.Mapping {
	h.Helper()
	m, err := h.Repository.ReplaceMapping(h.Context(), rules, expected, cause)
	if err != nil {
		h.Fatalf("ReplaceMapping(%d): %v", expected, err)
	}
	return m
}

func (h *harness) wantMapping(want entity.Mapping) {
	h.Helper()
	if got := h.mapping(); !reflect.DeepEqual(got, want) {
		h.Errorf("Mapping = %+v, want %+v", got, want)
	}
}

var someRules = []entity.TopicRule{
	{Pattern: "*.dlq", Original: "$1"}, {Pattern: `^a"(\\.*)→$`, Original: "${1}"}, {Pattern: "*.dlq", Original: "again"},
}

func mappingEmpty(h *harness) { h.wantMapping(entity.Mapping{}) }

func mappingOrder(h *harness) {
	got := h.replace(0, entity.By("alice"), someRules...)
	want := entity.Mapping{Rules: someRules, Version: 1, UpdatedAt: h.clock.Kept(), UpdatedBy: "alice"}
	if !reflect.DeepEqual(got, want) {
		h.Errorf("ReplaceMapping = %+v, want %+v", got, want)
	}
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
		if !errors.As(err, &conflict) || conflict.Version != 1 || !errors.Is(err, entity.ErrConflict) {
			h.Errorf("ReplaceMapping of version %d = %v, want a MappingConflictError with version 1", expected, err)
		}
	}
	h.wantMapping(before)
	if got := len(h.trail(repository.TrailQuery{Kind: entity.KindMapping})); got != 1 {
		h.Errorf("trail has %d entries, want 1", got)
	}
}

func mappingAgain(h *harness) {
	cause := fullCause()
	h.replace(0, cause, someRules...)
	if got := h.replace(0, cause, someRules...); got.Version != 1 {
		h.Errorf("the same operation again = version %d, want 1", got.Version)
	}
	h.replace(1, entity.By("bob"))
	if got := h.replace(0, cause, someRules...); got.Version != 2 || len(got.Rules) != 0 {
		h.Errorf("the same operation later = %+v, want the mapping as it is now", got)
	}
	if got := len(h.trail(repository.TrailQuery{Kind: entity.KindMapping})); got != 2 {
		h.Errorf("trail has %d entries, want 2", got)
	}
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
	if won.Load() != 1 || h.mapping().Version != 1 {
		h.Errorf("%d callers won, version %d, want 1 and 1", won.Load(), h.mapping().Version)
	}
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
	if !reflect.DeepEqual(got, []entity.AuditEntry{want, first}) {
		h.Errorf("trail =\n     %+v\nwant %+v", got, []entity.AuditEntry{want, first})
	}
}

func mappingLong(h *harness) {
	var rules []entity.TopicRule
	for i := range 1000 {
		rules = append(rules, entity.TopicRule{Pattern: "topic" + strconv.Itoa(i), Original: strings.Repeat("t", 100)})
	}
	h.replace(0, entity.By("alice"), rules...)
	if got := len(h.mapping().Rules); got != 1000 {
		h.Errorf("mapping has %d rules, want 1000", got)
	}
	got := h.trail(repository.TrailQuery{Kind: entity.KindMapping})[0].LastError
	if len(got) > 10_000 || !strings.HasPrefix(got, "topic0 -> ttt") || !strings.HasSuffix(got, "more") {
		h.Errorf("trail has %d bytes of rules, %.20q … %q, want some and how many more", len(got), got, got[max(0, len(got)-20):])
	}
}

func (h *harness) wantUnmapped(visible *entity.TopicPatterns, want ...repository.UnmappedTopic) {
	h.Helper()
	got, err := h.Repository.Unmapped(h.Context(), visible)
	if err != nil || !slices.Equal(got, want) {
		h.Errorf("Unmapped = %v, %v, want %v", got, err, want)
	}
}

// from is an unknown origin in a dead-letter topic.
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
	some, err := entity.ParseTopicPatterns("visible", "a.*", "c")
	if err != nil {
		h.Fatal(err)
	}
	h.wantUnmapped(&some, repository.UnmappedTopic{DLQTopic: "a.dlq", Messages: 1})
	h.wantUnmapped(&entity.TopicPatterns{})
}

func unmappedMapped(h *harness) {
	m := h.put(h.from("a.dlq", 1))
	gone := h.put(h.from("b.dlq", 1))
	h.mapTo("orders", entity.By("alice"), m.ID)
	if err := h.Repository.Delete(h.Context(), gone.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.wantUnmapped(nil)
}
