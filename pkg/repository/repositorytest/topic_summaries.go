package repositorytest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

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
	got, err := h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{Visible: visible})
	if err != nil {
		h.Fatalf("TopicSummaries: %v", err)
	}
	if len(got) != len(want) {
		h.Fatalf("TopicSummaries are %+v, want %+v", got, want)
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			h.Errorf("TopicSummaries has %+v, want %+v", got[i], want[i])
		}
	}
}

// storedIn has a message come from a dead-letter topic.
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
	h.noteGroups(repository.TopicGroup{Topic: original, Group: "shipping"}, repository.TopicGroup{Topic: original, Group: "billing"},
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
	if err := h.Repository.Delete(h.Context(), gone.ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.Archive(h.T, archived.ID)
	h.wantSummaries(nil, repository.TopicSummary{
		Topic: "stock", DLQTopics: []string{deadLetter}, Counts: map[entity.Status]int64{entity.Resolved: 1}, LastSeen: left.CreatedAt,
	})
}

// summariesGroups: records may name any number of consumer groups.
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
	h.noteGroups(noted(0, 10)...)
	h.noteGroups(noted(5, most+20)...)
	h.noteGroups(noted(most+20, most+30)...)
	h.noteGroups(repository.TopicGroup{Topic: "payments", Group: billing})
	h.wantWatched(noted(0, most)...)
	got, err := h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{})
	if err != nil || len(got) != 1 || len(got[0].ConsumerGroups) != most {
		h.Fatalf("TopicSummaries = %+v, %v, want one topic with %d groups", got, err, most)
	}
	configured := repository.TopicGroup{Topic: original, Group: "z configured"}
	h.configure(configured)
	got, err = h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{})
	if err != nil || len(got) != 1 || len(got[0].ConsumerGroups) != most || got[0].ConsumerGroups[most-1] != configured.Group {
		h.Errorf("TopicSummaries = %+v, %v, want %d groups, the configured one among them", got, err, most)
	}
}

// summariesTotals: the topics that are not named are one row, however many there are.
func summariesTotals(h *harness) {
	want := func(names []string, want ...repository.TopicTotal) {
		h.Helper()
		got, err := h.Repository.TopicTotals(h.Context(), names)
		if err != nil || !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			h.Errorf("TopicTotals(%v) = %+v, %v, want %+v", names, got, err, want)
		}
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
	if err != nil || len(got) != 5 || got[4].Others {
		h.Errorf("TopicTotals = %+v, %v, want each topic by itself", got, err)
	}
}

func summariesPositions(h *harness) {
	want := func(want ...repository.IngestPosition) {
		h.Helper()
		got, err := h.Repository.IngestPositions(h.Context())
		if err != nil || !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			h.Errorf("IngestPositions = %+v, %v, want %+v", got, err, want)
		}
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
		page, err := h.Repository.TopicSummaries(h.Context(), q)
		if err != nil {
			h.Fatalf("TopicSummaries: %v", err)
		}
		for _, t := range page {
			got = append(got, t.Topic)
		}
		if len(page) < q.Limit {
			break
		}
		q.After = &page[len(page)-1].Topic
	}
	if !slices.Equal(got, names) {
		h.Errorf("topics by pages of two are %q, want %q", got, names)
	}
}
