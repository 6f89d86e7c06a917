package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestProduce_RoundTripKeepsEveryByte(t *testing.T) {
	t.Parallel()
	sent := []broker.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: []byte("v\x00\xff"), Time: time.UnixMilli(1234567890123).UTC(), Headers: []entity.Header{
			{Key: "dup", Value: []byte("1")}, {Key: "", Value: []byte{}}, {Key: "dup", Value: nil}, {Key: "dup", Value: []byte("1")},
		}},
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			c, tp := onePartition(t)
			p := c.NewProducer(broker.ProducerConfig{Compression: codec})
			res := p.Produce(testContext(t), tp, sent)
			check.Require(t, res.Err() == nil && res.Records[0].Offset == 0 && res.Records[2].Offset == 2,
				"Produce = %+v, want offsets 0 to 2", res)
			got := scanAll(t, c, tp)
			check.Require(t, len(got) == len(sent), "read %d records, want %d", len(got), len(sent))
			for i := range sent {
				compareRecords(t, got[i], sent[i])
			}
			check.True(t, !got[0].Time.IsZero() && got[2].Time.Equal(sent[2].Time),
				"times = %s, %s, want now and %s", got[0].Time, got[2].Time, sent[2].Time)
		})
	}
}

func compareRecords(t *testing.T, got, want broker.Record) {
	t.Helper()
	if !sameBytes(got.Key, want.Key) || !sameBytes(got.Value, want.Value) || len(got.Headers) != len(want.Headers) {
		t.Errorf("record = %#v, want %#v", got, want)
		return
	}
	for i, h := range got.Headers {
		check.True(t, h.Key == want.Headers[i].Key && sameBytes(h.Value, want.Headers[i].Value),
			"header %d = %#v, want %#v", i, h, want.Headers[i])
	}
}

func TestProduce_TenMegabyteRecord(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	tp := broker.TopicPartition{Topic: createTopic(t, 1, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "12000000"})}
	value := bytes.Repeat([]byte("0123456789"), 1<<20)
	mustProduce(t, c, tp, broker.Record{Value: []byte("before")}, broker.Record{Value: value}, broker.Record{Value: []byte("after")})
	got, err := c.ReadAt(testContext(t), tp, 1)
	check.True(t, err == nil && bytes.Equal(got.Value, value), "ReadAt = %d bytes, %v, want %d", len(got.Value), err, len(value))
	check.Equal(t, len(scanAll(t, c, tp)), 3, "records")
}

func TestProduce_LostAnswersDoNotDouble(t *testing.T) {
	t.Parallel()
	network := &faultyNetwork{drop: 2}
	c := open(t, stacktest.Kafka(t), broker.WithDial(network.dial))
	tp := broker.TopicPartition{Topic: createTopic(t, 1)}
	res := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(testContext(t), tp, values("a", "b", "c"))
	check.Require(t, res.Err() == nil, "Produce: %v", res.Err())
	check.True(t, network.dropped == 2, "dropped %d answers, want 2", network.dropped)
	check.Equal(t, texts(scanAll(t, c, tp)), "a b c", "log")
}

func TestProduce_GivenUpIsInDoubtAndTheNextBatchGoesOn(t *testing.T) {
	t.Parallel()
	network := &faultyNetwork{drop: -1}
	c := open(t, stacktest.Kafka(t), broker.WithDial(network.dial))
	tp := broker.TopicPartition{Topic: createTopic(t, 1)}
	p := c.NewProducer(broker.ProducerConfig{Timeout: 5 * time.Second, MaxBatchBytes: 1})
	res := p.Produce(testContext(t), tp, values("a", "b"))
	wantFates(t, res, broker.InDoubt, broker.NotSent)
	if tried, behind := res.Records[0].Err, res.Records[1].Err; errors.Is(tried, broker.ErrNotTried) || !errors.Is(behind, broker.ErrNotTried) {
		t.Errorf("errors = %v, %v, want ErrNotTried for the second only", tried, behind)
	}
	network.set(func(f *faultyNetwork) { f.drop = 0 })
	check.NoError(t, p.Produce(testContext(t), tp, values("c")).Err())
	check.Equal(t, texts(scanAll(t, c, tp)), "a c", "log")
}

func TestProduce_CancelledInFlightIsInDoubt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	network := &faultyNetwork{drop: -1, onSent: cancel}
	c := open(t, stacktest.Kafka(t), broker.WithDial(network.dial))
	tp := broker.TopicPartition{Topic: createTopic(t, 1)}
	p := c.NewProducer(broker.ProducerConfig{})
	wantFates(t, p.Produce(ctx, tp, values("a")), broker.InDoubt)
	wantFates(t, p.Produce(ctx, tp, values("b")), broker.NotSent)
}

func TestProduce_UnreachableBrokerIsNotSent(t *testing.T) {
	t.Parallel()
	c := open(t, []string{"127.0.0.1:1"})
	p := c.NewProducer(broker.ProducerConfig{Timeout: 300 * time.Millisecond})
	res := p.Produce(testContext(t), broker.TopicPartition{Topic: "any"}, values("a", "b"))
	wantFates(t, res, broker.NotSent, broker.NotSent)
	check.True(t, !errors.Is(res.Err(), broker.ErrNotTried), "error = %v, want none that says ErrNotTried", res.Err())
	got := classOf(res.Records[0].Err)
	check.True(t, got == broker.ClassBrokerUnavailable, "class = %s, want %s (%v)", got, broker.ClassBrokerUnavailable, res.Err())
}

func TestProduce_UnknownTopicIsRefusedAndNotCreated(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	name := uniqueName(t)
	existing := createTopic(t, 1)
	p := c.NewProducer(broker.ProducerConfig{})
	for _, tp := range []broker.TopicPartition{{Topic: name}, {Topic: existing, Partition: 7}, {Topic: "no/such name"}} {
		res := p.Produce(testContext(t), tp, values("a", "b"))
		wantFates(t, res, broker.TopicRefused, broker.TopicRefused)
		check.Equal(t, classOf(res.Records[1].Err), broker.ClassUnknownTopic, "class for %s", tp)
	}
	got := topic(t, c, name)
	check.True(t, errors.Is(got.Err, broker.ErrUnknownTopic), "topic after the refusal = %+v, want it unknown", got)
}

func TestProduce_TooLargeRecordIsRejectedAlone(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	tp := broker.TopicPartition{Topic: createTopic(t, 1, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "1000"})}
	records := numbered(7)
	records[2].Value = []byte(strings.Repeat("x", 1500))
	records[6].Value = records[2].Value
	res := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(testContext(t), tp, records)
	wantFates(t, res, 0, 0, broker.RecordRejected, 0, 0, 0, broker.RecordRejected)
	check.Equal(t, classOf(res.Records[2].Err), broker.ClassBadRecord, "class")
	check.Equal(t, texts(scanAll(t, c, tp)), "0 1 3 4 5", "log")
}

func TestProduce_InvalidRecordIsRejectedAlone(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	tp := broker.TopicPartition{Topic: createTopic(t, 1, kafka.ConfigEntry{ConfigName: "cleanup.policy", ConfigValue: "compact"})}
	records := numbered(4)
	for i := range records {
		records[i].Key = []byte("k")
	}
	records[1].Key = nil // a compacted topic refuses a record without a key
	res := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(testContext(t), tp, records)
	wantFates(t, res, 0, broker.RecordRejected, 0, 0)
	check.Equal(t, texts(scanAll(t, c, tp)), "0 2 3", "log")
}

func TestProduce_SequenceSurvivesAThousandBatches(t *testing.T) {
	t.Parallel()
	network := &faultyNetwork{}
	c := open(t, stacktest.Kafka(t), broker.WithDial(network.dial))
	tp := broker.TopicPartition{Topic: createTopic(t, 1)}
	p := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second, MaxBatchBytes: 190})
	records := make([]broker.Record, 3000)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, "%04d", i) // three such records fit into a batch
	}
	res := p.Produce(testContext(t), tp, records)
	for i, rec := range res.Records {
		check.Require(t, rec.Err == nil && rec.Offset == int64(i), "record %d = %+v, want offset %d", i, rec, i)
	}
	check.Equal(t, end(t, c, tp), 3000, "log end")
	got := network.count(protocol.Produce)
	check.True(t, got == 1000, "%d batches, want 1000", got)
	check.Equal(t, network.count(protocol.InitProducerId), 1, "producer ids asked for")
}

// wantFates checks the fate of each record; 0 means that it was written.
func wantFates(t *testing.T, res broker.ProduceResult, fates ...broker.Fate) {
	t.Helper()
	check.Require(t, len(res.Records) == len(fates), "%d results, want %d", len(res.Records), len(fates))
	for i, rec := range res.Records {
		var failed *broker.ProduceError
		var got broker.Fate
		if errors.As(rec.Err, &failed) {
			got = failed.Fate
		}
		check.True(t, got == fates[i] && (rec.Err == nil) == (fates[i] == 0),
			"record %d: %v (%v), want %v", i, got, rec.Err, fates[i])
	}
}

func classOf(err error) broker.Class {
	var failed *broker.ProduceError
	if !errors.As(err, &failed) {
		return broker.Class(fmt.Sprintf("no ProduceError: %v", err))
	}
	return failed.Class
}
