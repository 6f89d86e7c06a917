package redrive

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Offsets asks Kafka how far consumer groups have come.
type Offsets interface {
	// Committed returns the group's commits for partitions of the topics, without those that have none.
	Committed(ctx context.Context, group string, topics []string) ([]repository.Committed, error)
}

// groupRule is a GroupRule that was understood.
type groupRule struct {
	topics deadletter.Patterns
	group  string
}

func parseGroups(rules []GroupRule) ([]groupRule, error) {
	parsed := make([]groupRule, len(rules))
	for i, r := range rules {
		if r.Group == "" {
			return nil, fmt.Errorf("consumer_groups[%d].group: must not be empty", i)
		}
		topics, err := deadletter.ParsePatterns(r.Topic)
		if err != nil {
			return nil, fmt.Errorf("consumer_groups[%d].topic: %w", i, err)
		}
		parsed[i] = groupRule{topics, r.Group}
	}
	return parsed, nil
}

// RunOutcomes asks for committed offsets until ctx ends, and returns then. It asks once a group, whatever the
// number of messages. With a store that keeps no outcomes it only waits.
func (s *Service) RunOutcomes(ctx context.Context, offsets Offsets) {
	if s.outcomes == nil {
		<-ctx.Done()
		return
	}
	rules, err := parseGroups(s.cfg.ConsumerGroups)
	if err != nil { // Config.Validate has refused it
		s.log.Error("consumer groups", zap.Error(err))
	}
	turns := wait.Backoff{Base: s.cfg.OutcomeInterval, Max: s.cfg.OutcomeInterval, Jitter: settleJitter}
	for out := new(outage.Log); wait.Sleep(ctx, turns.After(1, s.random())); {
		err := s.followGroups(ctx, rules, offsets)
		out.Report(ctx, s.log, err, "outcomes are not known at the moment", "outcomes are known again")
	}
}

// followGroups asks once for every group of topics with sent records. A failure does not stop the others.
func (s *Service) followGroups(ctx context.Context, rules []groupRule, offsets Offsets) error {
	if err := s.configureGroups(ctx, rules); err != nil {
		return err
	}
	watched, err := s.outcomes.WatchedGroups(ctx)
	if err != nil {
		return fmt.Errorf("look for groups: %w", err)
	}
	topics := map[string][]string{}
	for _, w := range watched {
		topics[w.Group] = append(topics[w.Group], w.Topic)
	}
	var cause error
	for group, names := range topics {
		committed, err := offsets.Committed(ctx, group, names)
		if err != nil {
			// The name of a group may come from a header that is masked.
			cause = fmt.Errorf("ask for the offsets of a consumer group of topic %s: %w", names[0], err)
			continue
		}
		if committed = s.progressOf(committed); len(committed) == 0 {
			continue
		}
		if err := s.outcomes.SaveCommitted(ctx, committed); err != nil {
			return fmt.Errorf("note committed offsets: %w", err)
		}
		s.remember(committed)
	}
	return cause
}

// progressOf leaves out what this process has noted before.
func (s *Service) progressOf(all []repository.Committed) []repository.Committed {
	return slices.DeleteFunc(all, func(c repository.Committed) bool {
		known, ok := s.committed[whereabouts(c)]
		return ok && c.Offset <= known
	})
}

func (s *Service) remember(noted []repository.Committed) {
	for _, c := range noted {
		s.committed[whereabouts(c)] = c.Offset
	}
}

// whereabouts is a committed offset without the offset.
func whereabouts(c repository.Committed) repository.Committed {
	c.Offset = 0
	return c
}

// configureGroups applies the rules to the topics that there are.
func (s *Service) configureGroups(ctx context.Context, rules []groupRule) error {
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return fmt.Errorf("look for topics: %w", err)
	}
	var groups []repository.TopicGroup
	for _, c := range counts {
		if c.Status != entity.Resolved || c.Messages == 0 {
			continue
		}
		for _, r := range rules {
			if r.topics.Match(c.OriginalTopic) {
				groups = append(groups, repository.TopicGroup{Topic: c.OriginalTopic, Group: r.group})
				break
			}
		}
	}
	slices.SortFunc(groups, func(a, b repository.TopicGroup) int { return cmp.Compare(a.Topic, b.Topic) })
	groups = slices.Compact(groups)
	if s.configured != nil && slices.Equal(groups, s.configured) {
		return nil
	}
	if err := s.outcomes.ConfigureGroups(ctx, groups); err != nil {
		return fmt.Errorf("configure groups: %w", err)
	}
	s.configured = append([]repository.TopicGroup{}, groups...)
	return nil
}
