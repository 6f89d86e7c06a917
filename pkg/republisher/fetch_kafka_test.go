package republisher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// produced writes records into partition 2 of a topic and returns the first's offset.
func produced(t *testing.T, cluster *broker.Cluster, topic string, records ...broker.Record) int64 {
	t.Helper()
	tp := broker.TopicPartition{Topic: topic, Partition: 2}
	var first int64
	check.Eventually(t, "a record in "+topic, func() bool {
		res := cluster.NewProducer(broker.ProducerConfig{}).Produce(t.Context(), tp, records)
		if res.Err() == nil {
			first = res.Records[0].Offset
		}
		return res.Err() == nil
	})
	return first
}

// pointing returns a pointer to the record at an offset of the topic. The pointer itself was written just now.
func pointing(topic string, offset int64) entity.Message {
	return message(to(topic), pointer(offset), func(m *entity.Message) {
		m.Record.Headers[0].Value = []byte(topic)
		m.Source.Timestamp = time.Now()
	})
}

func wantBadRecord(t *testing.T, r *Republisher, m entity.Message) {
	t.Helper()
	var refused *entity.RefusedError
	err := r.Plan(t.Context(), plain(m), true)[0].Err
	check.True(t, errors.As(err, &refused) && refused.Class == entity.BadRecord, "Plan = %v, want refused as BAD_RECORD", err)
	t.Log(err)
	if _, err := r.Fetch(t.Context(), m); !errors.As(err, &refused) {
		t.Errorf("Fetch = %v, want refused", err)
	}
}

func TestPointersOnRealKafka(t *testing.T) {
	t.Parallel()
	source := []broker.Record{
		{Key: []byte("k1"), Value: []byte("one"), Headers: []entity.Header{{Key: "trace", Value: []byte{0xff}}}},
		{Key: []byte("k2"), Value: nil},
	}

	t.Run("TheSourcesRecordIsSent", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t)
		first := produced(t, cluster, topic, source...)
		batch := claimed(t, r, pointing(topic, first), pointing(topic, first+1))
		for i, d := range r.Publish(t.Context(), batch) {
			check.Require(t, d.Verdict == entity.Acknowledged && d.Partition == 2,
				"Publish %d = %+v, want acknowledged in partition 2", i, d)
			got, err := cluster.ReadAt(t.Context(), broker.TopicPartition{Topic: topic, Partition: 2}, d.Offset)
			if err != nil || string(got.Key) != string(source[i].Key) || string(got.Value) != string(source[i].Value) || (got.Value == nil) != (source[i].Value == nil) {
				t.Errorf("sent %q, %q, %v, want %q, %q", got.Key, got.Value, err, source[i].Key, source[i].Value)
			}
			check.True(t, len(got.Headers) == len(source[i].Headers)+5, "headers = %q, want the source's and ours", got.Headers)
		}
		record, err := r.Fetch(t.Context(), batch[0].Message)
		check.True(t, err == nil && string(record.Key) == "k1" && string(record.Value) == "one" && len(record.Headers) == 1,
			"Fetch = %+v, %v, want the source's record", record, err)
	})

	t.Run("RemovedByRetention", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t)
		first := produced(t, cluster, topic, source...)
		deleteBefore(t, topic, first+1)
		wantBadRecord(t, r, pointing(topic, first))
	})

	t.Run("RemovedByCompaction", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t,
			kafka.ConfigEntry{ConfigName: "cleanup.policy", ConfigValue: "compact"},
			kafka.ConfigEntry{ConfigName: "min.cleanable.dirty.ratio", ConfigValue: "0.001"},
			kafka.ConfigEntry{ConfigName: "max.compaction.lag.ms", ConfigValue: "100"},
			kafka.ConfigEntry{ConfigName: "segment.ms", ConfigValue: "100"},
		)
		first := produced(t, cluster, topic, broker.Record{Key: []byte("k"), Value: []byte("old")})
		tp := broker.TopicPartition{Topic: topic, Partition: 2}
		compacted := false
		for range 300 { // with each new record the broker closes a segment of the log, which it can then compact
			produced(t, cluster, topic, broker.Record{Key: []byte("k"), Value: []byte("new")})
			if _, err := cluster.ReadAt(t.Context(), tp, first); errors.Is(err, broker.ErrGone) {
				compacted = true
				break
			}
			wait.Sleep(t.Context(), 200*time.Millisecond)
		}
		check.Require(t, compacted, "the topic was not compacted")
		wantBadRecord(t, r, pointing(topic, first))
	})

	t.Run("TopicCreatedAgain", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t)
		first := produced(t, cluster, topic, source...)
		shorter, longer := pointing(topic, first+1), pointing(topic, first)
		longer.Source.Timestamp = time.Now().Add(-time.Hour)
		remake(t, cluster, topic)
		produced(t, cluster, topic, broker.Record{Value: []byte("of another life")})
		wantBadRecord(t, r, shorter) // the log of the new topic ends before the pointer's offset
		wantBadRecord(t, r, longer)  // the new topic's record at the pointer's offset is newer than the pointer
	})

	t.Run("TopicOrPartitionIsGone", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t)
		m := pointing(topic, 0)
		m.Origin.Partition = ptr(int32(9))
		wantBadRecord(t, r, m)
	})
}

// deleteBefore deletes records as retention does.
func deleteBefore(t *testing.T, topic string, offset int64) {
	t.Helper()
	cl := client(t)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 2, offset
	of := kmsg.NewDeleteRecordsRequestTopic()
	of.Topic, of.Partitions = topic, append(of.Partitions, part)
	req.Topics = append(req.Topics, of)
	res, err := req.RequestWith(t.Context(), cl)
	check.Require(t, err == nil && res.Topics[0].Partitions[0].ErrorCode == 0, "delete records: %+v, %v", res, err)
}

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl := check.Must(kgo.NewClient(append(opts, kgo.SeedBrokers(stacktest.Kafka(t)...))...))(t)
	t.Cleanup(cl.Close)
	return cl
}

func TestEditsOnRealKafka(t *testing.T) {
	t.Parallel()
	_, cluster, topic := realKafka(t)
	cfg := DefaultConfig()
	cfg.RepublishAllow = []string{topic}
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(t)
	r := check.Must(New(cfg, patterns, cluster, cluster.NewProducer(broker.ProducerConfig{})))(t)
	batch := claimedAs(t, r, edited(message(to("gone.topic")), entity.Edit{
		Topic: topic, SetValue: true, Value: []byte{0xfe}, SetKey: true, SetHeaders: true, Headers: []entity.Header{{Key: "h", Value: nil}},
	}))
	d := r.Publish(t.Context(), batch)[0]
	got, err := cluster.ReadAt(t.Context(), broker.TopicPartition{Topic: topic, Partition: d.Partition}, d.Offset)
	if err != nil || got.Key != nil || string(got.Value) != "\xfe" || len(got.Headers) != 6 || got.Headers[0].Key != "h" {
		t.Errorf("sent %q, %q, %q, %v, want the edit", got.Key, got.Value, got.Headers, err)
	}
	found := r.FindMany(t.Context(), []entity.Claim{batch[0].Message.Claim})[0]
	check.True(t, found.Verdict == entity.Acknowledged, "FindMany = %+v, want it found", found)
}

func TestInspectOnRealKafka(t *testing.T) {
	t.Parallel()
	r, cluster, topic := realKafka(t)
	produced(t, cluster, topic, broker.Record{Value: []byte("1")}, broker.Record{Value: []byte("2")}, broker.Record{Value: []byte("3")})
	slow, gone := topic+".slow", topic+".gone"
	join := func(group string, n int) *kgo.Client {
		cl := client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		read := cl.PollRecords(ctx, n).Records()
		check.Require(t, len(read) == n, "group %s read %d records, want %d", group, len(read), n)
		check.NoError(t, cl.CommitRecords(ctx, read...))
		return cl
	}
	member := join(slow, 1)
	join(gone, 3).Close()

	questions := []entity.ReplayQuestion{{Topic: topic, Groups: []string{slow, gone, topic + ".never"}}, {Topic: topic + ".nowhere"}}
	look := func() []string {
		r.facts = newFacts()
		var texts []string
		for _, h := range r.Inspect(t.Context(), questions) {
			texts = append(texts, shown(h))
		}
		return texts
	}
	want := topic + " exists=true allowed=true class= reason=false " + slow + "=behind/2 " + gone + "=absent/0 " + topic + ".never=absent/?"
	got := look()
	if got[0] != want || got[1] != topic+".nowhere exists=false allowed=true class=UNKNOWN_TOPIC reason=true" {
		t.Errorf("Inspect\n got %q\nwant %q", got, want)
	}
	if read := member.PollRecords(t.Context(), 2).Records(); len(read) != 2 || member.CommitRecords(t.Context(), read...) != nil {
		t.Fatalf("the group read %d records, want 2, committed", len(read))
	}
	want = topic + " exists=true allowed=true class= reason=false " + slow + "=running/0 " + gone + "=absent/0 " + topic + ".never=absent/?"
	found := look()
	check.True(t, found[0] == want, "Inspect\n got %q\nwant %q", found[0], want)
}
