package bulk

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const billing = "billing"

// consumer is a consumer group that reads topics of the fake Kafka. It commits each record at once; a record that fails
// comes back as a message soon after.
type consumer struct {
	*bench
	fails func(n int) bool // whether the consumer fails on its record with this number, from 0

	unread atomic.Int64 // dead letters that the ingester has not read
	ingest sync.Mutex
	mu     sync.Mutex
	reads  map[string]int // by topic: the records that it has read
	away   bool           // it has no members
}

// consume starts a consumer of topics, on whose groups the bench's redrives then wait. It reads until the returned
// function is called.
func (b *bench) consume(fails func(n int) bool, topics ...string) (c *consumer, stop func()) {
	c = &consumer{bench: b, fails: fails, reads: map[string]int{}}
	b.groups = c
	b.build(b.Store, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		for n := 0; ctx.Err() == nil; elapse(20 * time.Millisecond) {
			for _, topic := range topics {
				for _, id := range b.Kafka.Sent(topic)[c.read(topic):] {
					if c.mu.Lock(); c.away {
						c.mu.Unlock()
						break
					}
					c.reads[topic]++
					c.mu.Unlock()
					if n++; fails(n - 1) {
						over.Go(func() { c.bringBack(id) })
					}
				}
			}
		}
	})
	return c, func() { cancel(); over.Wait() }
}

func (c *consumer) read(topic string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads[topic]
}

func (c *consumer) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// bringBack stores the dead letter of a record that failed again, as the ingester does half a second later.
func (c *consumer) bringBack(id uuid.UUID) {
	ctx := context.Background()
	elapse(settleTime / 2)
	c.ingest.Lock()
	defer c.ingest.Unlock()
	attempts := append(check.Must(c.Store.History(ctx, id))(c), entity.Attempt{})
	ref := check.Must(c.Store.OpenTopics(ctx, []repository.Topic{{Name: deadLetter, Incarnation: "again"}}))(c)[0]
	at := repository.Partition{Incarnation: ref.Incarnation}
	next := check.Must(c.Store.OpenPosition(ctx, []repository.Position{{Partition: at}}))(c)[0].Next
	m := entity.NewMessage(orders, "boom again", time.Now())
	m.Source = entity.Source{Topic: deadLetter, TopicID: ref.TopicID, Incarnation: ref.Incarnation, Offset: next}
	m.Return = &entity.Return{Parent: id, Attempt: attempts[max(0, len(attempts)-2)].ID}
	check.Must(c.Store.Store.Store(ctx, repository.Batch{
		Ranges: []repository.Range{{Partition: at, From: next, To: next + 1}}, Messages: []entity.Message{m},
		Declared: func(*entity.Message) bool { return true },
	}))(c)
}

// Committed implements Groups.
func (c *consumer) Committed(_ context.Context, group string, topics []string) (offsets []repository.Committed, err error) {
	for _, topic := range topics {
		if n := c.read(topic); group == billing && n > 0 {
			offsets = append(offsets, repository.Committed{
				TopicGroup: repository.TopicGroup{Topic: topic, Group: group}, TopicID: "id of " + topic, Offset: int64(n),
			})
		}
	}
	return offsets, nil
}

// Ends implements Groups: the dead letters that came back, and those that the ingester has not read.
func (c *consumer) Ends(_ context.Context, positions []repository.IngestPosition) ([]repository.IngestPosition, error) {
	ends := slices.Clone(positions)
	for i := range ends {
		ends[i].Next += c.unread.Load()
	}
	return ends, nil
}

// Running implements Groups.
func (c *consumer) Running(_ context.Context, group string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return group == billing && !c.away, nil
}

// consumedBy sets the consumer group of messages.
func consumedBy(group string) func(*entity.Message) {
	return func(m *entity.Message) { m.Failure.ConsumerGroup = group }
}

func noneFails(int) bool { return false }
func allFail(int) bool   { return true }

// careful limits the share of returns, as the console's form does by default.
var careful = options(func(o *entity.RedriveOptions) { o.MaxReturnShare = 0.1 })

// wantStopped waits until the redrive has stopped itself, and checks how many messages it has sent.
func (b *bench) wantStopped(id uuid.UUID, note string, most int) {
	b.Helper()
	check.Is(b, check.Err(b.Wait(context.Background(), id)), entity.ErrUnavailable, "Wait")
	r := b.wantRedrive(id, entity.RedriveStopped, note)
	check.True(b, r.Counts.Sent() <= most, "%d messages were sent, want at most %d", r.Counts.Sent(), most)
}

func TestBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("ConsumerThatFailsAllGetsNoMoreThanTheSample", scenario(func(b *bench) {
		b.Add(400, consumedBy(billing))
		_, stop := b.consume(allFail, orders)
		defer stop()
		defer b.carry()()
		b.wantStopped(b.begin(careful).ID, "20 of 20 messages failed again, more than 10 %", 20)
	}))

	t.Run("HoldsOverProcesses", scenario(func(b *bench) {
		b.Add(400, consumedBy(billing))
		_, stop := b.consume(allFail, orders)
		defer stop()
		defer b.carry()()
		defer b.another().carry()()
		defer b.another().carry()()
		b.wantStopped(b.begin(careful).ID, "failed again, more than 10 %", 20)
	}))

	t.Run("ConsumerThatIsBrokenLaterStopsItWithinABound", scenario(func(b *bench) {
		b.Add(2000, consumedBy(billing))
		_, stop := b.consume(func(n int) bool { return n >= 300 }, orders)
		defer stop()
		defer b.carry()()
		b.wantStopped(b.begin(careful).ID, "failed again, more than 10 %", 300+640)
	}))

	t.Run("NothingIsKnownWhileTheIngesterIsBehind", scenario(func(b *bench) {
		b.Add(400, consumedBy(billing))
		c, stop := b.consume(noneFails, orders)
		defer stop()
		c.bringBack(b.Add(1)[0]) // so that the dead-letter topic has a position
		c.unread.Store(1)
		defer b.carry()()
		r := b.begin(careful)
		elapse(time.Minute)
		check.Same(b, len(b.Kafka.Sent(orders)), 20, "records while the ingester is behind")
		b.wantRedrive(r.ID, entity.RedriveRunning, "orders: it is not known that the ingester has read all dead letters")
		c.unread.Store(0)
		c.bringBack(b.Add(1)[0])
		b.wantEnd(r.ID, counted{Selected: 402, Succeeded: 402})
	}))

	t.Run("HealthyConsumerGetsAll", scenario(func(b *bench) {
		ids := b.Add(2000, consumedBy(billing))
		_, stop := b.consume(noneFails, orders)
		defer stop()
		defer b.carry()()
		began := time.Now()
		got := b.wantEnd(b.begin(careful).ID, counted{Selected: 2000, Succeeded: 2000})
		b.WantSent(orders, ids...)
		check.True(b, time.Since(began) < 20*time.Second, "it took %s", time.Since(began))
		check.True(b, len(got.Bounds) == 1 && got.Bounds[0].Bound >= 640, "bounds = %+v, want one that has grown", got.Bounds)
	}))

	t.Run("GroupThatIsAwayIsWaitedForAndSaysSo", scenario(func(b *bench) {
		b.Add(100, consumedBy(billing))
		c, stop := b.consume(noneFails, orders)
		defer stop()
		defer b.carry()()
		r := b.begin(careful)
		b.Within(time.Minute, "some are read", func() bool { return c.read(orders) > 0 })
		c.setAway(true)
		elapse(time.Hour)
		got := b.wantRedrive(r.ID, entity.RedriveRunning, "orders: the offsets of group billing, which has no running member, have not passed")
		check.True(b, !got.WaitingSince.IsZero(), "it does not say since when it waits")
		check.Is(b, check.Err(b.Resume(ctx, r.ID, entity.By("alice"))), entity.ErrConflict, "Resume")
		check.Must(b.Continue(ctx, r.ID, entity.By("alice")))(b)
		b.wantEnd(r.ID, counted{Selected: 100, Succeeded: 100})
	}))

	t.Run("GroupThatIsBackGoesOnByItself", scenario(func(b *bench) {
		b.Add(100, consumedBy(billing))
		c, stop := b.consume(noneFails, orders)
		defer stop()
		defer b.carry()()
		r := b.begin(careful)
		b.Within(time.Minute, "some are read", func() bool { return c.read(orders) > 0 })
		c.setAway(true)
		elapse(time.Minute)
		c.setAway(false)
		b.wantEnd(r.ID, counted{Selected: 100, Succeeded: 100})
	}))

	t.Run("GroupWithoutACommitmentIsLookedAtThreeTimes", scenario(func(b *bench) {
		b.Add(400, consumedBy("idle"))
		_, stop := b.consume(noneFails)
		defer stop()
		defer b.carry()()
		r := b.begin(careful)
		sent := func(n int) {
			b.Helper()
			check.Same(b, len(b.Kafka.Sent(orders)), n, "records after %s", time.Since(r.CreatedAt))
		}
		elapse(entity.DefaultCanaryWait - 5*time.Second)
		sent(20)
		got := b.wantRedrive(r.ID, entity.RedriveRunning, "cannot be known, because group idle has committed nothing there, or Kafka does not show it; waits for returns until")
		check.True(b, got.WaitingSince.IsZero(), "it waits since %s, want no wait that an operator must end", got.WaitingSince)
		elapse(entity.DefaultCanaryWait)
		sent(60)
		elapse(entity.DefaultCanaryWait)
		sent(140)
		got = b.wantEnd(r.ID, counted{Selected: 400, Succeeded: 400})
		check.True(b, got.Bounds[0].Lifted == entity.BoundUnknown && time.Since(r.CreatedAt) < 4*entity.DefaultCanaryWait,
			"bound = %+v after %s, want it lifted", got.Bounds[0], time.Since(r.CreatedAt))
	}))

	t.Run("WaitingTopicHoldsUpNoOther", scenario(func(b *bench) {
		b.Add(1000, consumedBy("idle"))
		other := b.Add(300, to("payments"), consumedBy(billing))
		_, stop := b.consume(noneFails, "payments")
		defer stop()
		defer b.carry()()
		r := b.begin(careful)
		elapse(entity.DefaultCanaryWait / 2)
		b.WantSent("payments", other...)
		check.Same(b, len(b.Kafka.Sent(orders)), 20, "records in the topic that waits")
		b.wantRedrive(r.ID, entity.RedriveRunning, "orders: the outcome of 20 messages")
	}))

	t.Run("KeyOrderHoldsUpNoOtherTopic", scenario(func(b *bench) {
		b.Add(600, consumedBy("idle"), keyed("a"))
		other := b.Add(100, to("payments"), consumedBy(billing), keyed("a"))
		_, stop := b.consume(noneFails, "payments")
		defer stop()
		defer b.carry()()
		b.begin(careful, options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true }))
		elapse(entity.DefaultCanaryWait / 2)
		b.WantSent("payments", other...)
		check.Same(b, len(b.Kafka.Sent(orders)), 20, "records in the topic that waits")
	}))

	t.Run("GroupsOfTheTargetDecideAfterARedirect", scenario(func(b *bench) {
		b.Add(100, consumedBy(billing))
		check.Must(b.Store.SaveRedirect(ctx, orders, "orders-b", nil, entity.By("alice")))(b)
		_, stop := b.consume(noneFails, orders)
		defer stop()
		defer b.carry()()
		r := b.begin(careful)
		elapse(entity.DefaultCanaryWait / 2)
		check.Same(b, len(b.Kafka.Sent("orders-b")), 20, "records in the target")
		b.wantRedrive(r.ID, entity.RedriveRunning, "orders-b: the outcome of 20 messages cannot be known, because group billing has committed nothing there")
		b.wantEnd(r.ID, counted{Selected: 100, Succeeded: 100})
	}))
}

func TestTargetThatIsGoneForAMoment(t *testing.T) {
	t.Parallel()
	missing := &entity.RefusedError{Class: entity.UnknownTopic, Reason: "topic \"orders\" does not exist", Missing: true}
	for name, missesAt := range map[string]func(b *bench, gone *atomic.Bool){
		"AtThePlan": func(b *bench, gone *atomic.Bool) {
			b.Kafka.PlanError = func(m entity.Message) error {
				if gone.Load() && m.OriginalTopic == orders {
					return missing
				}
				return nil
			}
		},
		"AtTheSend": func(b *bench, gone *atomic.Bool) {
			b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
				if gone.Load() && out.Target.Topic == orders {
					return false, entity.Delivery{Verdict: entity.Refused, Class: entity.UnknownTopic, Err: missing}
				}
				return true, acknowledged
			}
		},
	} {
		t.Run(name+"/IsWaitedFor", func(t *testing.T) {
			scenario(func(b *bench) {
				var gone atomic.Bool
				missesAt(b, &gone)
				ids, other := b.Add(600), b.Add(600, to("payments"))
				gone.Store(true)
				defer b.carry()()
				r := b.begin()
				elapse(20 * time.Second)
				b.WantSent("payments", other...)
				b.WantSent(orders)
				b.wantRedrive(r.ID, entity.RedriveRunning, "the target of orders does not exist; its messages are skipped at ")
				gone.Store(false)
				b.wantEnd(r.ID, counted{Selected: 1200, Succeeded: 1200})
				sent := b.Kafka.Sent(orders) // its two batches are sent side by side, so their order is open
				slices.SortFunc(sent, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
				check.Equal(b, sent, ids, "messages sent to orders, each once")
			})(t)
		})
	}
	t.Run("IsSkippedInTheEnd", scenario(func(b *bench) {
		ids := b.Add(600)
		b.Kafka.PlanError = notTo(orders, missing)
		defer b.carry()()
		r := b.begin()
		b.Within(2*time.Minute, "the redrive is over", func() bool { return b.look(r.ID).State.Over() })
		b.wantCounts(b.look(r.ID), counted{Selected: 600, Skipped: 600, Reasons: reasons{"UNKNOWN_TOPIC": 600}})
		check.True(b, time.Since(r.CreatedAt) >= time.Minute, "it waited for %s, want a minute", time.Since(r.CreatedAt))
		b.WantState(ids[0], entity.Pending, 0, "")
	}))
}
