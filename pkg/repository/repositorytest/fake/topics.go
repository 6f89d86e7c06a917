package fake

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TopicSummaries implements repository.Topics.
func (s *Store) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	var topics []repository.TopicSummary
	err := s.Step(ctx, "summarise topics", func(now time.Time) error {
		found := map[string]*repository.TopicSummary{}
		for _, r := range s.Rows {
			m := &r.Message
			if q.Visible != nil && !q.Visible.Sees(m) || q.After != nil && m.OriginalTopic <= *q.After {
				continue
			}
			t := found[m.OriginalTopic]
			if t == nil {
				t = &repository.TopicSummary{Topic: m.OriginalTopic, Counts: map[entity.Status]int64{}}
				found[m.OriginalTopic] = t
			}
			summarise(t, m)
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if q.Limit > 0 && len(topics) == q.Limit {
				break
			}
			t := found[name]
			slices.Sort(t.DLQTopics)
			t.ConsumerGroups, t.AutoPause = s.consumerGroups(name), s.autoPause(name, now)
			topics = append(topics, *t)
		}
		return nil
	})
	return topics, err
}

func summarise(t *repository.TopicSummary, m *entity.Message) {
	t.Counts[m.Status]++
	if m.Source.Known() && !slices.Contains(t.DLQTopics, m.Source.Topic) {
		t.DLQTopics = append(t.DLQTopics, m.Source.Topic)
	}
	if m.Status == entity.Pending && (t.OldestPending.IsZero() || m.CreatedAt.Before(t.OldestPending)) {
		t.OldestPending = m.CreatedAt
	}
	if m.CreatedAt.After(t.LastSeen) {
		t.LastSeen = m.CreatedAt
	}
}

func (s *Store) consumerGroups(topic string) []string {
	var names []string
	for g := range s.groups {
		if g.Topic == topic {
			names = append(names, g.Group)
		}
	}
	configured := func(name string) bool { return s.groups[repository.TopicGroup{Topic: topic, Group: name}].configured }
	slices.SortFunc(names, func(a, b string) int {
		if configured(a) != configured(b) {
			return map[bool]int{true: -1, false: 1}[configured(a)]
		}
		return cmp.Compare(a, b)
	})
	names = names[:min(len(names), repository.MaxTopicGroups)]
	slices.Sort(names)
	return names
}

// TopicTotals implements repository.Topics. Totals are ordered by topic; the total of all other topics is the last.
func (s *Store) TopicTotals(ctx context.Context, names []string) ([]repository.TopicTotal, error) {
	all, err := s.TopicSummaries(ctx, repository.TopicQuery{})
	if err != nil {
		return nil, err
	}
	var totals []repository.TopicTotal
	others := repository.TopicTotal{Others: true, Counts: map[entity.Status]int64{}}
	for i, t := range all {
		if t.Topic == "" || slices.Contains(names, t.Topic) || names == nil && i < repository.MaxTotals {
			totals = append(totals, repository.TopicTotal{Topic: t.Topic, Counts: t.Counts, OldestPending: t.OldestPending})
			continue
		}
		for status, n := range t.Counts {
			others.Counts[status] += n
		}
		if first := t.OldestPending; !first.IsZero() && (others.OldestPending.IsZero() || first.Before(others.OldestPending)) {
			others.OldestPending = first
		}
	}
	if len(others.Counts) > 0 {
		totals = append(totals, others)
	}
	return totals, nil
}

// IngestPositions implements repository.Topics.
func (s *Store) IngestPositions(ctx context.Context) ([]repository.IngestPosition, error) {
	var positions []repository.IngestPosition
	err := s.Step(ctx, "read ingest positions", func(time.Time) error {
		present := map[string]int32{} // the present incarnation of a topic is the one with the highest number
		for topic, life := range s.Incarnations {
			present[topic.Name] = max(present[topic.Name], life)
		}
		topicIDs := map[int32]repository.Topic{}
		for topic, life := range s.Incarnations {
			if present[topic.Name] == life {
				topicIDs[life] = topic
			}
		}
		for p, next := range s.Positions {
			if topic, ok := topicIDs[p.Incarnation]; ok {
				positions = append(positions, repository.IngestPosition{
					Topic: topic.Name, TopicID: topic.Incarnation, Partition: p.Partition, Next: next,
				})
			}
		}
		slices.SortFunc(positions, repository.IngestPosition.Compare)
		return nil
	})
	return positions, err
}
