package integration_test

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultKafkaSlow: the network to Kafka is slow. Answers are late (in a long run by two seconds, so that hardly any
// attempt ends in time), the bandwidth is low, data arrives in small pieces, or connections are reset all the time.
// Meanwhile the ingester stores records and the API republishes them. No record is lost or published twice, and no
// client gets a success for a record that is not in the topic. When the network is fast again, the API publishes the
// rest.
func TestFaultKafkaSlow(t *testing.T) {
	t.Parallel()
	own, network := proxiedKafka(t, nil)
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	api := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2", kafkaBy(network))...)
	// The session is so long that the broker still accepts late heartbeats.
	ingester := l.startReady("ingester", kafkaBy(network), "DLQ_INGEST_SESSION_TIMEOUT=15s")
	luck := newChance(l)
	for range pick(1, 2) {
		for _, c := range []struct {
			name string
			slow proxy.Slowness
		}{
			{"latency", proxy.Slowness{Latency: pick(250*time.Millisecond, 2*time.Second)}},
			{"bandwidth", proxy.Slowness{BytesPerSecond: 20_000}},
			{"crumbs", proxy.Slowness{Piece: 5}},
			{"all of it", proxy.Slowness{Latency: 100 * time.Millisecond, BytesPerSecond: 50_000, Piece: 100}},
			{"resets", proxy.Slowness{BytesPerSecond: 200_000}},
		} {
			resets := pick(4, 10)
			if c.name != "resets" {
				resets = 0
			}
			l.whileSlow(api, network, luck, c.name, c.slow, resets)
		}
	}
	l.waitStored()
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	l.retryTheRest(api)
	l.wantResolvedOnce()
	if dead := l.with("DEAD"); dead != 0 {
		t.Errorf("%d messages are dead, want none", dead)
	}
	if lost := ingester.metric("dlq_ingest_records_lost_total"); lost != 0 {
		t.Errorf("the ingester counts %v lost records, want none", lost)
	}
	luck.wantCounted(t, map[string]int{"resets": 1, "retry confirmed": 1})
	api.wantRunning()
	ingester.wantRunning()
}

// whileSlow makes the network to Kafka slow for a while. Meanwhile records arrive, twenty operators retry one message
// each, and a redrive of all messages runs.
func (l *letters) whileSlow(api *process, network *proxy.Proxy, luck *chance, name string, slow proxy.Slowness, resets int) {
	l.t.Helper()
	l.produce(300, nil)
	l.waitStored()
	before := l.count("true")
	network.Slow(slow)
	l.produce(pick(300, 1000), nil)
	l.clickSlowly(api, luck)
	resolved := l.with("RESOLVED")
	id := l.begin(api)
	for range resets {
		lasting(time.Duration(50+l.random.IntN(400)) * time.Millisecond)
		if network.CutAll() > 0 {
			luck.count("resets")
		}
	}
	lasting(pick(time.Second, 5*time.Second))
	l.wantOffsetsStored()
	l.t.Logf("%s: of %d records %d were stored and %d sent meanwhile", name,
		len(l.sent)-before, l.count("true")-before, l.with("RESOLVED")-resolved)
	network.Slow(proxy.Slowness{})
	l.wantNoFalseSuccess()
	// A short run does not wait for the end of the redrive, because claims expire only after some time.
	if pick(false, true) {
		l.finished(api, id)
		eventuallyAs(l.t, claimIsSettled, "every abandoned claim is settled", func() bool { return l.with("RETRYING") == 0 })
	}
}

// clickSlowly retries twenty messages with one request each, at the same time. After an answer 200, the original topic
// must contain one record of the message. An answer other than 200 and 409 must ask the client to try again.
func (l *letters) clickSlowly(api *process, luck *chance) {
	l.t.Helper()
	answers := l.clicks(l.somePending(20), api)
	published := l.published()
	for _, a := range answers {
		if a.status == 409 { // a redrive has claimed the message before
			luck.count("retry refused")
			continue
		}
		if a.status != 200 {
			luck.count("retry not confirmed")
			wantUnavailable(l.t, a.answer, "retry", 502, 503)
			continue
		}
		luck.count("retry confirmed")
		if published[a.id] != 1 || l.state(a.id).Status != "RESOLVED" {
			l.t.Errorf("retry of %s = 200 with %d records and status %s, want one and RESOLVED", a.id, published[a.id], l.state(a.id).Status)
		}
	}
}
