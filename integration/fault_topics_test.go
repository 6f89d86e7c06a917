package integration_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// grown is the number of partitions of a topic after the test has added some to the first four.
const grown = partitions + 3

// TestFaultTopicGrows: partitions are added to a dead-letter topic while ingesters read it. The new partitions contain
// records before any program knows the partitions. All of their records are stored and republished, like those of the
// old partitions.
func TestFaultTopicGrows(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	api := l.startReady("api")
	// Long sessions prevent a rebalance for another reason, after which the ingesters would see the new partitions.
	calm := "DLQ_INGEST_SESSION_TIMEOUT=10s"
	ingesters := []*process{l.startReady("ingester", calm), l.startReady("ingester", calm)}
	eventually(t, "both ingesters read", func() bool {
		shares := l.kafka.shares(l.prefix)
		return len(shares) == 2 && shares[0] > 0 && shares[1] > 0 && shares[0]+shares[1] == partitions
	})
	point := 1 + l.random.IntN(10)
	l.produce(pick(1000, 5000), func(chunk int) {
		if chunk == point {
			l.grow(l.source, grown)
			l.produceInto(partitions, grown, 50)
		}
	})
	l.produceInto(0, grown, 200)
	l.waitStored()
	l.wantStoredOnce()
	in := fmt.Sprintf("dlq_partition >= %d", partitions)
	if got := l.count(in); got < 50 {
		t.Errorf("%d messages come from the new partitions, want at least 50", got)
	}
	l.retryTheRest(api)
	l.wantResolvedOnce()
	for _, p := range ingesters {
		if lost := p.metric("dlq_ingest_records_lost_total"); lost != 0 {
			t.Errorf("an ingester counts %v lost records, want none", lost)
		}
		p.wantRunning()
	}
}

// grow adds partitions to a topic, and waits until every broker knows them. It replaces the tests' own client, because
// a new client then knows them at once.
func (s *system) grow(topic string, to int) {
	s.t.Helper()
	res, err := s.kafka.admin.CreatePartitions(s.t.Context(), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(to)}},
	})
	if err != nil || res.Errors[topic] != nil {
		s.t.Fatalf("add partitions to %s: %v, %+v", topic, err, res)
	}
	for _, b := range s.kafka.client.SeedBrokers() {
		eventually(s.t, "the broker knows the added partitions", func() bool {
			res, err := metadataOf(topic).RequestWith(s.t.Context(), b)
			return err == nil && len(res.Topics) == 1 && len(res.Topics[0].Partitions) == to
		})
	}
	s.kafka = newCluster(s.t, s.brokers)
}

// produceInto writes n dead letters into the partitions of the dead-letter topic from the number first to the number
// end-1.
func (l *letters) produceInto(first, end, n int) {
	l.t.Helper()
	var records []*kgo.Record
	for i := range n {
		r := l.letter()
		r.Partition = int32(first + i%(end-first))
		records = append(records, r)
	}
	l.kafka.produce(records...)
}

// TestFaultTargetGrows: an API that has already sent records to a topic also sends records to partitions that were
// added later. While the partition in which a record failed does not exist in the target topic, the record goes to the
// partition of its key.
func TestFaultTargetGrows(t *testing.T) {
	t.Parallel()
	const n = 40
	l := newLetters(newSystem(t))
	api := l.startReady("api")
	target := l.topic("grown.events.v1")
	l.kafka.create(target, partitions)
	from := func(partition int32) {
		for i := range n {
			r := l.dead(target, i)
			r.Key = fmt.Appendf(nil, "key-%d", i)
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, byte(partition)}})
			l.kafka.produce(r)
		}
	}
	from(grown - 1)
	l.taken(n)
	l.wantReport(api, report{Selected: n, Retried: n})
	for _, r := range l.kafka.readAll(target) {
		if r.Partition >= partitions {
			t.Errorf("a record went to partition %d, want one of the original %d", r.Partition, partitions)
		}
	}
	l.grow(target, grown)
	from(grown - 1)
	l.taken(2 * n)
	l.wantReport(api, report{Selected: n, Retried: n})
	home := 0
	for _, r := range l.kafka.readAll(target) {
		if r.Partition == grown-1 {
			home++
		}
	}
	check.True(t, home == n, "%d records are in the partition that was added, want the %d that failed there", home, n)
}

// TestFaultRetentionWasFaster: Kafka removes records before the ingester has read them, while the ingester is stopped
// and while it is suspended. The ingester counts and logs the removed records, and stores all other records.
func TestFaultRetentionWasFaster(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	l.stored(400)
	lost := 0
	for range pick(1, 3) {
		l.produce(400, nil)
		ends, read := l.kafka.logEnds(l.source), l.positions()
		removed := map[int]int64{0: ends[0], 1: (read[1] + ends[1]) / 2, 2: read[2] + 1, 3: read[3]}
		l.kafka.deleteBefore(l.source, removed)
		away := 0
		for p, offset := range removed {
			away += int(offset - read[p])
		}
		ingester := l.startReady("ingester")
		log := ear{ingester, 0}
		eventually(t, "every remaining record is stored", func() bool { return l.count("true") >= len(l.sent)-lost-away })
		if got := ingester.metric("dlq_ingest_records_lost_total"); int(got) != away || away == 0 {
			t.Errorf("%v records are counted as lost, want %d", got, away)
		}
		if got := log.said("kafka removed records before they were read", l.source); got != 3 {
			t.Errorf("the log reports removed records %d times, want 3: once for each partition that lost some", got)
		}
		lost += away + l.lostWhileStanding(ingester, lost+away)
		l.wantStoredBut(lost)
		ingester.stop()
	}
}

// lostWhileStanding suspends the ingester, produces records, removes them from Kafka, and returns how many of them the
// ingester has lost. The parameter lost is the number of records that were lost before. The ingester stores records
// that it had already received, so the number cannot be predicted.
func (l *letters) lostWhileStanding(ingester *process, lost int) int {
	l.t.Helper()
	before := ingester.metric("dlq_ingest_records_lost_total")
	ingester.signal(syscall.SIGSTOP)
	for range 5 { // the fetch that the ingester has already sent returns the first of these records
		l.produce(100, nil)
	}
	l.kafka.deleteBefore(l.source, l.kafka.logEnds(l.source))
	ingester.signal(syscall.SIGCONT)
	l.produce(100, nil)
	standing := 0
	eventually(l.t, "every record is stored or counted as lost", func() bool {
		standing = int(ingester.metric("dlq_ingest_records_lost_total") - before)
		return l.count("true")+standing+lost >= len(l.sent)
	})
	l.t.Logf("%d of 500 records were lost while the ingester was suspended", standing)
	if standing == 0 {
		l.t.Error("no record was lost while the ingester was suspended, want retention to be faster")
	}
	return standing
}

// wantStoredBut checks that every record is stored exactly once, except the records that Kafka has removed, whose
// number is lost.
func (l *letters) wantStoredBut(lost int) {
	l.t.Helper()
	var rows []struct {
		Partition int32 `db:"dlq_partition"`
		Offset    int64 `db:"dlq_offset"`
	}
	check.NoError(l.t, l.db.Select(&rows, `SELECT dlq_partition, dlq_offset FROM dlq.dlq_messages`))
	stored := map[string]bool{}
	for _, r := range rows {
		stored[fmt.Sprintf("%s/%d/%d", l.source, r.Partition, r.Offset)] = true
	}
	there := map[string]bool{}
	for _, r := range l.kafka.holds(l.source) {
		there[position(r)] = true
	}
	missing := 0
	for _, r := range l.sent {
		switch at := position(r); {
		case stored[at]:
		case there[at]:
			l.t.Errorf("record %s is in Kafka and not stored", at)
		default:
			missing++
		}
	}
	if missing != lost || len(rows) != len(stored) || len(stored) != len(l.sent)-lost {
		l.t.Errorf("%d rows of %d records, %d of those sent are missing; want %d rows and %d missing",
			len(rows), len(stored), missing, len(l.sent)-lost, lost)
	}
}

// holds returns all records that a topic contains now. Unlike readAll, it also works after records were deleted from
// the topic.
func (c *cluster) holds(topic string) []*kgo.Record {
	c.t.Helper()
	left := map[int32]int64{}
	for p, end := range c.logEnds(topic) {
		left[int32(p)] = end
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check.NoError(c.t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var out []*kgo.Record
	for len(left) > 0 {
		fetched := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			c.t.Fatalf("read %s: %v", topic, err)
		}
		fetched.EachPartition(func(p kgo.FetchTopicPartition) {
			out = append(out, p.Records...)
			if len(p.Records) > 0 && p.Records[len(p.Records)-1].Offset >= left[p.Partition]-1 {
				delete(left, p.Partition)
			}
		})
	}
	return out
}

// positions returns, for each partition, the next offset that the ingester will store.
func (l *letters) positions() map[int]int64 {
	l.t.Helper()
	var rows []struct {
		Partition int
		Next      int64 `db:"next_offset"`
	}
	check.NoError(l.t, l.db.Select(&rows, `SELECT partition, next_offset FROM dlq.ingest_positions`))
	next := map[int]int64{}
	for _, r := range rows {
		next[r.Partition] = r.Next
	}
	return next
}

// deleteBefore removes the records below these offsets, as retention does.
func (c *cluster) deleteBefore(topic string, offsets map[int]int64) {
	c.t.Helper()
	of := kmsg.NewDeleteRecordsRequestTopic()
	of.Topic = topic
	for p, offset := range offsets {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = int32(p), offset
		of.Partitions = append(of.Partitions, part)
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, of)
	res, err := req.RequestWith(c.t.Context(), c.client)
	check.NoError(c.t, err)
	for _, p := range res.Topics[0].Partitions {
		check.Require(c.t, p.ErrorCode == 0, "delete records of %s/%d: %d", topic, p.Partition, p.ErrorCode)
	}
}
