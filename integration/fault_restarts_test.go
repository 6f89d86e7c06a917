package integration_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultDatabaseRestarts: PostgreSQL is restarted during a retry-all, with a fast shutdown (it
// disconnects its clients) and with an immediate one (it exits without a checkpoint).
func TestFaultDatabaseRestarts(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Postgres: true})
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), makeDatabase(t, own)))
	api := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2")...)
	luck := newChance(l)
	for range pick(1, 4) {
		for _, c := range []struct {
			how string
			end func() error
		}{{"fast", own.StopPostgres}, {"immediate", own.KillPostgres}} {
			l.interrupted(api, luck, c.how+" restart", pick(4000, 6000), func() error {
				if err := c.end(); err != nil {
					return err
				}
				return own.StartPostgres(t.Context())
			})
		}
	}
	luck.wantCounted(t, map[string]int{"fast restart": 1, "immediate restart": 1})
	l.wantNoFalseSuccess()
	l.retryTheRest(api)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	api.wantRunning()
}

// TestFaultBrokerStandsStill: during a retry-all the broker is suspended for longer than any timeout, while its
// connections stay open, and then processes the requests that it had received; in a second part, the broker shuts down
// normally and is started again later.
func TestFaultBrokerStandsStill(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.Empty(t)))
	api := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2")...)
	luck := newChance(l)
	for range pick(1, 3) {
		l.interrupted(api, luck, "silence", pick(4000, 6000), func() error {
			if err := own.PauseKafka(); err != nil {
				return err
			}
			lasting(pick(14*time.Second, 30*time.Second)) // longer than a claim's expiry
			return own.ResumeKafka()
		})
		l.retryTheRest(api) // so that no message is at its last attempt when the next silence begins
	}
	l.interrupted(api, luck, "stop and start", pick(4000, 6000), func() error {
		if err := own.StopKafka(); err != nil {
			return err
		}
		lasting(pick(time.Second, 30*time.Second))
		return own.StartKafka(t.Context())
	})
	luck.wantCounted(t, map[string]int{"silence": 1, "stop and start": 1})
	l.wantNoFalseSuccess()
	l.retryTheRest(api)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	api.wantRunning()
}

// interrupted stores n more messages and retries all, with a fault at a random moment. It counts
// the fault if the retry-all was still in progress.
func (l *letters) interrupted(api *process, luck *chance, what string, n int, fault func() error) {
	l.t.Helper()
	l.stored(n)
	l.slow(300 * time.Millisecond)
	asked := l.retryAllToPoint(api, n/4)
	if l.with("PENDING") > 0 {
		luck.count(what)
	}
	if err := fault(); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	l.slow(0)
	l.awaitBroken(asked)
	l.kafka.waitLeaders(l.target)
	l.wantNoFalseSuccess()
}

// waitLeaders waits until every partition of a topic answers. After a long silence, a broker must first register with
// the controller again.
func (c *cluster) waitLeaders(topic string) {
	c.t.Helper()
	var ask []kafka.OffsetRequest
	for p := range partitions {
		ask = append(ask, kafka.LastOffsetOf(p))
	}
	eventually(c.t, 30*time.Second, "every partition has its leader", func() bool {
		res, err := c.admin.ListOffsets(c.t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ask}})
		if err != nil || len(res.Topics[topic]) != partitions {
			return false
		}
		return !slices.ContainsFunc(res.Topics[topic], func(p kafka.PartitionOffsets) bool { return p.Error != nil })
	})
}

// retryAllToPoint starts a retry-all and returns at a random moment of it, after a random number of further messages,
// up to most, were resolved. If the request ends before that moment because of an earlier fault, it is repeated, as
// its answer demands.
func (l *letters) retryAllToPoint(api *process, most int) <-chan answer {
	l.t.Helper()
	at := l.with("RESOLVED") + 1 + l.random.IntN(most)
	for range 3 {
		asked := l.retryAll(api)
		early := false
		eventually(l.t, 30*time.Second, fmt.Sprintf("%d messages are resolved", at), func() bool {
			early = len(asked) > 0
			return early || l.with("RESOLVED") >= at
		})
		if !early {
			<-time.After(time.Duration(l.random.IntN(400)) * time.Millisecond) // a random moment, not a wait for a condition
			return asked
		}
		l.awaitBroken(asked)
	}
	l.t.Fatal("three times retry-all ended before there was a fault")
	return nil
}
