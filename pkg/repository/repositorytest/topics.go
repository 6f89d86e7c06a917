package repositorytest

import (
	"reflect"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

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
	if err != nil || len(refs) != len(topics) {
		h.Fatalf("OpenTopics(%v) = %v, %v, want %d", topics, refs, err, len(topics))
	}
	return refs
}

func topicsStable(h *harness) {
	a, b, c := repository.Topic{Name: "a.dlq", Incarnation: "1"}, repository.Topic{Name: "b.dlq", Incarnation: "2"}, repository.Topic{Name: "c.dlq", Incarnation: "3"}
	first := h.topics(b, a)
	again := h.topics(a, c, b)
	if again[0] != first[1] || again[2] != first[0] {
		h.Errorf("OpenTopics(a, c, b) = %v after OpenTopics(b, a) = %v, want the same numbers in the order asked", again, first)
	}
	for _, ref := range again {
		if ref.TopicID == 0 || ref.Incarnation == 0 {
			h.Errorf("OpenTopics gave %+v, want no zeros: they stand for none", ref)
		}
	}
	if again[0].TopicID == again[1].TopicID || again[0].TopicID == again[2].TopicID || again[1].TopicID == again[2].TopicID {
		h.Errorf("OpenTopics(a, c, b) = %v, want three topics", again)
	}
	if got := h.topics(); len(got) != 0 {
		h.Errorf("OpenTopics() = %v, want none", got)
	}
}

func topicsNewLife(h *harness) {
	old, recreated := h.topic("a.dlq", "1"), h.topic("a.dlq", "2")
	if old.TopicID != recreated.TopicID || old.Incarnation == recreated.Incarnation {
		h.Errorf("lives 1 and 2 of a topic are %+v and %+v, want one topic and two incarnations", old, recreated)
	}
	if got := h.topic("a.dlq", "1"); got != old {
		h.Errorf("life 1 is %+v later, want %+v", got, old)
	}
}

// topicsIncarnations has brokers that give no ids, so that all topics have the
// same one.
func topicsIncarnations(h *harness) {
	refs := h.topics(repository.Topic{Name: "a.dlq"}, repository.Topic{Name: "b.dlq"})
	if refs[0].Incarnation == refs[1].Incarnation || refs[0].TopicID == refs[1].TopicID {
		h.Errorf("two topics without ids are %+v, want different numbers", refs)
	}
}

func topicsRepeated(h *harness) {
	a, b := repository.Topic{Name: "a.dlq", Incarnation: "1"}, repository.Topic{Name: "a.dlq", Incarnation: "2"}
	refs := h.topics(a, b, a, b)
	if refs[0] != refs[2] || refs[1] != refs[3] || refs[0] == refs[1] {
		h.Errorf("OpenTopics(a, b, a, b) = %v, want a b a b", refs)
	}
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
		if !reflect.DeepEqual(got, answers[0]) {
			h.Errorf("one caller was told %v, another %v, want the same", got, answers[0])
		}
	}
}
