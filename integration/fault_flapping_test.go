package integration_test

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestFaultIngesterThatKeepsDying: beside a healthy ingester, another one starts again and again, and is killed 3 to 7 s
// later. Each of them stays a member of the consumer group until its session ends, so the group is nearly always
// distributing its partitions again. The healthy ingester goes on storing the records of all partitions.
func TestFaultIngesterThatKeepsDying(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	session := "DLQ_INGEST_SESSION_TIMEOUT=15s" // the default
	l.startReady("ingester", session)
	l.produce(20, nil)
	l.waitStored()

	end := time.After(pick(time.Minute, 10*time.Minute))
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	dying := l.start("ingester", session)
	life := func() <-chan time.Time {
		return time.After(3*time.Second + time.Duration(l.random.Int64N(int64(4*time.Second))))
	}
	for death, on := life(), true; on; {
		select {
		case <-tick.C:
			l.produce(5, nil)
		case <-death:
			dying.kill()
			dying, death = l.start("ingester", session), life()
		case <-end:
			on = false
		}
	}
	dying.kill()
	l.waitStored()
	l.wantStoredOnce()

	var gaps []struct {
		Partition int     `db:"dlq_partition"`
		Seconds   float64 `db:"seconds"`
	}
	check.NoError(t, l.db.Select(&gaps, `
		SELECT dlq_partition, max(extract(epoch FROM gap)) AS seconds FROM (
			SELECT dlq_partition, created_at - lag(created_at) OVER (PARTITION BY dlq_partition ORDER BY created_at) AS gap FROM dlq.dlq_messages
		) g GROUP BY dlq_partition ORDER BY dlq_partition`))
	t.Logf("longest time without a stored record, by partition: %v", gaps)
	for _, g := range gaps {
		if limit := othersFlow.limit(); g.Seconds > limit.Seconds() {
			t.Errorf("no record of partition %d was stored for %.1f s, want at most %s", g.Partition, g.Seconds, limit)
		}
	}
}
