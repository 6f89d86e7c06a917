package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func (o *operators) topicNow(name string) client.Topic {
	o.t.Helper()
	res, err := o.ListTopicsWithResponse(o.t.Context(), nil)
	wantStatus(o.t, res, err, http.StatusOK)
	for _, topic := range res.JSON200.Topics {
		if topic.Topic == name {
			return topic
		}
	}
	o.t.Fatalf("no topic %s in %s", name, res.Body)
	return client.Topic{}
}

// The API shows, for each topic, whether a retry can work and, if not, why, before an operator tries it (issues akhq
// 1064, kafka-ui 2751).
func TestOperators_TopicsSayWhetherReplayIsPossible(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	gone := o.topic("gone.events.v1")
	group := kgo.RecordHeader{Key: "kafka_dlt-original-consumer-group", Value: []byte(o.prefix + "-billing")}
	o.failing("com.acme.Timeout", "no", `{}`, group)
	o.failing("com.acme.Timeout", "no", `{}`, group)
	lost := &kgo.Record{Topic: o.source, Value: []byte(`{}`), Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte(gone)}}}
	o.sent = append(o.sent, lost)
	o.kafka.produce(lost)
	o.takenIn()

	here := o.topicNow(o.target)
	if !here.Replay.Possible || here.Replay.Exists == nil || !*here.Replay.Exists || !here.Replay.Allowed || here.Counts.PENDING != 2 || here.Total != 2 ||
		here.OldestPendingAt == nil || here.LastSeenAt == nil || !slices.Contains(here.DlqTopics, o.source) {
		t.Errorf("topic %+v, want one that can be replayed, 2 PENDING", here)
	}
	if groups := here.Replay.ConsumerGroups; len(groups) != 1 || groups[0].Group != o.prefix+"-billing" || groups[0].State != "absent" {
		t.Errorf("consumer groups %+v, want billing, absent", groups)
	}
	if there := o.topicNow(gone); there.Replay.Possible || there.Replay.Exists == nil || *there.Replay.Exists || there.Replay.Reason == nil {
		t.Errorf("topic %+v, want one that does not exist, and why nothing can be replayed", there)
	}
	if here.IngestLag == nil || *here.IngestLag != 0 {
		t.Errorf("ingest lag %v, want 0", here.IngestLag)
	}
	o.failing("com.acme.Timeout", "not taken in", `{}`)
	eventually(t, "records that are not ingested are counted", func() bool {
		lag := o.topicNow(o.target).IngestLag
		return lag != nil && *lag == 1
	})
	consumer, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.ConsumerGroup(o.prefix+"-billing"), kgo.ConsumeTopics(o.target))
	check.NoError(t, err)
	defer consumer.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go consumer.PollFetches(ctx)
	eventually(t, "the group runs", func() bool {
		groups := o.topicNow(o.target).Replay.ConsumerGroups
		return len(groups) == 1 && groups[0].State == "running"
	})
}

// An error group that reappears after all of its messages were resolved is marked as regressed, as in bugsink and
// Sentry.
func TestOperators_AGroupThatCameBackIsMarked(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	group := func() client.Group {
		res, err := o.ListGroupsWithResponse(t.Context(), nil)
		wantStatus(t, res, err, http.StatusOK)
		check.Require(t, len(res.JSON200.Groups) == 1, "groups %s, want one", res.Body)
		return res.JSON200.Groups[0]
	}
	for n := range 3 {
		o.failing("com.acme.Timeout", fmt.Sprintf("order %d timed out", n), `{}`)
	}
	o.takenIn()
	if g := group(); g.Regressed || g.RegressedAt != nil || !g.New || g.Open != 3 || g.Arrived != 3 {
		t.Errorf("at first %+v, want new and not regressed", g)
	}
	id := group().Id
	o.redrive(client.RedriveOrder{Filter: &client.Filter{GroupId: &id}})
	if g := group(); g.Regressed || g.Open != 0 || g.Counts.RESOLVED != 3 {
		t.Errorf("when all are resolved %+v, want nothing open", g)
	}
	o.failing("com.acme.Timeout", "order 99 timed out", `{}`)
	o.takenIn()
	if g := group(); !g.Regressed || g.RegressedAt == nil || g.Open != 1 || g.Arrived != 4 || g.Id != id {
		t.Errorf("when one came back %+v, want it regressed", g)
	}
	noted, err := o.AnnotateGroupWithResponse(t.Context(), id, client.AnnotateGroupJSONRequestBody{
		Note: new("known: OPS-7 \u202e"), Link: new("https://tracker.example/OPS-7"), Muted: new(true),
	})
	wantStatus(t, noted, err, http.StatusOK)
	if g := group(); g.Note == nil || *g.Note != "known: OPS-7 \u202e" || !g.Muted || *g.Link != "https://tracker.example/OPS-7" {
		t.Errorf("annotated %+v", g)
	}
	var trend int64
	for _, hour := range group().Trend {
		trend += hour.Messages
	}
	check.True(t, trend == 4, "%d in the hours of the trend, want 4", trend)
}
