package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

func leaderOf(t testing.TB, c *broker.Cluster, topics ...string) int32 {
	t.Helper()
	got, err := c.Topics(testContext(t), topics...)
	check.Require(t, err == nil && len(got) != 0 && len(got[0].Partitions) != 0, "Topics(%v) = %v, %v", topics, got, err)
	return got[0].Partitions[0].Leader
}

func fetchPart(t *testing.T, c *broker.Cluster, req broker.FetchRequest, tp broker.TopicPartition, offset int64) broker.FetchedPartition {
	t.Helper()
	req.Leader = leaderOf(t, c, tp.Topic)
	req.Partitions = []broker.FetchPartition{{TopicPartition: tp, Offset: offset, MaxBytes: req.MaxBytes}}
	res := check.Must(c.Fetch(testContext(t), req))(t)
	return res.Partitions[0]
}

// drain fetches from offset 0 to the end of the log and returns all records.
func drain(t *testing.T, c *broker.Cluster, req broker.FetchRequest, tp broker.TopicPartition) (records []broker.Record, next int64) {
	t.Helper()
	for range 200 {
		got := fetchPart(t, c, req, tp, next)
		check.Require(t, got.Err == nil, "Fetch(%s, %d): %v", tp, next, got.Err)
		records, next = append(records, got.Records...), got.Next
		if next >= got.HighWatermark {
			return records, next
		}
	}
	t.Fatalf("Fetch(%s) does not reach the end, stopped at %d", tp, next)
	return nil, 0
}

func TestFetch_Transactions(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	writeTransactions(t, tp)
	// The broker writes a transaction's end marker a little after it has answered the request to end the transaction.
	check.Eventually(t, "all markers", func() bool { return end(t, c, tp) == transactionsEnd })

	tests := map[string]struct {
		req  broker.FetchRequest
		want string
	}{
		"CommittedOnly":          {broker.FetchRequest{ReadCommitted: true}, "plain a0 a1 c0 c1 tail"},
		"CommittedInSmallPieces": {broker.FetchRequest{ReadCommitted: true, MaxBytes: 1}, "plain a0 a1 c0 c1 tail"},
		"Everything":             {broker.FetchRequest{}, "plain a0 b0 b1 a1 b2 c0 c1 d0 tail"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records, next := drain(t, c, test.req, tp)
			check.Equal(t, texts(records), test.want, "records")
			check.True(t, next == transactionsEnd, "next = %d, want the end %d, past the markers", next, transactionsEnd)
		})
	}
}

// transactionsEnd is the end offset of a log that writeTransactions has written.
const transactionsEnd = 14

// writeTransactions writes two pairs of interleaved transactions with two producers: first transaction a (committed) of
// the first producer with b (aborted) of the second producer, then c (committed) of the second producer with d
// (aborted) of the first producer. It writes ten records and four markers.
func writeTransactions(t *testing.T, tp broker.TopicPartition) {
	t.Helper()
	ctx := testContext(t)
	first, second := transactional(t, tp), transactional(t, tp)
	write := func(cl *kgo.Client, value string) {
		rec := &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Value: []byte(value)}
		check.NoError(t, cl.ProduceSync(ctx, rec).FirstErr())
	}
	finish := func(cl *kgo.Client, commit kgo.TransactionEndTry) { check.NoError(t, cl.EndTransaction(ctx, commit)) }
	begin := func(cl *kgo.Client) { check.NoError(t, cl.BeginTransaction()) }
	plain := client(t)
	write(plain, "plain")
	begin(first)
	begin(second)
	for _, value := range strings.Fields("a0 b0 b1 a1 b2") {
		if value[0] == 'a' {
			write(first, value)
		} else {
			write(second, value)
		}
	}
	finish(first, kgo.TryCommit)
	finish(second, kgo.TryAbort)
	begin(second)
	write(second, "c0")
	write(second, "c1")
	begin(first)
	write(first, "d0")
	finish(second, kgo.TryCommit)
	finish(first, kgo.TryAbort)
	write(plain, "tail")
}

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append(opts, kgo.SeedBrokers(stacktest.Kafka(t)...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	cl := check.Must(kgo.NewClient(opts...))(t)
	t.Cleanup(cl.Close)
	return cl
}

func transactional(t *testing.T, tp broker.TopicPartition) *kgo.Client {
	t.Helper()
	return client(t, kgo.TransactionalID(uniqueName(t)))
}

func TestFetch_OpenTransactionHoldsCommittedReadersOnly(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	mustProduce(t, c, tp, values("before")...)
	cl := transactional(t, tp)
	check.NoError(t, cl.BeginTransaction())
	check.NoError(t, cl.ProduceSync(testContext(t), &kgo.Record{Topic: tp.Topic, Value: []byte("open")}).FirstErr())
	committed := fetchPart(t, c, broker.FetchRequest{ReadCommitted: true}, tp, 0)
	if texts(committed.Records) != "before" || committed.LastStable != 1 || committed.HighWatermark != 2 || committed.Next != 1 {
		t.Errorf("committed = %q, stable %d, high %d, next %d, want before, 1, 2, 1",
			texts(committed.Records), committed.LastStable, committed.HighWatermark, committed.Next)
	}
	check.Equal(t, texts(scanAll(t, c, tp)), "before open", "Scan")
	stable := check.Must(c.StableOffsets(testContext(t), []broker.TopicPartition{tp}))(t)
	check.Equal(t, []int64{stable[tp], end(t, c, tp)}, []int64{1, 2}, "StableOffsets and EndOffsets")
	check.NoError(t, cl.EndTransaction(testContext(t), kgo.TryAbort))
}

func TestFetch_ManyPartitionsInOneRequest(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	name, other := createTopic(t, 3), createTopic(t, 1)
	req := broker.FetchRequest{Leader: leaderOf(t, c, name, other), MaxWait: time.Second}
	for i := range int32(3) {
		tp := broker.TopicPartition{Topic: name, Partition: 2 - i}
		mustProduce(t, c, tp, values(fmt.Sprint(tp.Partition), "x")...)
		req.Partitions = append(req.Partitions, broker.FetchPartition{TopicPartition: tp, Offset: 0})
	}
	far := broker.TopicPartition{Topic: other}
	unknown := broker.TopicPartition{Topic: uniqueName(t)}
	missing := broker.TopicPartition{Topic: other, Partition: 5}
	req.Partitions = append(req.Partitions, broker.FetchPartition{TopicPartition: far, Offset: 99},
		broker.FetchPartition{TopicPartition: unknown}, broker.FetchPartition{TopicPartition: missing})
	res, err := c.Fetch(testContext(t), req)
	check.Require(t, err == nil && len(res.Partitions) == 6, "Fetch = %d partitions, %v, want 6", len(res.Partitions), err)
	for i := range 3 {
		got := res.Partitions[i]
		if got.TopicPartition != req.Partitions[i].TopicPartition || got.Err != nil || got.Next != 2 ||
			texts(got.Records) != fmt.Sprintf("%d x", 2-i) || got.Records[1].TopicPartition != got.TopicPartition {
			t.Errorf("partition %d = %+v, want two records", i, got)
		}
	}
	for i, want := range []error{broker.ErrOutOfRange, broker.ErrUnknownTopic, broker.ErrUnknownTopic} {
		if got := res.Partitions[3+i]; !errors.Is(got.Err, want) || got.Next != req.Partitions[3+i].Offset {
			t.Errorf("%s = %v, next %d, want %v and no step", got.TopicPartition, got.Err, got.Next, want)
		}
	}
}

func TestFetch_UnknownBrokerIsUnavailable(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	_, err := c.Fetch(testContext(t), broker.FetchRequest{Leader: 4711, Partitions: []broker.FetchPartition{{}}})
	check.Is(t, err, broker.ErrUnavailable, "Fetch from a broker that is not there")
}

func TestFetch_RecordLargerThanEveryLimit(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	mustProduce(t, c, tp, broker.Record{Value: make([]byte, 500_000)})
	got := fetchPart(t, c, broker.FetchRequest{MaxBytes: 1000}, tp, 0)
	check.True(t, len(got.Records) == 1 && len(got.Records[0].Value) == 500_000 && got.Next == 1,
		"Fetch = %d records, next %d, want the record", len(got.Records), got.Next)
}

func TestFetch_StartsInsideABatch(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	mustProduce(t, c, tp, numbered(10)...)
	if got := fetchPart(t, c, broker.FetchRequest{}, tp, 7); texts(got.Records) != "7 8 9" || got.Next != 10 {
		t.Errorf("Fetch from 7 = %q, next %d, want 7 8 9 and 10", texts(got.Records), got.Next)
	}
}

func TestReadAt(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	mustProduce(t, c, tp, numbered(10)...)
	deleteBefore(t, tp, 4)
	for offset, want := range map[int64]error{0: broker.ErrGone, 3: broker.ErrGone, 4: nil, 9: nil, 10: broker.ErrOutOfRange, 99: broker.ErrOutOfRange} {
		got, err := c.ReadAt(testContext(t), tp, offset)
		check.True(t, errors.Is(err, want), "ReadAt(%d) = %v, want %v", offset, err, want)
		check.True(t, want != nil || string(got.Value) == fmt.Sprint(offset),
			"ReadAt(%d) = %q, want its own record", offset, got.Value)
	}
	unknown := broker.TopicPartition{Topic: uniqueName(t)}
	check.Is(t, check.Err(c.ReadAt(testContext(t), unknown, 0)), broker.ErrUnknownTopic, "ReadAt in an unknown topic")
}

func TestScan(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	mustProduce(t, c, tp, numbered(10)...)
	deleteBefore(t, tp, 2)
	scan := func(ctx context.Context, from, to int64, stopAt string) (string, error) {
		var seen []broker.Record
		err := c.Scan(ctx, tp, from, to, "", func(r broker.Record) bool {
			seen = append(seen, r.Clone())
			return string(r.Value) == stopAt
		})
		return texts(seen), err
	}
	tests := []struct {
		from, to int64
		stopAt   string
		want     string
		err      error
	}{
		{2, 10, "", "2 3 4 5 6 7 8 9", nil},
		{4, 6, "", "4 5", nil},
		{4, 9, "5", "4 5", nil},
		{5, 5, "", "", nil},
		{0, 10, "", "", broker.ErrOutOfRange},
		{11, 12, "", "", broker.ErrOutOfRange},
	}
	for _, test := range tests {
		if got, err := scan(testContext(t), test.from, test.to, test.stopAt); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("Scan(%d, %d) = %q, %v, want %q, %v", test.from, test.to, got, err, test.want, test.err)
		}
	}
	// A fetch past the end waits for records until its context ends.
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	last := int64(-1)
	err := c.Scan(ctx, tp, 9, 12, "", func(r broker.Record) bool { last = r.Offset; cancel(); return false })
	check.True(t, last == 9 && errors.Is(err, context.Canceled),
		"Scan past the end = %v, last record %d, want the end of its context and 9", err, last)
}

func TestScan_MarkersAreNotRecords(t *testing.T) {
	t.Parallel()
	c, tp := onePartition(t)
	writeTransactions(t, tp)
	check.Eventually(t, "all markers", func() bool { return end(t, c, tp) == transactionsEnd })
	var records []broker.Record
	for offset, r := range scanAll(t, c, tp) {
		check.True(t, r.Offset == int64(offset), "Scan shows offset %d as number %d, want every offset", r.Offset, offset)
		check.True(t, !r.Control || r.Key == nil && r.Value == nil && len(r.Headers) <= 0,
			"Scan shows the marker %+v, want it bare", r)
		if !r.Control {
			records = append(records, r)
		}
	}
	check.Equal(t, texts(records), "plain a0 b0 b1 a1 b2 c0 c1 d0 tail", "Scan")
	// Offsets 6 and 7 hold only the end markers of two transactions.
	var markers int
	err := c.Scan(testContext(t), tp, 6, 8, "", func(r broker.Record) bool {
		if r.Control {
			markers++
		}
		return false
	})
	check.True(t, err == nil && markers == 2, "Scan over markers = %v with %d of them, want nil, 2", err, markers)
}

// deleteBefore moves the log's start, as retention does.
func deleteBefore(t *testing.T, tp broker.TopicPartition, offset int64) {
	t.Helper()
	cl := client(t)
	req := deleteRecordsRequest(tp, offset)
	res, err := req.RequestWith(testContext(t), cl)
	check.Require(t, err == nil && res.Topics[0].Partitions[0].ErrorCode == 0, "delete records before %d: %+v, %v", offset, res, err)
}

func TestGroup_CommitsAreSeen(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	name := createTopic(t, 2)
	zero, one := broker.TopicPartition{Topic: name}, broker.TopicPartition{Topic: name, Partition: 1}
	id := uniqueName(t)
	group := check.Must(c.Group(broker.GroupConfig{ID: id, Topics: []string{name}}))(t)
	defer group.Close()
	gen := check.Must(group.Next(testContext(t)))(t)
	if got := gen.Assignments[name]; len(got) != 2 || got[0].Offset != kafka.FirstOffset {
		t.Errorf("assignments = %+v, want both partitions from the first offset", got)
	}
	check.NoError(t, gen.CommitOffsets(map[string]map[int]int64{name: {1: 42}}))
	got, err := c.CommittedOffsets(testContext(t), id, []broker.TopicPartition{zero, one})
	check.True(t, err == nil && len(got) == 1 && got[one] == 42, "CommittedOffsets = %v, %v, want 42 for partition 1 only", got, err)
	found, err := c.CommittedOffsets(testContext(t), uniqueName(t), []broker.TopicPartition{zero})
	check.True(t, err == nil && len(found) == 0, "CommittedOffsets of a new group = %v, %v, want none", found, err)
}

func TestCluster_LostConnectionsAreReplacedUnseen(t *testing.T) {
	t.Parallel()
	network := &faultyNetwork{}
	c := open(t, stacktest.Kafka(t), broker.WithDial(network.dial))
	tp := broker.TopicPartition{Topic: createTopic(t, 1)}
	p := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second})
	for i := range 5 {
		check.NoError(t, p.Produce(testContext(t), tp, values(fmt.Sprint(i))).Err())
		network.cut()
		check.Equal(t, end(t, c, tp), int64(i+1), "log end")
		network.cut()
		got := fetchPart(t, c, broker.FetchRequest{}, tp, int64(i))
		check.True(t, texts(got.Records) == fmt.Sprint(i), "Fetch = %q, want %d", texts(got.Records), i)
		network.cut()
	}
}

func TestCluster_ClosedRefuses(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	check.Equal(t, errors.Join(c.Close(), c.Close()), nil, "Close twice")
	check.Is(t, check.Err(c.Topics(testContext(t))), broker.ErrClosed, "Topics after Close")
	wantFates(t, c.NewProducer(broker.ProducerConfig{Timeout: 100 * time.Millisecond}).
		Produce(testContext(t), broker.TopicPartition{Topic: "t"}, values("a")), broker.NotSent)
}
