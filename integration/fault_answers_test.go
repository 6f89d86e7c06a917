package integration_test

import (
	"sync/atomic"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultProduceAnswersLost: Kafka's answers to produce requests are lost after Kafka has appended the records, or
// Kafka gets only half of a request. This happens to some requests, or to all requests for longer than any timeout. No
// client gets a success for a record that is not in the topic, and a message is published only once although it is sent
// again.
func TestFaultProduceAnswersLost(t *testing.T) {
	t.Parallel()
	own, kafka := proxiedKafka(t, nil)
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	l.stored(pick(1500, 15_000))
	api := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2", pick("DLQ_KAFKA_REPUBLISH_TIMEOUT=3s", "DLQ_KAFKA_REPUBLISH_TIMEOUT=5s"), kafkaBy(kafka))...)
	luck := newChance(l)

	for range pick(1, 4) {
		kafka.Decide(luck.cutting) // from now on, Kafka gets half of each produce request and appends no record
		l.retryUnderLosses(api, luck, partitions)
		kafka.Decide(luck.losing(1)) // from now on, Kafka appends each record, and the answer is lost
		l.retryUnderLosses(api, luck, partitions)
		kafka.Decide(luck.losing(3))
		l.retryUnderLosses(api, luck, 20)

		var seen atomic.Int64
		point := 1 + int64(l.random.IntN(10))
		kafka.Decide(func(what string) proxy.Action {
			if what == proxy.Produce && seen.Add(1) > point {
				return luck.loseAnswer()
			}
			return proxy.Pass()
		})
		l.awaitBroken(l.retryAll(api))
		l.wantNoFalseSuccess()
	}
	kafka.Decide(luck.losing(6))
	l.awaitBroken(l.retryAll(api))
	kafka.Decide(nil)
	l.wantNoFalseSuccess()
	var doubt int
	check.NoError(t, l.db.Get(&doubt, `SELECT count(*) FROM dlq.attempts WHERE actor = 'settler'`))
	t.Logf("%d attempts were settled from the log", doubt)
	if doubt == 0 {
		t.Error("no message was in doubt, want permanently lost answers")
	}
	luck.wantCounted(t, map[string]int{"black hole": 3, "cut at the answer": 3, "cut within the request": 1, "answer passed": 3, "retry not confirmed": 1, "retry succeeded": 1})
	l.retryTheRest(api)
	l.wantResolvedOnce()
	api.wantRunning()
}

// cutting breaks the connection in the middle of every produce request.
func (c *chance) cutting(what string) proxy.Action {
	if what != proxy.ProduceBegins {
		return proxy.Pass()
	}
	c.count("cut within the request")
	return proxy.Cut()
}

// losing returns a function for Proxy.Decide. It makes the proxy break the connection within some produce requests, and
// lose the answer to one in n produce requests.
func (c *chance) losing(n int) func(what string) proxy.Action {
	return func(what string) proxy.Action {
		switch what {
		case proxy.ProduceBegins:
			if c.of(4 * n) {
				c.count("cut within the request")
				return proxy.Cut()
			}
		case proxy.Produce:
			if c.of(n) {
				return c.loseAnswer()
			}
			c.count("answer passed")
		}
		return proxy.Pass()
	}
}

// loseAnswer returns one of the two actions that lose an answer: break the connection, or keep it open without an
// answer.
func (c *chance) loseAnswer() proxy.Action {
	if c.of(2) {
		c.count("black hole")
		return proxy.BlackHole()
	}
	c.count("cut at the answer")
	return proxy.CutAtAnswer(nil)
}

// retryUnderLosses retries n messages with one request each, all at the same time. After an answer of success, the
// record must be in the original topic. After an error, the message must be RETRYING or PENDING; while it is PENDING,
// its record must not be in the topic.
func (l *letters) retryUnderLosses(api *process, luck *chance, n int) {
	l.t.Helper()
	answers := l.clicks(l.somePending(n), api)
	published := l.published()
	for _, a := range answers {
		if a.status == 200 {
			luck.count("retry succeeded")
			if published[a.id] != 1 || l.state(a.id).Status != "RESOLVED" {
				l.t.Errorf("retry of %s = 200 with %d records and status %s, want one and RESOLVED", a.id, published[a.id], l.state(a.id).Status)
			}
			continue
		}
		luck.count("retry not confirmed")
		details := wantUnavailable(l.t, a.answer, "retry", 502, 503)
		got := l.state(a.id).Status
		if got != "RETRYING" && got != "PENDING" || a.status == 502 && got != details["status"] {
			l.t.Errorf("retry of %s = %d %v and the message is %s, want RETRYING or PENDING, as it says", a.id, a.status, details, got)
		}
		if got == "PENDING" && published[a.id] > 0 {
			l.t.Errorf("message %s is PENDING and in the original topic, want it to be in doubt", a.id)
		}
	}
}
