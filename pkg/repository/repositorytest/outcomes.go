package repositorytest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func outcomePromises() []promise {
	return []promise{
		{"ConsumedWhenTheGroupHasPassedTheRecord", consumedPassed},
		{"OffsetOfTheRecordItselfIsNotBehindIt", consumedExact},
		{"ListTellsToo", consumedList},
		{"LoadAndClaimsDoNotTell", consumedElsewhere},
		{"OtherGroupTopicLifeOrPartitionTellsNothing", consumedOther},
		{"UnknownOffsetStaysPublished", consumedUnknownOffset},
		{"ConfiguredGroupTellsOfMessagesThatNameNone", consumedConfigured},
		{"NamedGroupWinsOverTheConfigured", consumedNamed},
		{"NotedGroupTellsNothingOfOthers", consumedSaved},
		{"ReturnedWins", consumedReturned},
		{"NothingSentIsNothingConsumed", consumedSkipped},
		{"CommittedOffsetNeverGoesBack", committedBack},
		{"GreatestOfACallCounts", committedTwice},
		{"WatchesNotedGroupsOfTopicsWithSentMessages", watchedSaved},
		{"WatchesConfiguredGroupsOfTopicsWithSentMessages", watchedConfigured},
		{"ConfiguringReplacesWhatWasSaidBefore", configuredReplaced},
	}
}

const billing = "billing"

// sentBy returns a message whose record an attempt has sent to offset 41 in partition 2 of its original topic. The
// given consumer group failed to process the message, and the original topic has the topic id in life.
func (h *harness) sentBy(group, life string) entity.Message {
	h.Helper()
	m := h.put(func(m *entity.Message) { m.Failure.ConsumerGroup = group })
	c := intent(m.ID)
	c.TopicID = life
	h.claimAll(c)
	h.acknowledge(c)
	return m
}

func committed(group string, offset int64) repository.Committed {
	return repository.Committed{
		TopicGroup: repository.TopicGroup{Topic: original, Group: group}, TopicID: "life-1", Partition: 2, Offset: offset,
	}
}

func (h *harness) saveCommitted(offsets ...repository.Committed) {
	h.Helper()
	check.NoError(h, h.Repository.SaveCommitted(h.Context(), offsets))
}

func (h *harness) saveGroups(groups ...repository.TopicGroup) {
	h.Helper()
	check.NoError(h, h.Repository.SaveConsumerGroups(h.Context(), groups))
}

func (h *harness) configure(groups ...repository.TopicGroup) {
	h.Helper()
	check.NoError(h, h.Repository.ConfigureGroups(h.Context(), groups))
}

func (h *harness) wantConsumed(id uuid.UUID, want entity.Consumption) {
	h.Helper()
	got := h.get(id)
	check.True(h, got.Outcome == entity.Consumed && got.Consumption != nil && *got.Consumption == want,
		"outcome is %q by %+v, want consumed by %+v", got.Outcome, got.Consumption, want)
}

func (h *harness) wantPublished(id uuid.UUID) {
	h.Helper()
	got := h.get(id)
	check.True(h, got.Outcome == entity.Published && got.Consumption == nil,
		"outcome is %q by %+v, want published without evidence", got.Outcome, got.Consumption)
}

func consumedPassed(h *harness) {
	m := h.sentBy(billing, "life-1")
	h.wantPublished(m.ID)
	h.saveCommitted(committed(billing, 42))
	seen := h.clock.Kept()
	h.clock.Advance(time.Hour)
	h.wantConsumed(m.ID, entity.Consumption{Group: billing, Offset: 42, SeenAt: seen})
}

func consumedExact(h *harness) {
	m := h.sentBy(billing, "life-1")
	h.saveCommitted(committed(billing, 41))
	h.wantPublished(m.ID)
	h.saveCommitted(committed(billing, 100))
	h.wantConsumed(m.ID, entity.Consumption{Group: billing, Offset: 100, SeenAt: h.clock.Kept()})
}

func consumedList(h *harness) {
	m, other := h.sentBy(billing, "life-1"), h.put()
	h.saveCommitted(committed(billing, 42))
	l := h.list(original, firstPage).Messages
	check.Require(h, len(l) == 2, "List has %d messages, want 2", len(l))
	check.True(h, l[0].ID == other.ID && l[0].Outcome == "" && l[0].Consumption == nil,
		"List shows %q by %+v for %s, want nothing", l[0].Outcome, l[0].Consumption, l[0].ID)
	want := entity.Consumption{Group: billing, Offset: 42, SeenAt: h.clock.Kept()}
	check.True(h, l[1].ID == m.ID && l[1].Outcome == entity.Consumed && l[1].Consumption != nil && *l[1].Consumption == want,
		"List shows %q by %+v for %s, want consumed by %+v", l[1].Outcome, l[1].Consumption, l[1].ID, want)
}

func consumedElsewhere(h *harness) {
	m := h.sentBy(billing, "life-1")
	h.saveCommitted(committed(billing, 42))
	loaded, _, err := h.Repository.Load(h.Context(), []uuid.UUID{m.ID}, 1<<20)
	check.True(h, err == nil && len(loaded) == 1 && loaded[0].Outcome == entity.Published,
		"Load = %+v, %v, want it published", loaded, err)
}

func consumedOther(h *harness) {
	m := h.sentBy(billing, "life-1")
	group, topic, life, part := committed("other", 99), committed(billing, 99), committed(billing, 99), committed(billing, 99)
	topic.Topic, life.TopicID, part.Partition = "elsewhere", "life-2", 3
	h.saveCommitted(group, topic, life, part)
	h.wantPublished(m.ID)
	none := h.sentBy(billing, "")
	h.wantPublished(none.ID)
	life.TopicID = ""
	h.saveCommitted(life)
	h.wantPublished(m.ID)
	h.wantConsumed(none.ID, entity.Consumption{Group: billing, Offset: 99, SeenAt: h.clock.Kept()})
}

func consumedUnknownOffset(h *harness) {
	m := h.put(func(m *entity.Message) { m.Failure.ConsumerGroup = billing })
	c := intent(m.ID)
	c.TopicID = "life-1"
	h.claimAll(c)
	r := result(c, entity.Acknowledged)
	r.Offset = -1
	h.finishAll(r)
	h.saveCommitted(committed(billing, 1000))
	h.wantPublished(m.ID)
}

func consumedConfigured(h *harness) {
	m := h.sentBy("", "life-1")
	h.saveCommitted(committed(billing, 42))
	h.wantPublished(m.ID)
	h.configure(repository.TopicGroup{Topic: "elsewhere", Group: billing})
	h.wantPublished(m.ID)
	var groups []repository.TopicGroup
	for _, group := range []string{"absent", "audit", billing} {
		groups = append(groups, repository.TopicGroup{Topic: original, Group: group})
	}
	h.configure(groups...)
	h.wantConsumed(m.ID, entity.Consumption{Group: billing, Offset: 42, SeenAt: h.clock.Kept()})
	h.saveCommitted(committed("audit", 60))
	h.wantConsumed(m.ID, entity.Consumption{Group: "audit", Offset: 60, SeenAt: h.clock.Kept()})
}

func consumedNamed(h *harness) {
	m := h.sentBy(billing, "life-1")
	h.configure(repository.TopicGroup{Topic: original, Group: "audit"})
	h.saveCommitted(committed("audit", 42))
	h.wantPublished(m.ID)
}

func consumedSaved(h *harness) {
	m := h.sentBy("", "life-1")
	h.saveGroups(repository.TopicGroup{Topic: original, Group: billing})
	h.saveCommitted(committed(billing, 42))
	h.wantPublished(m.ID)
}

func consumedReturned(h *harness) {
	m := h.put(func(m *entity.Message) { m.Failure.ConsumerGroup = billing })
	c := intent(m.ID)
	c.TopicID = "life-1"
	h.claimAll(c)
	h.acknowledge(c)
	h.saveCommitted(committed(billing, 42))
	h.comeBack(m.ID, c.ID)
	got := h.get(m.ID)
	check.True(h, got.Outcome == entity.Returned && got.Consumption == nil,
		"outcome is %q by %+v, want returned", got.Outcome, got.Consumption)
}

func consumedSkipped(h *harness) {
	m := h.put(func(m *entity.Message) { m.Failure.ConsumerGroup = billing })
	h.attempt(m.ID, entity.Skipped)
	h.saveCommitted(committed(billing, 42))
	got := h.get(m.ID)
	check.True(h, got.Outcome == "" && got.Consumption == nil, "outcome is %q by %+v, want none", got.Outcome, got.Consumption)
}

func committedBack(h *harness) {
	m := h.sentBy(billing, "life-1")
	h.saveCommitted(committed(billing, 50))
	want := entity.Consumption{Group: billing, Offset: 50, SeenAt: h.clock.Kept()}
	h.clock.Advance(time.Minute)
	h.saveCommitted(committed(billing, 50))
	h.saveCommitted(committed(billing, 3))
	h.wantConsumed(m.ID, want)
}

func committedTwice(h *harness) {
	m := h.sentBy(billing, "life-1")
	h.saveCommitted(committed(billing, 43), committed(billing, 45), committed(billing, 44))
	h.wantConsumed(m.ID, entity.Consumption{Group: billing, Offset: 45, SeenAt: h.clock.Kept()})
	h.saveCommitted()
}

func (h *harness) wantWatched(want ...repository.TopicGroup) {
	h.Helper()
	got, err := h.Repository.WatchedGroups(h.Context())
	check.True(h, err == nil && slices.Equal(got, want), "WatchedGroups = %+v, %v, want %+v", got, err, want)
}

func watchedSaved(h *harness) {
	a, b := repository.TopicGroup{Topic: original, Group: billing}, repository.TopicGroup{Topic: original, Group: "audit"}
	h.saveGroups(a, repository.TopicGroup{Topic: "elsewhere", Group: billing}, a)
	h.saveGroups(b)
	h.saveGroups()
	h.in(entity.Dead)
	h.in(entity.Pending)
	h.wantWatched()
	h.in(entity.Resolved)
	h.wantWatched(b, a)
}

func watchedConfigured(h *harness) {
	a := repository.TopicGroup{Topic: original, Group: billing}
	h.configure(a, a)
	h.in(entity.Pending)
	h.wantWatched()
	h.in(entity.Resolved)
	h.wantWatched(a)
}

func configuredReplaced(h *harness) {
	both, old, fresh := repository.TopicGroup{Topic: original, Group: "a"},
		repository.TopicGroup{Topic: original, Group: "b"}, repository.TopicGroup{Topic: original, Group: "c"}
	h.in(entity.Resolved)
	h.saveGroups(both)
	h.configure(both, old)
	h.wantWatched(both, old)
	h.configure(fresh)
	h.wantWatched(both, fresh)
	h.saveGroups(fresh)
	h.configure()
	h.wantWatched(both, fresh)

	m := h.sentBy("", "life-1")
	h.saveCommitted(committed("a", 42), committed("c", 42))
	h.wantPublished(m.ID) // the message stays published: the configuration no longer contains the group of this offset, although messages name it
	h.configure(fresh)
	h.wantConsumed(m.ID, entity.Consumption{Group: "c", Offset: 42, SeenAt: h.clock.Kept()})
}
