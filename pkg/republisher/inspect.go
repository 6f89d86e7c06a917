package republisher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// turnTimeout limits how long a caller waits for its turn, and inspectTimeout limits all requests of one inspection
	// together.
	turnTimeout    = time.Second
	inspectTimeout = 2 * time.Second

	// factsFresh is how long an answer of Kafka is cached. That there was no answer is cached too, so that not every
	// caller waits for an unreachable cluster.
	factsFresh = 5 * time.Second
)

// facts caches recent answers of Kafka. Only the caller that has acquired the turn sends requests. Other callers wait
// up to turnTimeout, and then use its answers.
type facts struct {
	turn    *semaphore.Weighted
	replays map[string]replayFact
	ends    map[broker.TopicPartition]endFact
}

type replayFact struct {
	health entity.ReplayHealth
	at     time.Time
}

// acquire waits, for at most turnTimeout, until no other caller asks Kafka for facts. It reports whether this caller
// may ask now.
func (f *facts) acquire(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	return f.turn.Acquire(ctx, 1) == nil
}

func newFacts() facts {
	return facts{turn: semaphore.NewWeighted(1), replays: map[string]replayFact{}, ends: map[broker.TopicPartition]endFact{}}
}

func fresh(at, now time.Time) bool { return now.Sub(at) < factsFresh }

// Inspect returns whether messages can be sent back to topics, by the rules of Plan, and the progress of the topics'
// consumer groups. The answers are in the order of questions. Inspect takes about three seconds at most. Answers that
// Kafka has not given by then are unknown; if nothing is known of the topic itself, the class is BROKER_UNAVAILABLE.
// Answers are up to five seconds old. For all topics together, each broker gets a few requests, and each consumer group
// one.
func (r *Republisher) Inspect(ctx context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth {
	answers := make([]entity.ReplayHealth, len(questions))
	if !r.facts.acquire(ctx) {
		for i, q := range questions {
			answers[i] = (&inspection{Republisher: r}).answer(q)
		}
		return answers
	}
	defer r.facts.turn.Release(1)
	r.learn(ctx, questions)
	for i, q := range questions {
		answers[i] = r.facts.replays[keyOf(q)].health
	}
	return answers
}

// keyOf returns the key under which the answer to a question is cached.
func keyOf(q entity.ReplayQuestion) string {
	return strings.Join(append([]string{q.Topic}, q.Groups...), "\x00")
}

// learn requests the facts that the cache lacks, and drops old ones. It continues when its caller's context ends,
// because other callers use the same answers.
func (r *Republisher) learn(ctx context.Context, questions []entity.ReplayQuestion) {
	now := r.now()
	for key, fact := range r.facts.replays {
		if !fresh(fact.at, now) {
			delete(r.facts.replays, key)
		}
	}
	var open []entity.ReplayQuestion
	for _, q := range questions {
		if _, known := r.facts.replays[keyOf(q)]; !known {
			open = append(open, q)
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTimeout)
	defer cancel()
	seen := r.inspect(ctx, open)
	for _, q := range open {
		r.facts.replays[keyOf(q)] = replayFact{seen.answer(q), now}
	}
}

// inspection holds Kafka's answers.
type inspection struct {
	*Republisher
	topics    map[string]broker.Topic
	ends      map[broker.TopicPartition]int64
	states    map[string]string // states of consumer groups; nil: not known
	committed map[string]commits
}

// commits are the committed offsets of a consumer group, or the error of the request for them.
type commits struct {
	offsets map[broker.TopicPartition]int64
	err     error
}

func (r *Republisher) inspect(ctx context.Context, questions []entity.ReplayQuestion) *inspection {
	seen := &inspection{Republisher: r, topics: map[string]broker.Topic{}, committed: map[string]commits{}}
	names := topicsOf(questions)
	if len(names) == 0 {
		return seen
	}
	topics, err := r.cluster.Topics(ctx, names...)
	if err != nil {
		return seen
	}
	for _, t := range topics {
		seen.topics[t.Name] = t
	}
	var others sync.WaitGroup
	consumerGroups := seen.partitionsOf(questions)
	others.Go(func() { seen.ends, _ = r.cluster.EndOffsets(ctx, everyPart(consumerGroups)) })
	others.Go(func() {
		if len(consumerGroups) > 0 {
			seen.states, _ = r.cluster.GroupStates(ctx)
		}
	})
	seen.committed = r.commitsOf(ctx, consumerGroups)
	others.Wait()
	return seen
}

func topicsOf(questions []entity.ReplayQuestion) []string {
	var names []string
	for _, q := range questions {
		if entity.ValidTopic(q.Topic) && !slices.Contains(names, q.Topic) {
			names = append(names, q.Topic)
		}
	}
	return names
}

// partitionsOf returns the partitions that each consumer group is expected to read.
func (s *inspection) partitionsOf(questions []entity.ReplayQuestion) map[string][]broker.TopicPartition {
	consumerGroups := map[string][]broker.TopicPartition{}
	for _, q := range questions {
		for _, group := range q.Groups {
			for _, p := range s.topics[q.Topic].Partitions {
				consumerGroups[group] = append(consumerGroups[group], broker.TopicPartition{Topic: q.Topic, Partition: p.ID})
			}
		}
	}
	return consumerGroups
}

func everyPart(consumerGroups map[string][]broker.TopicPartition) []broker.TopicPartition {
	seen := map[broker.TopicPartition]bool{}
	var all []broker.TopicPartition
	for _, parts := range consumerGroups {
		for _, tp := range parts {
			if !seen[tp] {
				seen[tp] = true
				all = append(all, tp)
			}
		}
	}
	return all
}

func (r *Republisher) commitsOf(ctx context.Context, consumerGroups map[string][]broker.TopicPartition) map[string]commits {
	found := make(map[string]commits, len(consumerGroups))
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for group, parts := range consumerGroups {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			var c commits
			c.offsets, c.err = r.offsetsOf(ctx, group, parts)
			mu.Lock()
			defer mu.Unlock()
			found[group] = c
		})
	}
	all.Wait()
	return found
}

// answer returns the replay health of the topic in a question.
func (s *inspection) answer(q entity.ReplayQuestion) entity.ReplayHealth {
	h := entity.ReplayHealth{Topic: q.Topic}
	err := s.topicRefusal(q.Topic)
	h.Allowed = err == nil
	topic, answered := s.topics[q.Topic]
	switch {
	case answered && topic.Err == nil:
		h.Exists = new(true)
	case answered && errors.Is(topic.Err, broker.ErrUnknownTopic):
		h.Exists = new(false)
	}
	if err == nil && !answered {
		err = &unavailableError{broker.ErrUnavailable}
	}
	if err == nil && topic.Err != nil {
		err = targetError(q.Topic, topic.Err)
	}
	h.Class, h.Reason = objection(err)
	for _, group := range q.Groups {
		h.Groups = append(h.Groups, s.group(q.Topic, group))
	}
	return h
}

// objection returns the class and the text of Plan's error for a topic.
func objection(err error) (class, reason string) {
	var refused *entity.RefusedError
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &refused):
		return string(refused.Class), refused.Reason
	default:
		return string(entity.BrokerUnavailable), "Kafka cannot be asked about the topic now"
	}
}

func (s *inspection) group(topic, group string) entity.GroupHealth {
	h := entity.GroupHealth{Group: group, State: entity.GroupUnknown, Lag: s.lag(topic, group), Partitions: s.partitions(topic, group)}
	if s.states == nil {
		return h
	}
	switch state := s.states[group]; {
	// Kafka may hide the group, because this user may not see it, so its state is unknown
	case state == "" && s.committed[group].err != nil:
	case !running(state):
		h.State = entity.GroupAbsent
	case h.Lag != nil && *h.Lag > 0:
		h.State = entity.GroupBehind
	default:
		h.State = entity.GroupRunning
	}
	return h
}

func (s *inspection) partitions(topic, group string) (list []entity.GroupPartition) {
	known := func(offsets map[broker.TopicPartition]int64, tp broker.TopicPartition) *int64 {
		if offset, ok := offsets[tp]; ok {
			return &offset
		}
		return nil
	}
	for _, p := range s.topics[topic].Partitions {
		tp := broker.TopicPartition{Topic: topic, Partition: p.ID}
		list = append(list, entity.GroupPartition{Partition: p.ID, Committed: known(s.committed[group].offsets, tp), End: known(s.ends, tp)})
	}
	slices.SortFunc(list, func(a, b entity.GroupPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	return list
}

// lag returns the number of offsets between the offsets that a consumer group has committed in a topic and the end
// offsets; nil when the consumer group has committed no offset, or when the end offset of a partition is not known.
func (s *inspection) lag(topic, group string) *int64 {
	var lag *int64
	for tp, offset := range s.committed[group].offsets {
		if tp.Topic != topic {
			continue
		}
		end, known := s.ends[tp]
		if !known {
			return nil
		}
		if lag == nil {
			lag = new(int64)
		}
		*lag += max(0, end-offset)
	}
	return lag
}

// Inspect says only whether retries may resolve messages. All else is unknown, because Kafka is not configured.
func (d *Disabled) Inspect(_ context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth {
	answers := make([]entity.ReplayHealth, len(questions))
	for i, q := range questions {
		answers[i] = entity.ReplayHealth{Topic: q.Topic, Allowed: !d.required}
		answers[i].Class, answers[i].Reason = objection(d.refusal())
		for _, group := range q.Groups {
			answers[i].Groups = append(answers[i].Groups, entity.GroupHealth{Group: group, State: entity.GroupUnknown})
		}
	}
	return answers
}
