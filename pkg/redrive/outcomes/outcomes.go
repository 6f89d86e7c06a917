// Package outcomes reads the committed offsets of consumer groups, to learn which of the records that were sent back
// have been consumed. It makes one request per consumer group, whatever the number of messages.
package outcomes

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Offsets reads the committed offsets of consumer groups from Kafka.
type Offsets interface {
	// Committed returns the committed offsets of a consumer group in the partitions of the topics. It leaves out
	// partitions in which the group has committed no offset.
	Committed(ctx context.Context, group string, topics []string) ([]repository.Committed, error)
}

// Store is the part of a repository that keeps outcomes.
type Store interface {
	Counts(ctx context.Context) ([]repository.Count, error)
	WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error)
	ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error
	SaveCommitted(ctx context.Context, offsets []repository.Committed) error
	Redirects(ctx context.Context) ([]entity.Redirect, error)
}

// jitter varies the interval, so that replicas that started together do not send their requests at the same time.
const jitter = 0.2

// Rule names the consumer group of topics whose dead letters name none.
type Rule struct {
	Topic string `mapstructure:"topic"` // pattern of original topics
	Group string `mapstructure:"group"`
}

// Config says how often, and for which consumer groups, committed offsets are read.
type Config struct {
	Interval time.Duration
	Rules    []Rule // for each topic the first matching rule is used
}

// Rules are parsed rules.
type Rules []rule

type rule struct {
	topics        deadletter.Patterns
	consumerGroup string
}

// ParseRules parses rules; its error names the setting.
func ParseRules(rules []Rule) (Rules, error) {
	parsed := make(Rules, len(rules))
	for i, r := range rules {
		if r.Group == "" {
			return nil, fmt.Errorf("consumer_groups[%d].group: must not be empty", i)
		}
		topics, err := deadletter.ParsePatterns(r.Topic)
		if err != nil {
			return nil, fmt.Errorf("consumer_groups[%d].topic: %w", i, err)
		}
		parsed[i] = rule{topics, r.Group}
	}
	return parsed, nil
}

// Tracker stores the committed offsets of consumer groups, from which the store derives the outcomes of sent records.
type Tracker struct {
	cfg   Config
	store Store
	log   *zap.Logger

	// last stored offset; the key is a partition and a consumer group, with offset 0
	saved      map[repository.Committed]int64
	configured []repository.TopicGroup
}

// New returns a Tracker. cfg must be valid. If store is nil, the Tracker does nothing.
func New(cfg Config, store Store, log *zap.Logger) *Tracker {
	return &Tracker{cfg: cfg, store: store, log: log, saved: map[repository.Committed]int64{}}
}

// Run reads committed offsets until ctx ends. It makes one request per consumer group, whatever the number of
// messages. With a store that keeps no outcomes it only waits for ctx.
func (t *Tracker) Run(ctx context.Context, offsets Offsets) {
	if t.store == nil {
		<-ctx.Done()
		return
	}
	rules, err := ParseRules(t.cfg.Rules)
	if err != nil { // cannot happen: Config.Validate checks the rules
		t.log.Error("consumer groups", zap.Error(err))
	}
	turns := wait.Backoff{Base: t.cfg.Interval, Max: t.cfg.Interval, Jitter: jitter}
	for out := new(outage.Log); wait.Sleep(ctx, turns.After(1, rand.Float64())); {
		err := t.followGroups(ctx, rules, offsets)
		out.Report(ctx, t.log, err, "cannot update outcomes", "outcomes are updated again")
	}
}

// followGroups makes one request for every consumer group of topics with sent records. When the offsets of one
// consumer group cannot be read, the other consumer groups are still followed.
func (t *Tracker) followGroups(ctx context.Context, rules Rules, offsets Offsets) error {
	redirects, err := t.store.Redirects(ctx)
	if err != nil {
		return fmt.Errorf("list redirects: %w", err)
	}
	if err := t.configureGroups(ctx, rules, redirects); err != nil {
		return err
	}
	watched, err := t.store.WatchedGroups(ctx)
	if err != nil {
		return fmt.Errorf("list consumer groups: %w", err)
	}
	watched = withTargets(watched, t.configured, redirects)
	topics := map[string][]string{}
	for _, w := range watched {
		topics[w.Group] = append(topics[w.Group], w.Topic)
	}
	var cause error
	for group, names := range topics {
		committed, err := offsets.Committed(ctx, group, names)
		if err != nil {
			// The error names a topic and not the consumer group, because the group's name may come from a masked
			// header.
			cause = fmt.Errorf("read the offsets of a consumer group of topic %s: %w", names[0], err)
			continue
		}
		if committed = t.progressOf(committed); len(committed) == 0 {
			continue
		}
		if err := t.store.SaveCommitted(ctx, committed); err != nil {
			return fmt.Errorf("save committed offsets: %w", err)
		}
		t.setSaved(committed)
	}
	return cause
}

// withTargets adds the consumer groups of the targets of redirects: the groups of the redirected topic, which read the
// target after a rename, and the groups that are configured for the target.
func withTargets(watched, configured []repository.TopicGroup, redirects []entity.Redirect) []repository.TopicGroup {
	all := slices.Clone(watched)
	for _, r := range redirects {
		for _, g := range watched {
			if g.Topic == r.Topic {
				all = append(all, repository.TopicGroup{Topic: r.Target, Group: g.Group})
			}
		}
		for _, g := range configured {
			if g.Topic == r.Target {
				all = append(all, g)
			}
		}
	}
	slices.SortFunc(all, func(a, b repository.TopicGroup) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Group, b.Group))
	})
	return slices.Compact(all)
}

// progressOf returns those committed offsets that are higher than the offsets that this process has already saved.
func (t *Tracker) progressOf(all []repository.Committed) []repository.Committed {
	return slices.DeleteFunc(all, func(c repository.Committed) bool {
		known, ok := t.saved[withoutOffset(c)]
		return ok && c.Offset <= known
	})
}

func (t *Tracker) setSaved(saved []repository.Committed) {
	for _, c := range saved {
		t.saved[withoutOffset(c)] = c.Offset
	}
}

// withoutOffset returns c with offset 0, so that it identifies only the partition and the consumer group.
func withoutOffset(c repository.Committed) repository.Committed {
	c.Offset = 0
	return c
}

// configureGroups applies the rules to the topics that have messages, and to the targets of their redirects, so that
// the consumer groups of a topic are shown even before a record was sent to it.
func (t *Tracker) configureGroups(ctx context.Context, rules Rules, redirects []entity.Redirect) error {
	counts, err := t.store.Counts(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var topics []string
	for _, c := range counts {
		if c.Messages > 0 && c.OriginalTopic != "" {
			topics = append(topics, c.OriginalTopic)
		}
	}
	for _, r := range redirects {
		if slices.Contains(topics, r.Topic) {
			topics = append(topics, r.Target)
		}
	}
	var groups []repository.TopicGroup
	for _, topic := range topics {
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.topics.Match(topic) }); i >= 0 {
			groups = append(groups, repository.TopicGroup{Topic: topic, Group: rules[i].consumerGroup})
		}
	}
	slices.SortFunc(groups, func(a, b repository.TopicGroup) int { return cmp.Compare(a.Topic, b.Topic) })
	groups = slices.Compact(groups)
	if t.configured != nil && slices.Equal(groups, t.configured) {
		return nil
	}
	if err := t.store.ConfigureGroups(ctx, groups); err != nil {
		return fmt.Errorf("configure groups: %w", err)
	}
	t.configured = append([]repository.TopicGroup{}, groups...)
	return nil
}
