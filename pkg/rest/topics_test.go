package rest

import (
	"context"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// toldCluster returns the answers that a test sets.
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
		`"ingest_lag":4,"replay":{"possible":false,"reason":"not known","class":"UNKNOWN_TOPIC","exists":null,"allowed":false,"consumer_groups":[]}},`+
		`{"topic":"gone","dlq_topics":["gone.dlq.v1"],"counts":{"DEAD":0,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":1,`+seen+
		`"ingest_lag":null,`+
		`"replay":{"possible":false,"reason":"topic gone does not exist","class":"UNKNOWN_TOPIC","exists":false,"allowed":true,"consumer_groups":[]}},`+
		`{"topic":"orders.events.v1","dlq_topics":["orders.dlq.v1","shared.dlq.v1"],"counts":{"DEAD":1,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":2,`+seen+
		`"ingest_lag":7,"replay":{"possible":true,"reason":null,"class":null,"exists":true,"allowed":true,`+
		`"consumer_groups":[{"group":"billing","state":"behind","lag":7},{"group":"x","state":"absent","lag":null}]}}],"next_cursor":null}`)
}

// Without Kafka the answer has the store's numbers, and reports the rest as unknown.
func TestTopics_WithoutKafka(t *testing.T) {
	t.Parallel()
	wantStatus(t, newFixture(message(idA)).open().do("GET", "/api/v1/topics", ""), 200, `"PENDING":1`,
		`"ingest_lag":null,"replay":{"possible":false,"reason":"not known: Kafka is not configured","class":"UNKNOWN","exists":null`)
	wantAnswer(t, newFixture().open().do("GET", "/api/v1/topics", ""), 200, `{"topics":[],"next_cursor":null}`)
}

// A cursor continues by name, also when its topic no longer exists.
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
	wantStatus(t, f.do("GET", onwards, ""), 200, `{"topics":[{"topic":"c",`, `},{"topic":"d",`, `"next_cursor":null}`)
}
