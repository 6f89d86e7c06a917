package sharegroup

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// ErrNotKnown means that the cluster does not show at present that a share group may have written a dead letter. The
// cluster may show it later, for example after the first consumer of a new group has joined.
var ErrNotKnown = errors.New("not confirmed by the cluster")

// Cluster is the part of Kafka that a Watcher reads; its methods behave like those of broker.Cluster.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	ShareGroups(ctx context.Context) ([]broker.ShareGroup, error)
	ShareOffsets(ctx context.Context, group string) (map[broker.TopicPartition]broker.ShareOffset, error)
	TopicConfigs(ctx context.Context, topics []string, settings ...string) (map[string]map[string]string, error)
	BrokerConfigs(ctx context.Context, settings ...string) ([]map[string]string, error)
	Feature(ctx context.Context, name string) (int16, error)
}

const (
	// interval is the pause between two reads of the groups and their offsets.
	interval = 5 * time.Second
	// settingsInterval is the pause between two reads of the configurations of brokers and topics. This pause is longer
	// than interval, because a cluster has many topics. The configurations are also read when a group was added,
	// removed or changed; those of topics that refuse dead letters are read at every interval.
	settingsInterval = time.Minute
)

// Watcher follows the share groups of a cluster. It is safe for concurrent use.
type Watcher struct {
	cluster Cluster
	topics  entity.TopicPatterns
	log     *zap.Logger
	current atomic.Pointer[Snapshot]

	first    chan struct{} // closed after the first successful call of look
	answered chan struct{} // closed after the first call of look that succeeded or that the cluster refused for a missing permission
	ready    sync.Once
	answer   sync.Once

	// Only Run uses the fields below.
	settings   settings
	settingsAt time.Time
	read       []broker.ShareGroup
}

// NewWatcher returns a Watcher of the groups whose dead-letter topic matches topics. Its snapshot contains no group
// until Run has read the cluster.
func NewWatcher(cluster Cluster, topics entity.TopicPatterns, log *zap.Logger) *Watcher {
	w := &Watcher{cluster: cluster, topics: topics, log: log, first: make(chan struct{}), answered: make(chan struct{})}
	w.current.Store(&Snapshot{})
	return w
}

// Snapshot returns the last snapshot.
func (w *Watcher) Snapshot() *Snapshot { return w.current.Load() }

// IsDeadLetterTopic is Snapshot.IsDeadLetterTopic of the last snapshot.
func (w *Watcher) IsDeadLetterTopic(topic string) bool { return w.Snapshot().IsDeadLetterTopic(topic) }

// IsRead is Snapshot.IsRead of the last snapshot.
func (w *Watcher) IsRead(topic string) bool { return w.Snapshot().IsRead(topic) }

// IsReserved is Snapshot.IsReserved of the last snapshot.
func (w *Watcher) IsReserved(topic string) bool { return w.Snapshot().IsReserved(topic) }

// IsShareGroup reports whether the group is a share group with a dead-letter topic.
func (w *Watcher) IsShareGroup(group string) bool { return w.Snapshot().Group(group) != nil }

// CheckPointer is Snapshot.CheckPointer of the last snapshot.
func (w *Watcher) CheckPointer(dlqTopic, group string, at broker.TopicPartition) error {
	return w.Snapshot().CheckPointer(dlqTopic, group, at)
}

// Declaration is Snapshot.Declaration of the last snapshot.
func (w *Watcher) Declaration(dlqTopic, original string) entity.Declaration {
	return w.Snapshot().Declaration(dlqTopic, original)
}

// Ready returns a channel that is closed when the groups, their offsets and the settings have been read completely for
// the first time.
func (w *Watcher) Ready() <-chan struct{} { return w.first }

// Answered returns a channel that is closed when the groups have been read completely once, or when the cluster has
// refused a request because a permission is missing: waiting does not help then.
func (w *Watcher) Answered() <-chan struct{} { return w.answered }

// Run reads the groups again and again until ctx ends. While the cluster does not answer, the last snapshot stays.
func (w *Watcher) Run(ctx context.Context) {
	for out := new(outage.Log); ctx.Err() == nil; wait.Sleep(ctx, interval) {
		err := w.look(ctx)
		if err == nil {
			w.ready.Do(func() { close(w.first) })
		}
		if err == nil || errors.Is(err, broker.ErrUnauthorized) {
			w.answer.Do(func() { close(w.answered) })
		}
		out.Report(ctx, w.log, err, "share groups cannot be read; what is known of them stays", "share groups are read again")
	}
}

// look reads the groups and their offsets and, less often, the settings of topics and brokers. It stores a snapshot
// with the former offsets before it reads the new offsets, because it may have to wait for the coordinator of a group
// that does not answer.
func (w *Watcher) look(ctx context.Context) error {
	groups, err := w.cluster.ShareGroups(ctx)
	if err != nil {
		return err
	}
	var failed error
	if !slices.Equal(groups, w.read) || time.Since(w.settingsAt) >= settingsInterval {
		if failed = w.readSettings(ctx); failed == nil {
			w.read, w.settingsAt = groups, time.Now()
		}
	}
	failed = cmp.Or(w.readRefusing(ctx, groups), failed)
	before := w.Snapshot()
	s := w.snapshotOf(groups, func(g broker.ShareGroup) map[broker.TopicPartition]broker.ShareOffset {
		if known := before.Group(g.Name); known != nil && known.ShareGroup == g {
			return known.Offsets
		}
		return nil
	})
	w.current.Store(s)
	if !slices.EqualFunc(before.groups, s.groups, func(a, b Group) bool { return a.ShareGroup == b.ShareGroup }) {
		names := slices.Sorted(maps.Keys(s.named))
		w.log.Info("share groups with dead-letter topics", zap.Int("groups", len(s.groups)), zap.Strings("topics", names[:min(len(names), 20)]))
	}
	offsets, err := w.readOffsets(ctx, s.groups)
	w.current.Store(w.snapshotOf(groups, func(g broker.ShareGroup) map[broker.TopicPartition]broker.ShareOffset { return offsets[g.Name] }))
	return cmp.Or(err, failed)
}

// snapshotOf returns a snapshot of the groups, each with the offsets that offsetsOf returns for it.
func (w *Watcher) snapshotOf(groups []broker.ShareGroup, offsetsOf func(broker.ShareGroup) map[broker.TopicPartition]broker.ShareOffset) *Snapshot {
	s := &Snapshot{named: map[string][]int{}, read: map[string]bool{}, enabled: w.settings.enabled(), prefixes: w.settings.guardedPrefixes(), settings: w.settings}
	for topic := range s.enabled {
		if w.topics.Match(topic) {
			s.read[topic] = true
		}
	}
	for _, g := range groups {
		if !w.topics.Match(g.DeadLetterTopic) { // another installation reads the topic, or the text is no valid name of a topic
			s.enabled[g.DeadLetterTopic] = !w.settings.refuses(g.DeadLetterTopic)
			if entity.ValidTopic(g.DeadLetterTopic) {
				continue
			}
		}
		if !w.settings.refuses(g.DeadLetterTopic) {
			s.named[g.DeadLetterTopic] = append(s.named[g.DeadLetterTopic], len(s.groups))
			s.read[g.DeadLetterTopic] = true
		}
		offsets := offsetsOf(g)
		found := Group{ShareGroup: g, Offsets: offsets, Topics: topicsOf(offsets)}
		found.Problems = w.settings.problems(&found)
		s.groups = append(s.groups, found)
	}
	return s
}

const (
	// offsetsAtOnce is the maximum number of groups whose offsets are requested at the same time.
	offsetsAtOnce = 8
	// offsetsTimeout limits the time for reading the offsets of all groups, because only the next call of look finds new
	// groups.
	offsetsTimeout = 10 * time.Second
)

// readOffsets returns the offsets of each group, by the group's name. When the offsets of one group cannot be read,
// those of the other groups are still returned.
func (w *Watcher) readOffsets(ctx context.Context, groups []Group) (map[string]map[broker.TopicPartition]broker.ShareOffset, error) {
	ctx, cancel := context.WithTimeout(ctx, offsetsTimeout)
	defer cancel()
	var mu sync.Mutex
	var failed error
	all := make(map[string]map[broker.TopicPartition]broker.ShareOffset, len(groups))
	var g errgroup.Group
	g.SetLimit(offsetsAtOnce)
	for i := range groups {
		g.Go(func() error {
			offsets, err := w.offsetsOf(ctx, &groups[i])
			mu.Lock()
			defer mu.Unlock()
			all[groups[i].Name] = offsets
			failed = cmp.Or(failed, err)
			return nil
		})
	}
	_ = g.Wait()
	return all, failed
}

// offsetsOf returns the offsets of a group. While the cluster does not answer, it returns the offsets that were read
// before, together with the error. If a permission is missing, it returns only the error.
func (w *Watcher) offsetsOf(ctx context.Context, g *Group) (map[broker.TopicPartition]broker.ShareOffset, error) {
	offsets, err := w.cluster.ShareOffsets(ctx, g.Name)
	switch {
	case err == nil && offsets == nil:
		return map[broker.TopicPartition]broker.ShareOffset{}, nil
	case err == nil:
		return offsets, nil
	case errors.Is(err, broker.ErrUnauthorized):
		return nil, err
	default:
		return g.Offsets, err
	}
}

// readRefusing reads the settings of those dead-letter topics that groups name and that refuse dead letters of share
// groups. Every call of look reads the settings of these few topics, so that a change is noticed within seconds.
func (w *Watcher) readRefusing(ctx context.Context, groups []broker.ShareGroup) error {
	var refusing []string
	for _, g := range groups {
		if w.settings.refuses(g.DeadLetterTopic) {
			refusing = append(refusing, g.DeadLetterTopic)
		}
	}
	if len(refusing) == 0 {
		return nil
	}
	slices.Sort(refusing)
	configs, err := w.cluster.TopicConfigs(ctx, slices.Compact(refusing), topicSettings...)
	if err != nil {
		return err
	}
	topics := maps.Clone(w.settings.topics) // a copy, because earlier snapshots still use the old map
	maps.Copy(topics, configs)
	w.settings.topics = topics
	return nil
}

// readSettings reads the settings that decide whether the broker can write dead letters.
func (w *Watcher) readSettings(ctx context.Context) error {
	level, err := w.cluster.Feature(ctx, shareFeature)
	if err != nil {
		return err
	}
	read := settings{level: level}
	if level == 0 {
		w.settings = read
		return nil
	}
	if read.brokers, err = w.cluster.BrokerConfigs(ctx, topicPrefix, autoCreate); err != nil {
		return err
	}
	topics, err := w.cluster.Topics(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range topics {
		if !t.Internal {
			names = append(names, t.Name)
		}
	}
	if read.topics, err = w.cluster.TopicConfigs(ctx, names, topicSettings...); err != nil {
		return err
	}
	w.settings = read
	return nil
}
