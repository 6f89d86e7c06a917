package integration_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/sharegroup"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const (
	rejected  = "Offset rejected by client."
	exhausted = "Offset delivery count exceeded the threshold."
)

// TestShareGroupWritesDeadLetters checks what the broker writes to the dead-letter topic of a share group, for records
// that the group rejects and for records that run out of deliveries: exactly six headers, and key and value only if the
// group copies them.
func TestShareGroupWritesDeadLetters(t *testing.T) {
	t.Parallel()
	for _, copies := range []bool{false, true} {
		t.Run(fmt.Sprintf("Copy=%t", copies), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, stacktest.Kafka(t))
			name := fmt.Sprintf("share%d-%t", os.Getpid(), copies)
			topic, dlq := name+"-orders", "dlq."+name+"-orders"
			c.create(topic, 2)
			c.create(dlq, 2, sharegroup.DeadLetterTopic)
			c.produce(
				&kgo.Record{Topic: topic, Key: []byte("k0"), Value: []byte("accepted")},
				decided(topic, 0, "k1", "rejected", "reject"),
				decided(topic, 0, "k2", "without end", "release"),
				decided(topic, 0, "k3", "rejected at last", "release,reject"),
				decided(topic, 1, "k4", "accepted at last", "release,accept"),
				&kgo.Record{Topic: topic, Partition: 1, Headers: []kgo.RecordHeader{{Key: sharegroup.DecisionsHeader, Value: []byte("reject")}}},
			)
			c.configureShareGroup(name, map[string]string{
				"errors.deadletterqueue.topic.name":         dlq,
				"errors.deadletterqueue.copy.record.enable": fmt.Sprint(copies),
				"share.delivery.count.limit":                "2",
				"share.record.lock.duration.ms":             "60000", // long: a busy machine makes consumers slow
			})
			consumer := c.startShareConsumer(name, topic)
			const final = 4 + 5 // number of all deliveries: one for some records, two for the others
			eventually(t, "every delivery was decided", func() bool { return len(consumer.Deliveries()) == final })
			eventually(t, "the dead letters are written", func() bool { return c.ends([]string{dlq}) >= 4 })
			check.NoError(t, consumer.Stop())

			got := map[string]*kgo.Record{}
			for _, r := range c.readAll(dlq) {
				got[header(r, "__dlq.errors.partition")+"/"+header(r, "__dlq.errors.offset")] = r
			}
			check.Len(t, got, 4, "dead letters %v", got)
			for _, want := range []struct {
				partition, offset, count, message, key, value string
			}{
				{"0", "1", "1", rejected, "k1", "rejected"},
				{"0", "2", "2", exhausted, "k2", "without end"},
				{"0", "3", "2", rejected, "k3", "rejected at last"},
				{"1", "1", "1", rejected, "", ""},
			} {
				r := got[want.partition+"/"+want.offset]
				check.Require(t, r != nil, "record %s/%s is not among the dead letters %v", want.partition, want.offset, got)
				check.Equal(t, r.Headers, []kgo.RecordHeader{
					{Key: "__dlq.errors.topic", Value: []byte(topic)},
					{Key: "__dlq.errors.partition", Value: []byte(want.partition)},
					{Key: "__dlq.errors.offset", Value: []byte(want.offset)},
					{Key: "__dlq.errors.group", Value: []byte(name)},
					{Key: "__dlq.errors.delivery.count", Value: []byte(want.count)},
					{Key: "__dlq.errors.message", Value: []byte(want.message)},
				}, "headers")
				var key, value []byte
				if copies && want.key != "" {
					key, value = []byte(want.key), []byte(want.value)
				}
				check.Equal(t, r.Key, key, "key")
				check.Equal(t, r.Value, value, "value")
				check.Equal(t, fmt.Sprint(r.Partition), want.partition, "partition of the dead letter")
			}
		})
	}
}

// decided returns a record with a header that tells the share group's consumer how to acknowledge each delivery of the
// record.
func decided(topic string, partition int32, key, value, decisions string) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value),
		Headers: []kgo.RecordHeader{{Key: "trace-id", Value: []byte("t")}, {Key: sharegroup.DecisionsHeader, Value: []byte(decisions)}},
	}
}

// configureShareGroup sets configs of a share group, and makes the group start at the earliest record.
func (c *cluster) configureShareGroup(group string, configs map[string]string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	check.NoError(c.t, sharegroup.Configure(ctx, c.client, group, configs))
}

// startShareConsumer starts a member of a share group that acknowledges each record as a header of the record says. The
// member ends with the test.
func (c *cluster) startShareConsumer(group string, topics ...string) *sharegroup.Consumer {
	c.t.Helper()
	consumer, err := sharegroup.Start(c.t.Context(), sharegroup.Options{
		Brokers: c.brokers, Group: group, Topics: topics, Dir: c.t.TempDir(),
	})
	check.NoError(c.t, err)
	c.t.Cleanup(consumer.Kill)
	return consumer
}
