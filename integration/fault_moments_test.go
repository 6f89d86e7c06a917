package integration_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// storeChange is the name of the statement by which the ingester stores records and its positions.
const storeChange = "store"

// nameMoment returns a name for a statement by which the ingester or the API changes the database; "" for any other
// statement.
func nameMoment(text string) string {
	if strings.Contains(text, "INSERT INTO dlq.dlq_messages") && strings.Contains(text, "next_offset") {
		return storeChange
	}
	return nameChange(text)
}

// forEver is longer than any test. The proxy delays a request by this time, to hold it until the test breaks the
// connection.
const forEver = time.Hour

// killAt kills a process when the proxy sees the nth occurrence of a step, that is, of a named request or statement.
// This step never arrives at the server, because the proxy holds it until the test breaks the connection. So the server
// has executed everything before the step, but not the step itself. The returned channel is closed after the kill.
func killAt(way *proxy.Proxy, p *process, moment string, nth int64) <-chan struct{} {
	killed := make(chan struct{})
	var seen atomic.Int64
	way.Decide(func(what string) proxy.Action {
		switch n := seen.Load(); {
		case n >= nth: // the process was killed: what it sent before its death must not reach the server
			return proxy.Delay(forEver)
		case what != moment || seen.Add(1) != nth:
			return proxy.Pass()
		}
		p.kill()
		close(killed)
		return proxy.Delay(forEver)
	})
	return killed
}

// moments is a system under test whose programs are killed while they send a request or statement to a server.
type moments struct {
	*letters
	kafkaWay, databaseWay *proxy.Proxy
	luck                  *chance
}

// TestFaultKilledAtNamedMoments: a program is killed between two of its requests or statements. For each such moment,
// the stored data after the kill proves that the program was killed exactly then. The program that is started next then
// completes the work.
func TestFaultKilledAtNamedMoments(t *testing.T) {
	t.Parallel()
	own, kafkaWay := proxiedKafka(t, nil)
	where := postgrestest.URL(t)
	databaseWay := newProxy(t, proxy.Statements(nameMoment))
	databaseWay.To(hostOf(t, where))
	l := newLetters(newSystemOn(t, own.Brokers(), where))
	m := &moments{letters: l, kafkaWay: kafkaWay, databaseWay: databaseWay, luck: newChance(l)}
	watching := l.account().watch()
	for range pick(1, 8) {
		m.fetchedNotStored()
		m.storedNotCommitted()
		m.claimedNotSent()
		m.sentNotNoted()
	}
	m.luck.wantCounted(t, map[string]int{
		"fetched, not stored": pick(1, 8), "stored, not committed": pick(1, 8),
		"claimed, not sent": pick(1, 8), "sent, not noted": pick(1, 8),
	})
	api := l.startReady("api", impatient()...)
	l.retryTheRest(api)
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	watching.want(5)
}

func (m *moments) env() []string {
	return impatient(kafkaBy(m.kafkaWay), databaseBy(m.databaseWay), "DLQ_REDRIVE_WORKERS=1")
}

// died waits until killAt has killed the process, and breaks the connections that the proxy held.
func (m *moments) died(killed <-chan struct{}, way *proxy.Proxy, moment string) {
	m.t.Helper()
	select {
	case <-killed:
	case <-time.After(time.Minute):
		m.t.Fatalf("the step did not occur: %s", moment)
	}
	way.CutAll()
	way.Decide(nil)
}

// rests waits until a number stops changing. It changes for some time after a kill, because a server still works on
// earlier requests of the killed program.
func (m *moments) rests(what string, number func() int) (now int) {
	m.t.Helper()
	before := -1
	eventually(m.t, what+" stop changing", func() bool {
		before, now = now, number()
		lasting(200 * time.Millisecond)
		return now == before && now == number()
	})
	return now
}

// fetchedNotStored kills the ingester when it has fetched records, and before the statement that stores them arrives at
// PostgreSQL.
func (m *moments) fetchedNotStored() {
	m.t.Helper()
	victim := m.startReady("ingester", m.env()...)
	before := len(m.sent)
	killed := killAt(m.databaseWay, victim, storeChange, 1+int64(m.random.IntN(3)))
	m.produce(400, nil)
	m.died(killed, m.databaseWay, "fetched, not stored")
	if rows := m.rests("rows", func() int { return m.count("true") }); rows >= before && rows < len(m.sent) {
		m.luck.count("fetched, not stored")
	} else {
		m.t.Errorf("%d rows when the ingester was killed, want %d at least and less than %d", rows, before, len(m.sent))
	}
	m.next()
}

// storedNotCommitted kills the ingester when PostgreSQL has stored the rows and positions, and before the offset commit
// arrives at Kafka.
func (m *moments) storedNotCommitted() {
	m.t.Helper()
	m.kafka.waitNoLag(m.prefix, m.source)
	victim := m.startReady("ingester", m.env()...)
	killed := killAt(m.kafkaWay, victim, proxy.OffsetCommit, 1)
	m.produce(400, nil)
	m.died(killed, m.kafkaWay, "stored, not committed")
	stored := m.rests("rows", func() int { return m.count("true") })
	committed := 0
	for _, offset := range m.kafka.committed(m.prefix, m.source) {
		committed += int(max(offset, 0))
	}
	if stored > committed {
		m.luck.count("stored, not committed")
	} else {
		m.t.Errorf("%d rows and offsets up to %d when the ingester was killed, want more rows", stored, committed)
	}
	m.next()
}

// next starts another ingester, which must complete the work of the killed ingester.
func (m *moments) next() {
	m.t.Helper()
	p := m.startReady("ingester")
	m.waitStored()
	m.kafka.waitNoLag(m.prefix, m.source)
	m.wantStoredOnce()
	p.stop()
}

// claimedNotSent kills the API when its claim is committed, and before any byte of a record arrives at Kafka.
func (m *moments) claimedNotSent() {
	m.t.Helper()
	m.stored(300)
	victim := m.startReady("api", m.env()...)
	published := len(m.published())
	killed := killAt(m.kafkaWay, victim, proxy.ProduceBegins, 1)
	asked := m.retryAll(victim)
	m.died(killed, m.kafkaWay, "claimed, not sent")
	m.lost(asked)
	held := m.rests("claims", func() int { return m.with("RETRYING") })
	if now := len(m.published()); held > 0 && now == published {
		m.luck.count("claimed, not sent")
	} else {
		m.t.Errorf("%d claims and %d records more when the API was killed, want claims and no record", held, now-published)
	}
	m.settled(held, "PENDING")
}

// sentNotNoted kills the API when the records are in their original topic, and before the statement that stores the
// result arrives at PostgreSQL.
func (m *moments) sentNotNoted() {
	m.t.Helper()
	m.stored(300)
	victim := m.startReady("api", m.env()...)
	resolved, published := m.with("RESOLVED"), len(m.published())
	killed := killAt(m.databaseWay, victim, resultChange, 1)
	asked := m.retryAll(victim)
	m.died(killed, m.databaseWay, "sent, not noted")
	m.lost(asked)
	held := m.rests("claims", func() int { return m.with("RETRYING") })
	if now := len(m.published()); held > 0 && now > published && m.with("RESOLVED") == resolved {
		m.luck.count("sent, not noted")
	} else {
		m.t.Errorf("%d claims, %d records more and %d messages RESOLVED instead of %d when the API was killed, want claims and records and none more resolved",
			held, now-published, m.with("RESOLVED"), resolved)
	}
	m.settled(held, "RESOLVED")
}

// lost checks that the connection of the client broke, without an answer, when the API was killed.
func (m *moments) lost(asked <-chan answer) {
	m.t.Helper()
	if a := m.await(asked); a.status != 0 {
		m.t.Errorf("retry-all = %d %.300s, want a connection that broke", a.status, a.body)
	}
}

// settled starts another API, and checks that it settles the claims of the killed API from the log of the original
// topic and completes the redrive.
func (m *moments) settled(held int, status string) {
	m.t.Helper()
	before := m.settledAs(status)
	api := m.startReady("api", impatient()...)
	m.redrivesOver()
	eventuallyAs(m.t, claimIsSettled, "every abandoned claim is settled", func() bool { return m.with("RETRYING") == 0 })
	if got := m.settledAs(status) - before; got < held {
		m.t.Errorf("%d of %d claims were settled as %s from the log, want all", got, held, status)
	}
	api.stop()
}

// settledAs returns how many attempts were settled from the log of the target topic with the given result. It counts
// attempts and not messages, because a message that was returned to PENDING may have been sent again since then.
func (m *moments) settledAs(status string) (n int) {
	m.t.Helper()
	check.NoError(m.t, m.db.Get(&n, `SELECT count(*) FROM dlq.attempts WHERE actor = 'settler' AND to_status = $1`, status))
	return n
}
