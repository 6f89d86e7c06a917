package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))

	t.Run("RecreatedTopicHasAnotherID", func(t *testing.T) {
		t.Parallel()
		name := createTopic(t, 3)
		first := topic(t, c, name)
		check.True(t, len(first.Partitions) == 3 && first.Err == nil && !first.Internal, "Topics = %+v, want 3 partitions", first)
		check.Must(uuid.Parse(first.ID))(t)
		stacktest.DeleteTopic(t, name)
		check.Eventually(t, "the topic's end", func() bool { return errors.Is(topic(t, c, name).Err, broker.ErrUnknownTopic) })
		stacktest.CreateTopic(t, name, 1)
		var second broker.Topic
		check.Eventually(t, "the new topic", func() bool { second = topic(t, c, name); return second.Err == nil })
		check.True(t, second.ID != first.ID && second.ID != "",
			"id after re-creation = %q, want another than %q", second.ID, first.ID)
	})
	t.Run("UnknownTopicIsNotCreated", func(t *testing.T) {
		t.Parallel()
		name := uniqueName(t)
		if got := topic(t, c, name); !errors.Is(got.Err, broker.ErrUnknownTopic) || got.Name != name {
			t.Errorf("Topics(%s) = %+v, want ErrUnknownTopic", name, got)
		}
		for _, got := range allTopics(t, c) {
			check.True(t, got.Name != name, "topic %s exists after asking for it", name)
		}
	})
	t.Run("ListsEverything", func(t *testing.T) {
		t.Parallel()
		name := createTopic(t, 2)
		check.Eventually(t, "the topic in the list", func() bool {
			for _, got := range allTopics(t, c) {
				if got.Name == name && len(got.Partitions) == 2 {
					return true
				}
			}
			return false
		})
	})
}

func TestTopics_OldBrokerHasNoIDs(t *testing.T) {
	t.Parallel()
	cluster := check.Must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "old"), kfake.MaxVersions(kversion.V2_7_0())))(t)
	defer cluster.Close()
	got := topic(t, open(t, cluster.ListenAddrs()), "old")
	check.True(t, got.ID == "" && len(got.Partitions) == 2 && got.Err == nil, "Topics = %+v, want 2 partitions and no id", got)
}

// TestMark_OldBroker: without topic ids, the time and the checksum that Mark returns show whether a partition still has
// the same log.
func TestMark_OldBroker(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "old", "other"), kfake.MaxVersions(kversion.V2_7_0()))
	check.NoError(t, err)
	defer cluster.Close()
	c := open(t, cluster.ListenAddrs())
	type mark struct {
		latest int64
		crc    uint32
		found  bool
	}
	of := func(topic string, offset int64) mark {
		t.Helper()
		latest, crc, found, err := c.Mark(testContext(t), broker.TopicPartition{Topic: topic}, offset)
		check.NoError(t, err)
		return mark{latest, crc, found}
	}
	at := time.UnixMilli(1_700_000_000_000)
	for topic, value := range map[string]string{"old": "a", "other": "b"} {
		mustProduce(t, c, broker.TopicPartition{Topic: topic},
			broker.Record{Value: []byte("x"), Time: at}, broker.Record{Value: []byte(value), Time: at.Add(time.Second)})
	}
	first, second := of("old", 0), of("old", 1)
	check.True(t, first.found && first == second && first.latest == at.Add(time.Second).UnixMilli(),
		"marks of one batch = %+v, %+v, want the same with the latest time", first, second)
	other := of("other", 1)
	check.True(t, other.found && other.crc != second.crc, "mark of another log = %+v, want another checksum than %+v", other, second)
	beyond := of("old", 9)
	check.True(t, !beyond.found, "mark beyond the end = %+v, want none", beyond)
}

func TestTopics_AskingCreatesNothing(t *testing.T) {
	t.Parallel()
	c := open(t, fakeKafka(t, kfake.AllowAutoTopicCreation()).ListenAddrs())
	for range 2 {
		got := topic(t, c, "wish")
		check.True(t, errors.Is(got.Err, broker.ErrUnknownTopic), "Topics(wish) = %+v, want ErrUnknownTopic", got)
	}
	res := c.NewProducer(broker.ProducerConfig{}).Produce(testContext(t), broker.TopicPartition{Topic: "wish"}, values("a"))
	wantFates(t, res, broker.TopicRefused)
	got := allTopics(t, c)
	check.True(t, len(got) == 1 && got[0].Name == "seeded", "topics = %+v, want the seeded one alone", got)
}

func topic(t *testing.T, c *broker.Cluster, name string) broker.Topic {
	t.Helper()
	topics, err := c.Topics(testContext(t), name)
	check.Require(t, err == nil && len(topics) == 1, "Topics(%s) = %v, %v, want one", name, topics, err)
	return topics[0]
}

func allTopics(t *testing.T, c *broker.Cluster) []broker.Topic {
	t.Helper()
	return check.Must(c.Topics(testContext(t)))(t)
}

func TestGroupByLeader(t *testing.T) {
	t.Parallel()
	topics := []broker.Topic{
		{Name: "a", Partitions: []broker.Partition{{ID: 0, Leader: 1}, {ID: 1, Leader: 2}, {ID: 2, Leader: -1}}},
		{Name: "b", Partitions: []broker.Partition{{ID: 0, Leader: 2}}},
		{Name: "gone", Err: broker.ErrUnknownTopic},
	}
	part := func(topic string, id int32) broker.TopicPartition {
		return broker.TopicPartition{Topic: topic, Partition: id}
	}
	got := broker.GroupByLeader(topics, []broker.TopicPartition{
		part("b", 0), part("a", 2), part("a", 0), part("a", 1), part("gone", 0), part("never", 0), part("b", 7),
	})
	want := map[int32][]broker.TopicPartition{
		1:  {part("a", 0)},
		2:  {part("b", 0), part("a", 1)},
		-1: {part("a", 2), part("gone", 0), part("never", 0), part("b", 7)},
	}
	check.Equal(t, got, want, "GroupByLeader")
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	name := createTopic(t, 2)
	one := broker.TopicPartition{Topic: name, Partition: 1}
	empty := broker.TopicPartition{Topic: name, Partition: 0}
	missing := broker.TopicPartition{Topic: name, Partition: 9}
	unknown := broker.TopicPartition{Topic: uniqueName(t)}
	mustProduce(t, c, one, numbered(5)...)

	parts := []broker.TopicPartition{one, empty, missing, unknown}
	for call, want := range map[string]int64{"StartOffsets": 0, "EndOffsets": 5, "AppendedOffsets": 5} {
		list := map[string]func() (map[broker.TopicPartition]int64, error){
			"StartOffsets":    func() (map[broker.TopicPartition]int64, error) { return c.StartOffsets(testContext(t), parts) },
			"EndOffsets":      func() (map[broker.TopicPartition]int64, error) { return c.EndOffsets(testContext(t), parts) },
			"AppendedOffsets": func() (map[broker.TopicPartition]int64, error) { return c.AppendedOffsets(testContext(t), parts) },
		}[call]
		got, err := list()
		check.True(t, fmt.Sprint(got) == fmt.Sprint(map[broker.TopicPartition]int64{one: want, empty: 0}),
			"%s = %v, want %d and 0", call, got, want)
		var failed broker.PartitionErrors
		if !errors.As(err, &failed) || len(failed) != 2 || !errors.Is(failed[missing], broker.ErrUnknownTopic) ||
			!errors.Is(failed[unknown], broker.ErrUnknownTopic) || !errors.Is(err, broker.ErrUnknownTopic) {
			t.Errorf("%s error = %v, want ErrUnknownTopic for %s and %s", call, err, missing, unknown)
		}
	}
}
