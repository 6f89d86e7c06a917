package rest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// toldCluster is an Inspector whose answers a test sets.
type toldCluster struct {
	health map[string]entity.ReplayHealth
	lag    map[string]int64
}

func (c toldCluster) Inspect(_ context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth {
	return wire.Each(questions, func(q entity.ReplayQuestion) entity.ReplayHealth { return c.health[q.Topic] })
}

func (c toldCluster) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	return c.lag
}

func TestTopics(t *testing.T) {
	t.Parallel()
	f := newFixture(
		message(sixth(0), func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" }),
		message(sixth(1), in(entity.Dead, 3), func(m *entity.Message) { m.Source.Topic = "shared.dlq.v1" }),
		message(sixth(2), unknown("shared.dlq.v1", 9)),
		message(sixth(3), func(m *entity.Message) { m.OriginalTopic, m.Source.Topic = "gone", "gone.dlq.v1" }),
	).with(WithInspector(toldCluster{map[string]entity.ReplayHealth{
		"orders.events.v1": {Exists: new(true), Allowed: true, Groups: []entity.GroupHealth{
			{Group: "billing", State: entity.GroupBehind, Lag: new(int64(7))}, {Group: "x", State: entity.GroupAbsent},
		}},
		"gone": {Exists: new(false), Allowed: true, Class: "UNKNOWN_TOPIC", Reason: "topic gone does not exist"},
		"":     {Class: "UNKNOWN_TOPIC", Reason: "not known"},
	}, map[string]int64{"orders.dlq.v1": 3, "shared.dlq.v1": 4}}))
	const seen = `"oldest_pending_at":"2026-02-20T10:30:00.000+00:00","last_seen_at":"2026-02-20T10:30:00.000+00:00",`
	wantAnswer(t, f.open().do("GET", "/api/v1/topics", ""), 200, `{"topics":[`+
		`{"topic":"","dlq_topics":["shared.dlq.v1"],"counts":{"DEAD":0,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":1,`+seen+
		`"ingest_lag":4,"replay":{"possible":false,"reason":"not known","class":"UNKNOWN_TOPIC","exists":null,"allowed":false,"redirected_to":null,"consumer_groups":[]}},`+
		`{"topic":"gone","dlq_topics":["gone.dlq.v1"],"counts":{"DEAD":0,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":1,`+seen+
		`"ingest_lag":null,`+
		`"replay":{"possible":false,"reason":"topic gone does not exist","class":"UNKNOWN_TOPIC","exists":false,"allowed":true,"redirected_to":null,"consumer_groups":[]}},`+
		`{"topic":"orders.events.v1","dlq_topics":["orders.dlq.v1","shared.dlq.v1"],"counts":{"DEAD":1,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":2,`+seen+
		`"ingest_lag":7,"replay":{"possible":true,"reason":null,"class":null,"exists":true,"allowed":true,"redirected_to":null,`+
		`"consumer_groups":[{"group":"billing","state":"behind","lag":7},{"group":"x","state":"absent","lag":null}]}}],"next_cursor":null,"missing":[]}`)
}

// While automatic retry of a topic pauses, the answers say until when and why.
func TestTopicAutoPause(t *testing.T) {
	t.Parallel()
	f := newFixture(message(sixth(0)), message(sixth(1), func(m *entity.Message) { m.OriginalTopic = "payments" })).open()
	pause := check.Must(f.memory.PauseAuto(t.Context(), "orders.events.v1", "18 of 40", time.Minute))(t)
	const field = `"automatic_retry_pause"`
	want := field + `:{"until":"` + *wire.Stamp(pause.Until) + `","reason":"18 of 40"}`
	list := wantStatus(t, f.do("GET", "/api/v1/topics", ""), 200, want)
	check.Equal(t, strings.Count(list, field), 1, "topics that pause")
	wantStatus(t, f.do("GET", "/api/v1/topics/orders.events.v1", ""), 200, want)
	wantWithout(t, f.do("GET", "/api/v1/topics/payments", ""), field)
}

// The answer for one topic contains the offsets of its consumer groups, and counts of zero when the topic has no
// messages.
func TestTopic(t *testing.T) {
	t.Parallel()
	offset := func(n int64) *int64 { return &n }
	f := newFixture(message(sixth(0)), message(sixth(1), func(m *entity.Message) { m.OriginalTopic = "a/b" })).
		with(WithInspector(toldCluster{map[string]entity.ReplayHealth{
			"orders.events.v1": {Exists: new(true), Allowed: true, Groups: []entity.GroupHealth{
				{Group: "billing", State: entity.GroupBehind, Lag: offset(7), Partitions: []entity.GroupPartition{
					{Partition: 0, Committed: offset(3), End: offset(10)}, {Partition: 1, End: offset(5)}, {Partition: 2},
				}},
			}},
		}, nil})).guarded(person("root", "*", auth.Viewer), person("ana", "payments.*", auth.Viewer))
	const one, groups = "/api/v1/topics/orders.events.v1", `"consumer_groups":[{"group":"billing","state":"behind","lag":7,"partitions":[` +
		`{"partition":0,"committed":3,"end":10,"lag":7},{"partition":1,"committed":null,"end":5,"lag":null},` +
		`{"partition":2,"committed":null,"end":null,"lag":null}]}]`
	wantStatus(t, f.by("root", "GET", one, ""), 200, `"topic":"orders.events.v1"`, `"PENDING":1`, groups, `"missing":[]`)
	wantStatus(t, f.by("root", "GET", "/api/v1/topics/a%2Fb", ""), 200, `"topic":"a/b"`, `"PENDING":1`)
	wantStatus(t, f.by("root", "GET", "/api/v1/topics/payments.v1", ""), 200, `"topic":"payments.v1"`, `"total":0`, `"consumer_groups":[]`)
	hidden := wantStatus(t, f.by("ana", "GET", one, ""), 200, `"total":0`, `"exists":null`)
	check.True(t, !strings.Contains(hidden, "billing"), "a topic that ana may not see is shown as %s", hidden)
}

// Messages of a redirected topic can be replayed when the target of the redirect accepts records. The answer says
// separately whether the redirected topic itself exists.
func TestTopics_Redirected(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).with(WithInspector(toldCluster{map[string]entity.ReplayHealth{
		"orders.events.v1": {Exists: new(false), Class: "UNKNOWN_TOPIC", Reason: "no"}, "moved": {Exists: new(true), Allowed: true},
	}, nil})).open()
	check.Must(f.memory.SaveRedirect(t.Context(), "orders.events.v1", "moved", nil, entity.By("alice")))(t)
	wantStatus(t, f.do("GET", "/api/v1/topics", ""), 200, `"topic":"orders.events.v1"`,
		`"replay":{"possible":true,"reason":null,"class":null,"exists":false,"allowed":true,"redirected_to":"moved","consumer_groups":[]}`)
}

// Without Kafka the answer contains the counts of the store, and reports the state of the cluster as unknown.
func TestTopics_WithoutKafka(t *testing.T) {
	t.Parallel()
	wantStatus(t, newFixture(message(idA)).open().do("GET", "/api/v1/topics", ""), 200, `"PENDING":1`,
		`"ingest_lag":null,"replay":{"possible":false,"reason":"not known: Kafka is not configured","class":"UNKNOWN","exists":null`)
	wantAnswer(t, newFixture().open().do("GET", "/api/v1/topics", ""), 200, `{"topics":[],"next_cursor":null,"missing":[]}`)
}

// silentCluster is an Inspector that answers only after half a minute, even if its time limit is shorter.
type silentCluster struct{}

func (silentCluster) Inspect(context.Context, []entity.ReplayQuestion) []entity.ReplayHealth {
	<-time.After(30 * time.Second) // this pause is in the fake time of synctest
	return nil
}

func (silentCluster) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	<-time.After(30 * time.Second)
	return nil
}

// When Kafka does not answer, the answer contains the counts of the store, and says that the rest is unknown.
func TestTopics_KafkaThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, began := newFixture(message(idA)).with(WithInspector(silentCluster{})), time.Now()
		wantStatus(t, f.open().do("GET", "/api/v1/topics", ""), 200, `"PENDING":1`, `"ingest_lag":null`,
			`"reason":"Kafka has not answered in time","class":"BROKER_UNAVAILABLE"`, `"missing":["replay"`)
		check.Equal(t, time.Since(began), 2*time.Second, "time until the answer")
		<-time.After(time.Minute) // a minute of fake time, in which the Inspector returns at last
	})
}

// The next page of the list of topics begins after the name in the cursor, even if a topic of this name no longer
// exists.
func TestTopics_Pages(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	for i, topic := range []string{"", "a", "b", "c", "d"} {
		f.memory.Insert(message(sixth(i), func(m *entity.Message) { m.OriginalTopic = topic }))
	}
	all := "/api/v1/topics?limit="
	wantStatus(t, f.do("GET", all+"1", ""), 200, `{"topics":[{"topic":"",`)
	second := all + "2&cursor=" + f.cursorOf(t, all+"1")
	onwards := all + "2&cursor=" + f.cursorOf(t, second)
	if got, _ := walk(t, f, "/api/v1/topics", "topics", "topic"); strings.Join(got, " ") != " a b c d" {
		t.Errorf("topics %q, want all", got)
	}
	check.NoError(t, f.memory.Delete(t.Context(), sixth(2), entity.By("x")))
	wantStatus(t, f.do("GET", onwards, ""), 200, `{"topics":[{"topic":"c",`, `},{"topic":"d",`, `"next_cursor":null,`)
}
