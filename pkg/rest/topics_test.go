package rest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// toldCluster answers what it was told to.
type toldCluster struct {
	health map[string]entity.ReplayHealth
	lag    map[string]int64
	asked  *[]entity.ReplayQuestion
}

func (c toldCluster) Inspect(_ context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth {
	*c.asked = questions
	var list []entity.ReplayHealth
	for _, q := range questions {
		list = append(list, c.health[q.Topic])
	}
	return list
}

func (c toldCluster) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	return c.lag
}

func TestTopics(t *testing.T) {
	t.Parallel()
	yes, no, lag := true, false, int64(7)
	f := newFixture(
		message(sixth(0), func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" }),
		message(sixth(1), in(entity.Dead, 3), func(m *entity.Message) { m.Source.Topic = "shared.dlq.v1" }),
		message(sixth(2), unknown("shared.dlq.v1", 9)),
		message(sixth(3), func(m *entity.Message) { m.OriginalTopic, m.Source.Topic = "gone", "gone.dlq.v1" }),
	)
	var asked []entity.ReplayQuestion
	f.options = []Option{WithInspector(toldCluster{map[string]entity.ReplayHealth{
		"orders.events.v1": {Exists: &yes, Allowed: true, Groups: []entity.GroupHealth{{Group: "billing", State: entity.GroupBehind, Lag: &lag}, {Group: "x", State: entity.GroupAbsent}}},
		"gone":             {Exists: &no, Allowed: true, Class: "UNKNOWN_TOPIC", Reason: "topic gone does not exist"},
		"":                 {Class: "UNKNOWN_TOPIC", Reason: "nobody knows"},
	}, map[string]int64{"orders.dlq.v1": 3, "shared.dlq.v1": 4}, &asked})}
	w := f.open().do("GET", "/api/v1/topics", "")
	var got struct{ Topics []topicJSON }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Topics) != 3 {
		t.Fatalf("topics = %d %s", w.Code, w.Body)
	}
	for i, want := range []string{
		`{"topic":"","dlq_topics":["shared.dlq.v1"],"counts":{"DEAD":0,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":1,"oldest_pending_at":"2026-02-20T10:30:00.000+00:00",` +
			`"last_seen_at":"2026-02-20T10:30:00.000+00:00","ingest_lag":4,"replay":{"possible":false,"reason":"nobody knows","class":"UNKNOWN_TOPIC","exists":null,"allowed":false,"consumer_groups":[]}}`,
		`{"topic":"gone","dlq_topics":["gone.dlq.v1"],"counts":{"DEAD":0,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":1,"oldest_pending_at":"2026-02-20T10:30:00.000+00:00",` +
			`"last_seen_at":"2026-02-20T10:30:00.000+00:00","ingest_lag":null,"replay":{"possible":false,"reason":"topic gone does not exist","class":"UNKNOWN_TOPIC","exists":false,"allowed":true,"consumer_groups":[]}}`,
		`{"topic":"orders.events.v1","dlq_topics":["orders.dlq.v1","shared.dlq.v1"],"counts":{"DEAD":1,"PENDING":1,"RESOLVED":0,"RETRYING":0},"total":2,"oldest_pending_at":"2026-02-20T10:30:00.000+00:00",` +
			`"last_seen_at":"2026-02-20T10:30:00.000+00:00","ingest_lag":7,"replay":{"possible":true,"reason":null,"class":null,"exists":true,"allowed":true,` +
			`"consumer_groups":[{"group":"billing","state":"behind","lag":7},{"group":"x","state":"absent","lag":null}]}}`,
	} {
		if one := string(encode(got.Topics[i])); one != want {
			t.Errorf("topic %d\n got %s\nwant %s", i, one, want)
		}
	}
	if len(asked) != 3 || asked[2].Topic != "orders.events.v1" {
		t.Errorf("asked %+v", asked)
	}
}

// Without Kafka the store's numbers are there, and the rest says that nobody knows.
func TestTopics_WithoutKafka(t *testing.T) {
	t.Parallel()
	body := newFixture(message(idA)).open().do("GET", "/api/v1/topics", "").Body.String()
	if !strings.Contains(body, `"PENDING":1`) || !strings.Contains(body, `"ingest_lag":null,"replay":{"possible":false,"reason":"nobody can tell: Kafka is not configured","class":"UNKNOWN","exists":null`) {
		t.Errorf("topics %s", body)
	}
	if body := newFixture().open().do("GET", "/api/v1/topics", "").Body.String(); body != `{"topics":[],"next_cursor":null}` {
		t.Errorf("no topics = %s", body)
	}
}

func TestTopics_OnlyVisibleOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, func(m *entity.Message) { m.OriginalTopic = "payments" })).guarded(person("ana", "pay*", "viewer"))
	if body := f.by("ana", "GET", "/api/v1/topics", "").Body.String(); !strings.Contains(body, `"topic":"payments"`) || strings.Contains(body, "orders.events") {
		t.Errorf("topics for ana %s", body)
	}
}

// A cursor leads on by name, also when its topic is gone by then.
func TestTopics_Pages(t *testing.T) {
	t.Parallel()
	var messages []entity.Message
	for i, topic := range []string{"", "a", "b", "c", "d"} {
		messages = append(messages, message(sixth(i), func(m *entity.Message) { m.OriginalTopic = topic }))
	}
	f := newFixture(messages...).open()
	page := func(query string) (names []string, next string) {
		var got struct {
			Topics     []struct{ Topic string }
			NextCursor *string `json:"next_cursor"`
		}
		w := f.do("GET", "/api/v1/topics"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			t.Fatalf("topics%s = %d %s", query, w.Code, w.Body)
		}
		for _, one := range got.Topics {
			names = append(names, one.Topic)
		}
		if got.NextCursor != nil {
			next = *got.NextCursor
		}
		return names, next
	}
	first, next := page("?limit=1")
	second, onwards := page("?limit=2&cursor=" + next)
	if strings.Join(first, " ") != "" || len(first) != 1 || strings.Join(second, " ") != "a b" {
		t.Errorf("pages %q, %q, want the unknown one and then a b", first, second)
	}
	if err := f.memory.Delete(t.Context(), sixth(2), entity.By("x")); err != nil {
		t.Fatal(err)
	}
	if rest, end := page("?limit=2&cursor=" + onwards); strings.Join(rest, " ") != "c d" || end != "" {
		t.Errorf("the last page %q with %q behind it, want c d and nothing", rest, end)
	}
	if all, end := page(""); len(all) != 4 || end != "" {
		t.Errorf("without a limit %q, %q", all, end)
	}
	for query, field := range map[string]string{"limit=0": "limit", "limit=1001": "limit", "cursor=x": "cursor", "cursor=AAAA": "cursor"} {
		if e := wantEnvelope(t, f.do("GET", "/api/v1/topics?"+query, ""), 400, codeValidation); firstField(e.Details) != field {
			t.Errorf("%s: details %+v, want %s", query, e.Details, field)
		}
	}
}
