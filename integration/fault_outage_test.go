package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultOutageKillsNothing: Kafka is down for a while, during automatic retry and three redrives of all messages.
// The outage must not use up the attempts of messages: afterwards no message is DEAD, and each message is published
// once.
func TestFaultOutageKillsNothing(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	l.stored(6000)
	origins := fmt.Sprintf("DLQ_KAFKA_ORIGINS=[{dlq: %q, originals: [%q]}]", l.source, l.target)
	auto := l.startReady("api", impatient(origins, "DLQ_REDRIVE_AUTO_TOPICS="+l.prefix+"-*", "DLQ_REDRIVE_AUTO_BATCH=8", "DLQ_REDRIVE_AUTO_PARALLELISM=1")...)
	l.slow(100 * time.Millisecond)
	ids := []string{l.begin(auto)}
	point := 1 + l.random.IntN(1000)
	eventually(t, "some messages are resolved", func() bool { return l.with("RESOLVED") >= point })
	check.NoError(t, own.KillKafka())
	l.slow(0)
	away := pick(20*time.Second, time.Minute)
	for range 2 {
		ids = append(ids, l.begin(auto))
		lasting(away / 2)
	}
	left := l.with("PENDING") + l.with("RETRYING")
	t.Logf("%d messages were pending after Kafka had been down for %s", left, away)
	if left == 0 {
		t.Error("nothing was left to send during the outage")
	}
	check.NoError(t, own.StartKafka(t.Context()))
	for _, id := range ids {
		got := l.finished(auto, id)
		t.Logf("redrive = %+v", got)
		check.True(t, got.Dead == 0, "redrive %s killed %d messages", id, got.Dead)
	}
	eventually(t, "automatic retry has sent the rest", func() bool { return l.with("RESOLVED") == len(l.sent) })
	l.wantResolvedOnce()
	auto.wantRunning()
}
