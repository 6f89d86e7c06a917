package repositorytest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func topicSummariesPromises() []promise {
	return []promise{
		{"TellWhatThereIs", summariesTell},
		{"AreSeenByTopics", summariesVisible},
		{"LeaveOutWhatIsEmpty", summariesEmpty},
		{"ComeInPagesByTheBytesOfTheirNames", summariesPaged},
		{"ConsumerGroupsAreBounded", summariesGroups},
		{"TotalsCountOtherTopicsTogether", summariesTotals},
		{"IngestPositionsAreOfPresentLives", summariesPositions},
	}
}

func (h *harness) wantSummaries(visible *entity.TopicPatterns, want ...repository.TopicSummary) {
	h.Helper()
	got := check.Must(h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{Visible: visible}))(h)
	check.Require(h, len(got) == len(want), "TopicSummaries are %+v, want %+v", got, want)
	for i := range got {
		check.Same(h, got[i], want[i], "TopicSummaries")
	}
}

// storedIn sets the dead-letter topic and the offset of a message.
func (h *harness) storedIn(topic string, offset int64) func(*entity.Message) {
	return func(m *entity.Message) { m.Source = h.source(topic, offset) }
}

func summariesTell(h *harness) {
	h.wantSummaries(nil)
	h.in(entity.Resolved)
	first := h.in(entity.Pending)
	h.in(entity.Pending, h.storedIn("z.dlq", 1))
	h.in(entity.Retrying)
	last := h.in(entity.Dead, h.storedIn("a.dlq", 1))
	byHand := h.put(ofTopic("payments"), func(m *entity.Message) { m.Source = entity.Source{} })
	unknown := h.put(ofTopic(""))
	h.saveGroups(repository.TopicGroup{Topic: original, Group: "shipping"}, repository.TopicGroup{Topic: original, Group: "billing"},
		repository.TopicGroup{Topic: "nobody", Group: "billing"})
	h.configure(repository.TopicGroup{Topic: original, Group: "Configured"}, repository.TopicGroup{Topic: original, Group: "billing"})
	pending := map[entity.Status]int64{entity.Pending: 1}
	h.wantSummaries(nil,
		repository.TopicSummary{
			Topic: "", DLQTopics: []string{deadLetter}, Counts: pending, OldestPending: unknown.CreatedAt, LastSeen: unknown.CreatedAt,
		},
		repository.TopicSummary{
			Topic: original, DLQTopics: []string{"a.dlq", deadLetter, "z.dlq"},
			Counts:        map[entity.Status]int64{entity.Pending: 2, entity.Retrying: 1, entity.Resolved: 1, entity.Dead: 1},
			OldestPending: first.CreatedAt, LastSeen: last.CreatedAt, ConsumerGroups: []string{"Configured", "billing", "shipping"},
		},
		repository.TopicSummary{Topic: "payments", Counts: pending, OldestPending: byHand.CreatedAt, LastSeen: byHand.CreatedAt},
	)
}

func summariesVisible(h *harness) {
	orders := h.in(entity.Dead)
	h.put(ofTopic(""))
	h.clock.Advance(time.Minute)
	hidden := h.put(ofTopic(""), h.storedIn("eu.dlq", 1))
	h.clock.Advance(time.Minute)
	h.put(ofTopic(""))
	h.put(ofTopic("payments"), h.storedIn("eu.dlq", 2))
	dead := repository.TopicSummary{
		Topic: original, DLQTopics: []string{deadLetter}, Counts: map[entity.Status]int64{entity.Dead: 1}, LastSeen: orders.CreatedAt,
	}
	unknown := repository.TopicSummary{
		Topic: "", DLQTopics: []string{"eu.dlq"}, Counts: map[entity.Status]int64{entity.Pending: 1},
		OldestPending: hidden.CreatedAt, LastSeen: hidden.CreatedAt,
	}
	h.wantSummaries(h.visible(original), dead)
	h.wantSummaries(h.visible("eu.*", original), unknown, dead)
	h.wantSummaries(h.visible("nobody"))
	h.wantSummaries(&entity.TopicPatterns{})
}

func summariesEmpty(h *harness) {
	gone, archived := h.in(entity.Resolved), h.in(entity.Resolved, ofTopic("payments"))
	left := h.in(entity.Resolved, ofTopic("stock"))
	check.NoError(h, h.Repository.Delete(h.Context(), gone.ID, entity.By("alice")))
	h.Archive(h.T, archived.ID)
	h.wantSummaries(nil, repository.TopicSummary{
		Topic: "stock", DLQTopics: []string{deadLetter}, Counts: map[entity.Status]int64{entity.Resolved: 1}, LastSeen: left.CreatedAt,
	})
}

// summariesGroups: a summary contains only a limited number of consumer groups, because records may name any number of
// them.
func summariesGroups(h *harness) {
	const most = repository.MaxTopicGroups
	h.in(entity.Resolved)
	group := func(n int) repository.TopicGroup {
		return repository.TopicGroup{Topic: original, Group: fmt.Sprintf("group %03d", n)}
	}
	noted := func(from, to int) (groups []repository.TopicGroup) {
		for n := from; n < to; n++ {
			groups = append(groups, group(n))
		}
		return groups
	}
	h.configure(group(0))
	h.saveGroups(noted(0, 10)...)
	h.saveGroups(noted(5, most+20)...)
	h.saveGroups(noted(most+20, most+30)...)
	h.saveGroups(repository.TopicGroup{Topic: "payments", Group: billing})
	h.wantWatched(noted(0, most)...)
	got := check.Must(h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{}))(h)
	check.Require(h, len(got) == 1 && len(got[0].ConsumerGroups) == most,
		"TopicSummaries = %+v, want one topic with %d groups", got, most)
	configured := repository.TopicGroup{Topic: original, Group: "z configured"}
	h.configure(configured)
	got = check.Must(h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{}))(h)
	check.True(h, len(got) == 1 && len(got[0].ConsumerGroups) == most && got[0].ConsumerGroups[most-1] == configured.Group,
		"TopicSummaries = %+v, want %d groups, the configured one among them", got, most)
}

// summariesTotals: all topics that the caller does not name have one total together, except the unknown topic. So the
// answer stays small however many topics there are.
func summariesTotals(h *harness) {
	want := func(names []string, want ...repository.TopicTotal) {
		h.Helper()
		got := check.Must(h.Repository.TopicTotals(h.Context(), names))(h)
		check.True(h, reflect.DeepEqual(got, want) || len(got)+len(want) <= 0, "TopicTotals(%v) = %+v, want %+v", names, got, want)
	}
	want(nil)
	first := h.in(entity.Pending)
	h.in(entity.Pending)
	h.in(entity.Resolved)
	invented := h.in(entity.Pending, ofTopic("invented.1"))
	h.in(entity.Pending, ofTopic("invented.2"))
	h.in(entity.Dead, ofTopic("invented.3"))
	unknown := h.put(ofTopic(""))
	pending := func(n int64) map[entity.Status]int64 { return map[entity.Status]int64{entity.Pending: n} }
	none := repository.TopicTotal{Counts: pending(1), OldestPending: unknown.CreatedAt}
	orders := repository.TopicTotal{
		Topic: original, Counts: map[entity.Status]int64{entity.Pending: 2, entity.Resolved: 1}, OldestPending: first.CreatedAt,
	}
	want([]string{original, "nobody"}, none, orders, repository.TopicTotal{
		Others: true, Counts: map[entity.Status]int64{entity.Pending: 2, entity.Dead: 1}, OldestPending: invented.CreatedAt,
	})
	got, err := h.Repository.TopicTotals(h.Context(), nil)
	check.True(h, err == nil && len(got) == 5 && !got[4].Others, "TopicTotals = %+v, %v, want each topic by itself", got, err)
}

func summariesPositions(h *harness) {
	want := func(want ...repository.IngestPosition) {
		h.Helper()
		got := check.Must(h.Repository.IngestPositions(h.Context()))(h)
		check.True(h, reflect.DeepEqual(got, want) || len(got)+len(want) <= 0, "IngestPositions = %+v, want %+v", got, want)
	}
	want()
	a := h.open("b.dlq", 5, 1)
	h.open("b.dlq", 0, 0)
	h.position(stream{topic: "a.dlq", ref: h.topic("a.dlq", ""), part: 0}, 7)
	h.store(h.batch(a, 5, 3), 1)
	want(
		repository.IngestPosition{Topic: "a.dlq", Partition: 0, Next: 7},
		repository.IngestPosition{Topic: "b.dlq", TopicID: "life-1", Partition: 0, Next: 0},
		repository.IngestPosition{Topic: "b.dlq", TopicID: "life-1", Partition: 1, Next: 8},
	)
	h.position(stream{topic: "b.dlq", ref: h.topic("b.dlq", "life-2"), part: 0}, 2)
	want(
		repository.IngestPosition{Topic: "a.dlq", Partition: 0, Next: 7},
		repository.IngestPosition{Topic: "b.dlq", TopicID: "life-2", Partition: 0, Next: 2},
	)
}

func summariesPaged(h *harness) {
	names := []string{"", "B", "a", "a-b", "aa", "b"}
	for _, name := range names {
		h.put(ofTopic(name))
	}
	var got []string
	q := repository.TopicQuery{Limit: 2}
	for range len(names) {
		page := check.Must(h.Repository.TopicSummaries(h.Context(), q))(h)
		for _, t := range page {
			got = append(got, t.Topic)
		}
		if len(page) < q.Limit {
			break
		}
		q.After = &page[len(page)-1].Topic
	}
	check.Same(h, got, names, "topics by pages of two")
}

func topicsPromises() []promise {
	return []promise{
		{"NumbersAreStableAndInTheOrderAsked", topicsStable},
		{"NewLifeOfATopicKeepsItsName", topicsNewLife},
		{"TwoTopicsNeverShareAnIncarnation", topicsIncarnations},
		{"RepeatedInOneCallIsOne", topicsRepeated},
		{"ConcurrentCallersAgree", topicsConcurrent},
	}
}

func (h *harness) topics(topics ...repository.Topic) []repository.TopicRef {
	h.Helper()
	refs, err := h.Repository.OpenTopics(h.Context(), topics)
	check.Require(h, err == nil && len(refs) == len(topics), "OpenTopics(%v) = %v, %v, want %d", topics, refs, err, len(topics))
	return refs
}

func topicsStable(h *harness) {
	a, b, c := repository.Topic{Name: "a.dlq", Incarnation: "1"}, repository.Topic{Name: "b.dlq", Incarnation: "2"}, repository.Topic{Name: "c.dlq", Incarnation: "3"}
	first := h.topics(b, a)
	again := h.topics(a, c, b)
	check.True(h, again[0] == first[1] && again[2] == first[0],
		"OpenTopics(a, c, b) = %v after OpenTopics(b, a) = %v, want the same numbers in the order asked", again, first)
	for _, ref := range again {
		check.True(h, ref.TopicID != 0 && ref.Incarnation != 0, "OpenTopics gave %+v, want no zeros: they stand for none", ref)
	}
	if again[0].TopicID == again[1].TopicID || again[0].TopicID == again[2].TopicID || again[1].TopicID == again[2].TopicID {
		h.Errorf("OpenTopics(a, c, b) = %v, want three topics", again)
	}
	check.Len(h, h.topics(), 0, "OpenTopics()")
}

func topicsNewLife(h *harness) {
	old, recreated := h.topic("a.dlq", "1"), h.topic("a.dlq", "2")
	check.True(h, old.TopicID == recreated.TopicID && old.Incarnation != recreated.Incarnation,
		"lives 1 and 2 of a topic are %+v and %+v, want one topic and two incarnations", old, recreated)
	check.Same(h, h.topic("a.dlq", "1"), old, "life 1 is later")
}

// topicsIncarnations: a broker without topic ids gives every topic the same empty id. The store must give two such
// topics different incarnations.
func topicsIncarnations(h *harness) {
	refs := h.topics(repository.Topic{Name: "a.dlq"}, repository.Topic{Name: "b.dlq"})
	check.True(h, refs[0].Incarnation != refs[1].Incarnation && refs[0].TopicID != refs[1].TopicID,
		"two topics without ids are %+v, want different numbers", refs)
}

func topicsRepeated(h *harness) {
	a, b := repository.Topic{Name: "a.dlq", Incarnation: "1"}, repository.Topic{Name: "a.dlq", Incarnation: "2"}
	refs := h.topics(a, b, a, b)
	check.True(h, refs[0] == refs[2] && refs[1] == refs[3] && refs[0] != refs[1], "OpenTopics(a, b, a, b) = %v, want a b a b", refs)
}

func topicsConcurrent(h *harness) {
	a, b := repository.Topic{Name: "a.dlq", Incarnation: "1"}, repository.Topic{Name: "b.dlq", Incarnation: "1"}
	const callers = 16
	answers := make([][]repository.TopicRef, callers)
	together(callers, func(i int) {
		asked := []repository.Topic{a, b}
		if i%2 == 1 {
			asked = []repository.Topic{b, a}
		}
		refs, err := h.Repository.OpenTopics(h.Context(), asked)
		if err != nil || len(refs) != 2 {
			h.Errorf("OpenTopics = %v, %v, want two", refs, err)
			return
		}
		if i%2 == 1 {
			refs[0], refs[1] = refs[1], refs[0]
		}
		answers[i] = refs
	})
	for _, got := range answers[1:] {
		check.Same(h, got, answers[0], "answers of two callers")
	}
}
