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

// TestFaultDatabaseRestarts: PostgreSQL is restarted while the API retries all messages. It stops by a fast shutdown,
// which disconnects its clients, and by an immediate shutdown, which exits without a checkpoint.
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

// TestFaultBrokerStandsStill: while the API retries all messages, the broker is suspended for longer than any timeout.
// Its connections stay open, and after the suspension it processes the requests that it had received. In a second part
// of the test, the broker shuts down normally and is started again later.
func TestFaultBrokerStandsStill(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	api := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2")...)
	luck := newChance(l)
	for range pick(1, 3) {
		l.interrupted(api, luck, "silence", pick(4000, 6000), func() error {
			if err := own.PauseKafka(); err != nil {
				return err
			}
			lasting(pick(14*time.Second, 30*time.Second)) // longer than the time after which a claim expires
			return own.ResumeKafka()
		})
		l.retryTheRest(api) // so that no message has only one attempt left when the broker is suspended again
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

// interrupted stores n more messages, retries all of them, and calls fault at a random moment. It counts the fault if
// messages were still left to retry.
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
	eventually(c.t, "every partition has its leader", func() bool {
		res, err := c.admin.ListOffsets(c.t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ask}})
		if err != nil || len(res.Topics[topic]) != partitions {
			return false
		}
		return !slices.ContainsFunc(res.Topics[topic], func(p kafka.PartitionOffsets) bool { return p.Error != nil })
	})
}

// retryAllToPoint starts a retry of all messages. It returns at a random moment, after a random number of further
// messages, at most the parameter most, were resolved. If the request ends before that because of an earlier fault,
// retryAllToPoint repeats it, as the API's answer asks the client to do.
func (l *letters) retryAllToPoint(api *process, most int) <-chan answer {
	l.t.Helper()
	at := l.with("RESOLVED") + 1 + l.random.IntN(most)
	for range 3 {
		asked := l.retryAll(api)
		early := false
		eventually(l.t, fmt.Sprintf("%d messages are resolved", at), func() bool {
			early = len(asked) > 0
			return early || l.with("RESOLVED") >= at
		})
		if !early {
			<-time.After(time.Duration(l.random.IntN(400)) * time.Millisecond) // the fault must come at a random moment
			return asked
		}
		l.awaitBroken(asked)
	}
	l.t.Fatal("three times retry-all ended before there was a fault")
	return nil
}
