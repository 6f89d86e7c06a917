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

// Offsets reads the committed offsets of consumer groups from Kafka.
type Offsets interface {
	// Committed returns the group's committed offsets for partitions of the topics, omitting partitions without a commit.
	Committed(ctx context.Context, group string, topics []string) ([]repository.Committed, error)
}

// groupRule is a parsed GroupRule.
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

// RunOutcomes reads committed offsets until ctx ends. It makes one request per consumer group, whatever the number of
// messages. With a store that keeps no outcomes it only waits for ctx.
func (s *Service) RunOutcomes(ctx context.Context, offsets Offsets) {
	if s.outcomes == nil {
		<-ctx.Done()
		return
	}
	rules, err := parseGroups(s.cfg.ConsumerGroups)
	if err != nil { // cannot happen: Config.Validate checks the rules
		s.log.Error("consumer groups", zap.Error(err))
	}
	turns := wait.Backoff{Base: s.cfg.OutcomeInterval, Max: s.cfg.OutcomeInterval, Jitter: settleJitter}
	for out := new(outage.Log); wait.Sleep(ctx, turns.After(1, s.random())); {
		err := s.followGroups(ctx, rules, offsets)
		out.Report(ctx, s.log, err, "cannot update outcomes", "outcomes are updated again")
	}
}

// followGroups makes one request for every consumer group of topics with sent records. A failure does not stop the
// others.
func (s *Service) followGroups(ctx context.Context, rules []groupRule, offsets Offsets) error {
	if err := s.configureGroups(ctx, rules); err != nil {
		return err
	}
	watched, err := s.outcomes.WatchedGroups(ctx)
	if err != nil {
		return fmt.Errorf("list consumer groups: %w", err)
	}
	topics := map[string][]string{}
	for _, w := range watched {
		topics[w.Group] = append(topics[w.Group], w.Topic)
	}
	var cause error
	for group, names := range topics {
		committed, err := offsets.Committed(ctx, group, names)
		if err != nil {
			// The name of a consumer group may come from a header that is masked.
			cause = fmt.Errorf("read the offsets of a consumer group of topic %s: %w", names[0], err)
			continue
		}
		if committed = s.progressOf(committed); len(committed) == 0 {
			continue
		}
		if err := s.outcomes.NoteCommitted(ctx, committed); err != nil {
			return fmt.Errorf("save committed offsets: %w", err)
		}
		s.remember(committed)
	}
	return cause
}

// progressOf removes offsets that this process has saved before.
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

// whereabouts returns a committed offset without the number, as a map key.
func whereabouts(c repository.Committed) repository.Committed {
	c.Offset = 0
	return c
}

// configureGroups applies the rules to the topics that have resolved messages.
func (s *Service) configureGroups(ctx context.Context, rules []groupRule) error {
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
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
