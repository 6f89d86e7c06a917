package sharegroup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// fakeCluster is a cluster in which share group g consumes topic orders and has the dead-letter topic dlq.orders.
type fakeCluster struct {
	mu      sync.Mutex
	level   int16
	groups  []broker.ShareGroup
	offsets map[string]map[broker.TopicPartition]broker.ShareOffset
	brokers []map[string]string
	topics  map[string]map[string]string
	err     error // error that every request returns
	noState error // error that requests for offsets return
	hangs   string
}

func newFake() *fakeCluster {
	return &fakeCluster{
		level:   2,
		groups:  []broker.ShareGroup{{Name: "g", DeadLetterTopic: "dlq.orders"}},
		offsets: map[string]map[broker.TopicPartition]broker.ShareOffset{"g": {{Topic: "orders", Partition: 1}: {Start: 3}}},
		brokers: []map[string]string{{topicPrefix: "dlq.", autoCreate: "false"}},
		topics: map[string]map[string]string{
			"orders":     {maxMessageBytes: "1048588", retentionMs: "60000"},
			"dlq.orders": {topicEnabled: "true", cleanupPolicy: "delete", maxMessageBytes: "1048588"},
			"allowed":    {topicEnabled: "true"},
		},
	}
}

func (f *fakeCluster) Topics(context.Context, ...string) ([]broker.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []broker.Topic
	for name := range f.topics {
		all = append(all, broker.Topic{Name: name})
	}
	return all, f.err
}

func (f *fakeCluster) ShareGroups(context.Context) ([]broker.ShareGroup, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.groups, f.err
}

func (f *fakeCluster) ShareOffsets(ctx context.Context, group string) (map[broker.TopicPartition]broker.ShareOffset, error) {
	f.mu.Lock()
	if f.hangs == group {
		f.mu.Unlock()
		<-ctx.Done()
		return nil, broker.ErrUnavailable
	}
	defer f.mu.Unlock()
	return f.offsets[group], errors.Join(f.err, f.noState)
}

func (f *fakeCluster) TopicConfigs(context.Context, []string, ...string) (map[string]map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics, f.err
}

func (f *fakeCluster) BrokerConfigs(context.Context, ...string) ([]map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.brokers, f.err
}

func (f *fakeCluster) Feature(context.Context, string) (int16, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.level, f.err
}

// change calls the parameter to, which changes the cluster while a Watcher runs, and waits until the Watcher has read
// the cluster again.
func (f *fakeCluster) change(to func()) {
	f.mu.Lock()
	to()
	f.mu.Unlock()
	<-time.After(interval) // advances the fake clock of the test
	synctest.Wait()
}

// look returns the snapshot after one call of Watcher.look.
func look(t *testing.T, f *fakeCluster) *Snapshot {
	t.Helper()
	w := NewWatcher(f, check.Must(entity.ParseTopicPatterns("topics", "*"))(t), zap.NewNop())
	_ = w.look(t.Context())
	return w.Snapshot()
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		change  func(f *fakeCluster)
		want    []string
		command string // command of the first problem
	}{
		{"none", func(*fakeCluster) {}, nil, ""},
		{"the feature is off", func(f *fakeCluster) { f.level = 1 }, []string{FeatureOff}, "kafka-features.sh --bootstrap-server BROKER upgrade --feature share.version=2"},
		{
			"no topic", func(f *fakeCluster) { delete(f.topics, "dlq.orders") },
			[]string{TopicMissing},
			"kafka-topics.sh --bootstrap-server BROKER --create --topic dlq.orders --config errors.deadletterqueue.group.enable=true",
		},
		{"no topic, but the broker makes it", func(f *fakeCluster) {
			delete(f.topics, "dlq.orders")
			f.brokers[0][autoCreate] = "true"
		}, nil, ""},
		{
			"not enabled", func(f *fakeCluster) { f.topics["dlq.orders"][topicEnabled] = "false" },
			[]string{NotEnabled},
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name dlq.orders --add-config errors.deadletterqueue.group.enable=true",
		},
		{
			"wrong prefix on one broker", func(f *fakeCluster) { f.brokers = append(f.brokers, map[string]string{topicPrefix: "dead."}) },
			[]string{WrongPrefix},
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type groups --entity-name 'g' --add-config 'errors.deadletterqueue.topic.name=dead.dlq.orders'",
		},
		{
			"compacted", func(f *fakeCluster) { f.topics["dlq.orders"][cleanupPolicy] = "compact,delete" },
			[]string{Compacted},
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name dlq.orders --add-config cleanup.policy=delete",
		},
		{
			"too small for a pointer", func(f *fakeCluster) { f.topics["dlq.orders"][maxMessageBytes] = "300" },
			[]string{TooSmall},
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name dlq.orders --add-config max.message.bytes=1024",
		},
		{
			"too small for a copy", func(f *fakeCluster) { f.groups[0].CopiesRecords = true },
			[]string{TooSmall},
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name dlq.orders --add-config max.message.bytes=1050636",
		},
		{"its own topic", func(f *fakeCluster) {
			f.offsets["g"][broker.TopicPartition{Topic: "dlq.orders"}] = broker.ShareOffset{}
		}, []string{OwnTopic}, ""},
		{
			"no name of a topic", func(f *fakeCluster) { f.groups[0] = broker.ShareGroup{Name: "it's", DeadLetterTopic: "bad name"} },
			[]string{BadName},
			`kafka-configs.sh --bootstrap-server BROKER --alter --entity-type groups --entity-name 'it'\''s' --add-config 'errors.deadletterqueue.topic.name=NAME'`,
		},
		{"several", func(f *fakeCluster) {
			f.topics["dlq.orders"] = map[string]string{topicEnabled: "false", cleanupPolicy: "compact"}
		}, []string{NotEnabled, Compacted}, "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name dlq.orders --add-config errors.deadletterqueue.group.enable=true"},
		{"a cluster without share groups", func(f *fakeCluster) { f.level, f.topics = 0, nil }, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			tt.change(f)
			groups := look(t, f).Groups()
			check.Len(t, groups, 1, "groups")
			var got []string
			for _, p := range groups[0].Problems {
				got = append(got, p.Code)
			}
			check.Equal(t, got, tt.want, "problems")
			if len(got) > 0 {
				check.Equal(t, groups[0].Problems[0].Command, tt.command, "command")
			}
		})
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	s := look(t, newFake())
	orders := broker.TopicPartition{Topic: "orders", Partition: 1}
	check.True(t, s.IsDeadLetterTopic("dlq.orders") && !s.IsDeadLetterTopic("dlq.other"), "dead-letter topics")
	for topic, want := range map[string]bool{"dlq.orders": true, "dlq.other": true, "allowed": true, "orders": false} {
		check.Equal(t, s.IsReserved(topic), want, "IsReserved "+topic)
	}
	check.Equal(t, s.Declaration("dlq.orders", "orders"), entity.Declared, "the group's topic")
	check.Equal(t, s.Declaration("dlq.orders", "payments"), entity.Contradicted, "another topic")
	check.Equal(t, s.Declaration("other.dlq", "orders"), entity.NotDeclared, "of another dead-letter topic")
	check.Equal(t, s.Retention("orders"), time.Minute, "retention")
	check.Equal(t, s.Retention("dlq.orders"), time.Duration(0), "unknown retention")

	check.NoError(t, s.CheckPointer("dlq.orders", "g", orders))
	for name, err := range map[string]error{
		"another dead-letter topic": s.CheckPointer("dlq.other", "g", orders),
		"another group":             s.CheckPointer("dlq.orders", "h", orders),
		"another partition":         s.CheckPointer("dlq.orders", "g", broker.TopicPartition{Topic: "orders"}),
	} {
		check.Is(t, err, ErrNotKnown, name)
	}

	several := newFake()
	several.groups = []broker.ShareGroup{{Name: "a", DeadLetterTopic: "dlq.orders"}, several.groups[0]}
	other := look(t, several)
	other.Group("a").Offsets = nil // its state is not known
	check.Equal(t, other.Declaration("dlq.orders", "orders"), entity.Declared, "the topic of one of two groups")
	check.Equal(t, other.Declaration("dlq.orders", "payments"), entity.NotDeclared, "another topic, of two groups")

	f := newFake()
	f.noState = broker.ErrUnauthorized
	hidden := look(t, f)
	check.Is(t, hidden.CheckPointer("dlq.orders", "g", orders), ErrNotKnown, "a group whose state is hidden")
	check.Equal(t, hidden.Declaration("dlq.orders", "orders"), entity.NotDeclared, "of a group whose state is hidden")
}

// TestOtherInstallations: a dead-letter topic that a group names and that does not match the Watcher's patterns is not
// read. Such a topic is reserved nevertheless, so that dlq-manager sends no records to it.
func TestOtherInstallations(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.groups = append(f.groups, broker.ShareGroup{Name: "h", DeadLetterTopic: "theirs"})
	w := NewWatcher(f, check.Must(entity.ParseTopicPatterns("topics", "dlq.*"))(t), zap.NewNop())
	check.NoError(t, w.look(t.Context()))
	check.True(t, !w.IsDeadLetterTopic("theirs") && w.IsReserved("theirs") && w.IsShareGroup("g") && !w.IsShareGroup("h"),
		"topic theirs is read, or not reserved")
}

// TestConfigurationAloneMakesNoDeadLetterTopic: a group's configuration may name any topic. A topic that refuses dead
// letters and whose name does not begin with the broker's prefix is neither read nor reserved, until its own
// configuration allows dead letters.
func TestConfigurationAloneMakesNoDeadLetterTopic(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.topics["dlq.prefixed"] = map[string]string{}
	for _, topic := range []string{"dlq.prefixed", "later", "orders"} {
		f.groups = append(f.groups, broker.ShareGroup{Name: "h-" + topic, DeadLetterTopic: topic})
	}
	w := NewWatcher(f, check.Must(entity.ParseTopicPatterns("topics", "*"))(t), zap.NewNop())
	check.NoError(t, w.look(t.Context()))
	s := w.Snapshot()
	check.True(t, !s.IsDeadLetterTopic("orders") && !s.IsReserved("orders"), "topic orders is a dead-letter topic")
	check.True(t, len(s.Group("h-orders").Problems) > 0, "the group has no problems")
	check.True(t, s.IsDeadLetterTopic("dlq.prefixed") && s.IsDeadLetterTopic("later"), "a topic with the prefix, or one that does not exist yet, is none")

	f.topics = maps.Clone(f.topics)
	f.topics["orders"] = map[string]string{topicEnabled: "true"}
	check.NoError(t, w.look(t.Context())) // finds the new configuration before the next read of all topics' settings is due
	check.True(t, w.IsDeadLetterTopic("orders") && !s.IsDeadLetterTopic("orders"), "the topic's own configuration is not seen, or changes an old snapshot")
}

// TestCoordinatorThatHangs: a new group is known even while the coordinator of another group does not answer requests
// for offsets.
func TestCoordinatorThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		w := NewWatcher(f, check.Must(entity.ParseTopicPatterns("topics", "*"))(t), zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx)
		synctest.Wait()
		f.change(func() {
			f.hangs = "g"
			f.groups = append(f.groups, broker.ShareGroup{Name: "new", DeadLetterTopic: "dlq.new"})
		})
		check.True(t, w.IsDeadLetterTopic("dlq.new"), "the new group is not known")
		check.Len(t, w.Snapshot().Group("g").Offsets, 1, "offsets of the group that hangs")
		f.change(func() {}) // advances the clock by half of offsetsTimeout, the next line by the other half
		f.change(func() {})
		check.True(t, w.Snapshot().Group("new").Offsets != nil, "the offsets of the new group are not known")
	})
}

// TestWatcher: a missing permission ends the wait for Answered, and only a complete read ends the wait for Ready. While
// the cluster does not answer, the last snapshot stays; when the cluster answers again, deleted groups are forgotten.
func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.err = broker.ErrUnavailable
		w := NewWatcher(f, check.Must(entity.ParseTopicPatterns("topics", "*"))(t), zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx)
		synctest.Wait()
		select {
		case <-w.Ready():
			t.Error("the watcher is ready without an answer")
		default:
		}
		f.change(func() { f.err = broker.ErrUnauthorized })
		<-w.Answered()
		f.change(func() { f.err = nil })
		<-w.Ready()
		check.True(t, w.IsDeadLetterTopic("dlq.orders"), "the group is not known")
		f.change(func() { f.err, f.groups = broker.ErrUnavailable, nil })
		check.True(t, w.IsDeadLetterTopic("dlq.orders"), "the group was forgotten")
		f.change(func() { f.err = nil })
		check.True(t, !slices.ContainsFunc(w.Snapshot().Groups(), func(g Group) bool { return g.Name == "g" }), "the deleted group is still known")
	})
}
