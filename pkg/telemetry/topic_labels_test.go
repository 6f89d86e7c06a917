package telemetry

import (
	"fmt"
	"testing"
)

func TestTopicLabels(t *testing.T) {
	t.Parallel()
	want := func(l *TopicLabels, topic, want string) {
		t.Helper()
		if got := l.Label(topic); got != want {
			t.Errorf("the label of %q is %q, want %q", topic, got, want)
		}
	}
	t.Run("NamesOnlyTopicsThatExist", func(t *testing.T) {
		t.Parallel()
		l := NewTopicLabels()
		want(l, "orders", OtherTopics)
		l.SetTopics([]string{"orders"})
		want(l, "orders", "orders")
		want(l, "invented", OtherTopics)
		want(l, "", "")
		l.SetTopics([]string{"payments"})
		want(l, "orders", OtherTopics)
		want(l, "payments", "payments")
	})
	t.Run("NamesSoManyAtMost", func(t *testing.T) {
		t.Parallel()
		l := NewTopicLabels()
		var names []string
		for n := range MaxTopicLabels + 5 {
			names = append(names, fmt.Sprint("topic", n))
		}
		l.SetTopics(names)
		seen := map[string]bool{}
		for range 2 {
			for _, name := range names {
				seen[l.Label(name)] = true
			}
		}
		if len(seen) != MaxTopicLabels+1 || !seen[OtherTopics] {
			t.Errorf("%d labels are given, want %d and %q", len(seen), MaxTopicLabels, OtherTopics)
		}
	})
	t.Run("NamesAnyWithoutACluster", func(t *testing.T) {
		t.Parallel()
		l := NewTopicLabels()
		l.SetAny()
		want(l, "orders", "orders")
	})
}
