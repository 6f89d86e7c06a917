package integration_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// consumer is a consumer group that reads a topic of a system. It commits each batch; a record on which it fails goes
// to the dead-letter topic, with the headers that it had.
type consumer struct {
	l     *letters
	group string
	topic string
	fails func(n int) bool // whether it fails on its record with this number, from 0

	n atomic.Int64 // records that it has read
}

func (l *letters) consumer(topic string, fails func(n int) bool) *consumer {
	return &consumer{l: l, group: l.prefix + "-billing", topic: topic, fails: fails}
}

// consume runs a member of the consumer group until the returned function is called.
func (c *consumer) consume() (stop func()) {
	c.l.t.Helper()
	k, err := kgo.NewClient(kgo.SeedBrokers(c.l.brokers...), kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check.NoError(c.l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		for ctx.Err() == nil {
			fetches := k.PollFetches(ctx)
			var failed []*kgo.Record
			for _, r := range fetches.Records() {
				if c.fails(int(c.n.Add(1)) - 1) {
					failed = append(failed, c.deadLetter(r))
				}
			}
			if err := k.ProduceSync(context.WithoutCancel(ctx), failed...).FirstErr(); err != nil && ctx.Err() == nil {
				c.l.t.Errorf("produce a dead letter: %v", err)
			}
			if len(fetches.Records()) > 0 {
				_ = k.CommitUncommittedOffsets(context.WithoutCancel(ctx))
			}
			k.AllowRebalance()
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); over.Wait(); k.Close() }) }
	c.l.t.Cleanup(stop)
	return stop
}

func (c *consumer) deadLetter(r *kgo.Record) *kgo.Record {
	kept := make([]kgo.RecordHeader, 0, len(r.Headers))
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, "kafka_dlt-") {
			kept = append(kept, h)
		}
	}
	return &kgo.Record{Topic: c.l.source, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: append(kept, failureOf(r, c.group)...)}
}

func failureOf(r *kgo.Record, group string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		{Key: "kafka_dlt-original-topic", Value: []byte(r.Topic)},
		{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(r.Partition))},
		{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(r.Offset))},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte(group)},
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.io.IOException")},
		{Key: "kafka_dlt-exception-message", Value: []byte("stock service is down")},
	}
}

// fail produces n dead letters of the consumer's group.
func (c *consumer) fail(n int) {
	c.l.t.Helper()
	var records []*kgo.Record
	for range n {
		i := len(c.l.sent)
		origin := &kgo.Record{Topic: c.l.target, Partition: int32(i % partitions), Offset: int64(i)}
		r := &kgo.Record{
			Topic: c.l.source, Partition: origin.Partition, Key: fmt.Appendf(nil, "order-%d", i), Value: fmt.Appendf(nil, `{"id": %d}`, i),
			Headers: failureOf(origin, c.group),
		}
		c.l.sent = append(c.l.sent, r)
		records = append(records, r)
	}
	c.l.kafka.produce(records...)
}

// braked is a system with an API, an ingester and stored dead letters of a consumer.
type braked struct {
	*operators
	consumer *consumer
	ingester *process
}

func newBraked(t *testing.T, n int, fails func(n int) bool) *braked {
	t.Helper()
	o := newOperators(t, "DLQ_DATABASE_AUTO_MIGRATE=true")
	c := o.consumer(o.target, fails)
	c.fail(n)
	ingester := o.startReady("ingester")
	o.waitStored()
	return &braked{o, c, ingester}
}

// defaults are the options of the console's form for a redrive of n messages.
func defaults(n int) client.RedriveOrder {
	return client.RedriveOrder{
		Canary: new(max(1, min(20, n/20))), CanaryWait: new("60s"), MaxFailureShare: new(float32(0.1)), MaxReturnShare: new(float32(0.1)), MinSample: new(20),
	}
}

// begin begins a redrive of all messages.
func (b *braked) begin(order client.RedriveOrder) uuid.UUID {
	b.t.Helper()
	order.Filter = &client.Filter{Topic: &b.source, CreatedBefore: new(time.Now().Add(time.Minute))}
	res, err := b.CreateRedriveWithResponse(b.t.Context(), nil, order)
	wantStatus(b.t, res, err, http.StatusAccepted)
	return res.JSON202.Id
}

func (b *braked) look(id uuid.UUID) client.Redrive {
	b.t.Helper()
	res, err := b.GetRedriveWithResponse(b.t.Context(), id)
	wantStatus(b.t, res, err, http.StatusOK)
	return *res.JSON200
}

// ended waits until the redrive has stopped itself or is over.
func (b *braked) ended(id uuid.UUID) client.Redrive {
	b.t.Helper()
	eventually(b.t, "the redrive has ended", func() bool {
		r := b.look(id)
		return r.State == "stopped" || r.State == "finished"
	})
	return b.look(id)
}

// records returns the number of records in a topic.
func (b *braked) records(topic string) int { return int(b.kafka.ends([]string{topic})) }

func (b *braked) says(id uuid.UUID, text string) {
	b.t.Helper()
	eventually(b.t, "the redrive says "+text, func() bool {
		r := b.look(id)
		return r.Note != nil && strings.Contains(*r.Note, text)
	})
}

// TestBrake: a redrive with a limit on what fails again sends few messages before it knows how they fared.
func TestBrake(t *testing.T) {
	t.Parallel()
	const n = 400
	all := func(int) bool { return true }
	none := func(int) bool { return false }

	t.Run("ConsumerThatFailsAllGetsTheCanaryAlone", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, n, all)
		b.consumer.consume()
		got := b.ended(b.begin(defaults(n)))
		check.True(t, got.State == "stopped" && got.Succeeded <= 20 && b.records(b.target) <= 20,
			"redrive is %s after %d messages, want stopped after 20", got.State, got.Succeeded)
	})

	t.Run("ConsumerThatFailsAllButTheFirstGetsAFew", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, n, func(n int) bool { return n > 0 })
		b.consumer.consume()
		order := defaults(n)
		order.Canary = new(1)
		got := b.ended(b.begin(order))
		check.True(t, got.State == "stopped" && got.Succeeded <= 1+20+5 && b.records(b.target) == got.Succeeded,
			"redrive is %s after %d messages, want stopped after a canary of 1 and a bound of 20", got.State, got.Succeeded)
	})

	t.Run("HealthyConsumerGetsAll", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, n, none)
		b.consumer.consume()
		got := b.ended(b.begin(defaults(n)))
		check.True(t, got.State == "finished" && got.Succeeded == n && b.records(b.target) == n,
			"redrive is %s after %d messages, want finished after %d", got.State, got.Succeeded, n)
	})

	t.Run("RetryAllHasTheSameRule", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, n, all)
		b.consumer.consume()
		status, body := b.api.try(http.MethodPost, "/api/v1/dlq/"+b.source+"/retry-all", []byte(`{"max_return_share": 0.1, "min_sample": 10}`))
		check.Same(t, status, http.StatusServiceUnavailable, "status, with %s", body)
		check.True(t, b.records(b.target) <= 15, "%d records were sent, want about 10", b.records(b.target))
	})

	t.Run("BoundHoldsOverReplicasKillsAndRestarts", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, n, none)
		stop := b.consumer.consume()
		eventually(t, "the group has committed", func() bool { return b.consumer.commits() })
		before := b.records(b.target)
		stop()
		apis := []*process{b.api, b.startReady("api")}
		id := b.begin(client.RedriveOrder{MaxReturnShare: new(float32(0.1))})
		for range 6 {
			eventually(t, "something was sent", func() bool { return b.records(b.target) > 1 })
			apis[0].kill()
			apis = append(apis[1:], b.startReady("api"))
		}
		b.api = apis[0]
		b.ClientWithResponses = b.client()
		b.says(id, "the offsets of group "+b.consumer.group+", which has no running member, have not passed 20 messages yet")
		check.Same(t, b.records(b.target), before+20, "records: those that were committed before, and the bound")

		b.api.call(http.MethodPost, "/api/v1/redrives/"+id.String()+"/resume", http.StatusConflict, nil)
		b.consumer.consume()
		got := b.ended(id)
		check.True(t, got.State == "finished" && got.Succeeded == n && b.records(b.target) == before+n, "redrive is %s after %d messages", got.State, got.Succeeded)
	})

	t.Run("NothingIsKnownWhileTheIngesterIsDown", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, n, func(n int) bool { return n > 0 })
		b.consumer.consume()
		eventually(t, "the group has committed", func() bool { return b.consumer.commits() })
		before := b.records(b.target)
		b.ingester.kill()
		id := b.begin(client.RedriveOrder{MaxReturnShare: new(float32(0.1))})
		for range 2 {
			b.says(id, "it is not known that the ingester has read all dead letters")
			check.Same(t, b.records(b.target), before+20, "records: those that were committed before, and the bound")
			b.api.kill()
			b.api = b.startReady("api")
			b.ClientWithResponses = b.client()
		}
		b.startReady("ingester")
		got := b.ended(id)
		check.True(t, got.State == "stopped" && got.Succeeded == 20, "redrive is %s after %d messages, want stopped after 20", got.State, got.Succeeded)
	})

	t.Run("TargetMadeAgainIsNotWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, 100, none)
		stop := b.consumer.consume()
		eventually(t, "the group has committed", func() bool { return b.consumer.commits() })
		stop()
		id := b.begin(client.RedriveOrder{MaxReturnShare: new(float32(0.1))})
		b.says(id, "which has no running member")
		b.kafka.delete(b.target)
		b.kafka.create(b.target, partitions)
		b.consumer.consume()
		newCluster(t, b.brokers).produce(&kgo.Record{Topic: b.target, Value: []byte("new")}) // the other client knows the old topic
		got := b.ended(id)
		check.True(t, got.State == "finished" && got.Succeeded == 100, "redrive is %s after %d messages", got.State, got.Succeeded)
	})

	t.Run("RedirectIsJudgedByTheGroupsOfItsTarget", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, 30, none)
		other := b.topic("moved.events.v1")
		b.kafka.create(other, partitions)
		stop := b.consumer.consume()
		eventually(t, "the group has committed", func() bool { return b.consumer.commits() })
		stop()
		b.sends(http.MethodPut, "/api/v1/redirects/"+b.target, `{"target": "`+other+`"}`, http.StatusOK)
		id := b.begin(client.RedriveOrder{MaxReturnShare: new(float32(0.1)), CanaryWait: new("10s"), Canary: new(2)})
		b.says(id, "cannot be known, because group "+b.consumer.group+" has committed nothing there, or Kafka does not show it; waits for returns until")
		got := b.ended(id)
		check.True(t, got.State == "finished" && b.records(other) == 30, "redrive is %s, %d records, want finished with 30", got.State, b.records(other))

		b.consumer.topic = other
		b.consumer.fail(30)
		b.waitStored()
		b.consumer.consume()
		id = b.begin(client.RedriveOrder{MaxReturnShare: new(float32(0.1)), CanaryWait: new("10m"), Canary: new(2)})
		eventually(t, "all are consumed", func() bool { r := b.look(id); return r.State == "finished" && r.Outcomes.Consumed == 30 })
	})

	t.Run("ContinueEndsTheWaitAndIsAudited", func(t *testing.T) {
		t.Parallel()
		b := newBraked(t, 100, none)
		stop := b.consumer.consume()
		eventually(t, "the group has committed", func() bool { return b.consumer.commits() })
		stop()
		id := b.begin(defaults(100))
		b.says(id, "which has no running member")
		path := "/api/v1/redrives/" + id.String() + "/continue"
		b.sends(http.MethodPost, path, `{"reason": "it starts tomorrow"}`, http.StatusOK)
		got := b.ended(id)
		check.True(t, got.State == "finished" && got.Succeeded == 100, "redrive is %s after %d messages", got.State, got.Succeeded)
		b.api.call(http.MethodPost, path, http.StatusConflict, nil)
		check.Same(t, b.audited("continue"), 1, "audit entries")
	})
}

// commits makes the consumer group commit an offset in its topic, by a record of its own, and reports whether it has.
func (c *consumer) commits() bool {
	if c.n.Load() == 0 {
		c.l.kafka.produce(&kgo.Record{Topic: c.topic, Value: []byte("first")})
	}
	return c.n.Load() > 0
}

// sends sends a request to the API, whose answer must have the status.
func (b *braked) sends(method, path, body string, want int) {
	b.t.Helper()
	status, answer := b.api.try(method, path, []byte(body))
	check.Require(b.t, status == want, "%s %s = %d %s, want %d", method, path, status, answer, want)
}

// TestBrakeFigures prints the figures of docs/benchmarks.md: how much a consumer gets that fails some of its replays,
// and what the brake costs where the consumer is healthy. A short run takes the console's options only, and fewer
// messages.
func TestBrakeFigures(t *testing.T) {
	t.Parallel()
	n := pick(100, 400)
	every := func(k int) func(int) bool { return func(n int) bool { return k > 0 && n%k == k-1 } }
	share := client.RedriveOrder{MaxReturnShare: new(float32(0.1)), MinSample: new(20)}
	one := defaults(n)
	one.Canary = new(1)
	orders := []struct {
		name  string
		order client.RedriveOrder
	}{
		{"the console's", defaults(n)}, {"a canary of 1, and a share of 10 %", one}, {"a share of 10 %", share}, {"no limits", client.RedriveOrder{}},
	}
	for _, fails := range []struct {
		name string
		k    int
	}{{"all", 1}, {"half", 2}, {"5 %", 20}, {"none", 0}} {
		for _, o := range orders[:pick(1, len(orders))] {
			b := newBraked(t, n, every(fails.k))
			stop := b.consumer.consume()
			began := time.Now()
			got := b.ended(b.begin(o.order))
			took := time.Since(began)
			eventually(t, "all that was sent is read", func() bool { return int(b.consumer.n.Load()) == got.Succeeded })
			stop()
			failed := 0
			for i := range got.Succeeded {
				if every(fails.k)(i) {
					failed++
				}
			}
			t.Logf("| %s | %s | %d of %d | %d | %s | %.1f s |", fails.name, o.name, got.Succeeded, n, failed, got.State, took.Seconds())
			check.True(t, got.State != "stopped" || got.Succeeded <= 60, "%s with %s: %d messages were sent before it stopped", fails.name, o.name, got.Succeeded)
		}
	}
	n = pick(1000, 20_000)
	b := newBraked(t, n, every(0))
	b.consumer.consume()
	for _, o := range []struct {
		name  string
		order client.RedriveOrder
	}{{"without a share", client.RedriveOrder{}}, {"with a share", share}, {"without a share", client.RedriveOrder{}}, {"with a share", share}} {
		began := time.Now()
		got := b.ended(b.begin(o.order))
		t.Logf("%d messages %s: %.1f s", got.Succeeded, o.name, time.Since(began).Seconds())
		check.Same(t, got.Succeeded, n, "messages "+o.name)
		_, err := b.db.Exec(`UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0, outcome = NULL WHERE status = 'RESOLVED'`)
		check.NoError(t, err)
	}
}
