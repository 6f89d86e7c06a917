package republisher

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// shown formats the replay health of a target topic as one line of text.
func shown(h entity.ReplayHealth) string {
	exists := "?"
	if h.Exists != nil {
		exists = fmt.Sprint(*h.Exists)
	}
	text := fmt.Sprintf("%s exists=%s allowed=%v class=%s reason=%v", h.Topic, exists, h.Allowed, h.Class, h.Reason != "")
	for _, g := range h.Groups {
		lag := "?"
		if g.Lag != nil {
			lag = fmt.Sprint(*g.Lag)
		}
		text += fmt.Sprintf(" %s=%s/%s", g.Group, g.State, lag)
	}
	return text
}

func TestInspect(t *testing.T) {
	t.Parallel()
	ask := func(topic string, groups ...string) entity.ReplayQuestion {
		return entity.ReplayQuestion{Topic: topic, Groups: groups}
	}
	behind := func(l *logs) {
		l.records[part(1)] = []broker.Record{{Offset: 9}}
		l.committed = map[broker.TopicPartition]int64{part(1): 6}
	}
	cases := []struct {
		name  string
		ask   entity.ReplayQuestion
		harm  func(*logs)
		allow []string
		want  string
	}{
		{"Plain", ask(orders), nil, nil, "orders exists=true allowed=true class= reason=false"},
		{"UnknownOrigin", ask(""), nil, nil, " exists=? allowed=false class=UNKNOWN_TOPIC reason=true"},
		{"DoesNotExist", ask("nowhere"), nil, nil, "nowhere exists=false allowed=true class=UNKNOWN_TOPIC reason=true"},
		{"DeadLetterTopic", ask(deadLetter), nil, nil, "orders.dlq.v1 exists=true allowed=false class=LOOP_REFUSED reason=true"},
		{"Internal", ask("_internal"), nil, nil, "_internal exists=true allowed=false class=UNAUTHORIZED reason=true"},
		{"NotInTheList", ask(orders), nil, []string{"payments"}, "orders exists=true allowed=false class=UNAUTHORIZED reason=true"},
		{"KafkaAway", ask(orders, "stable"), func(l *logs) { l.down = broker.ErrUnavailable }, nil, "orders exists=? allowed=true class=BROKER_UNAVAILABLE reason=true stable=unknown/?"},
		{"KafkaAwayAndNotAllowed", ask(orders), func(l *logs) { l.down = broker.ErrUnavailable }, []string{"payments"}, "orders exists=? allowed=false class=UNAUTHORIZED reason=true"},
		{
			"GroupsWithoutCommits", ask(orders, "stable", "empty", "dead", "never"), nil, nil,
			"orders exists=true allowed=true class= reason=false stable=running/? empty=absent/? dead=absent/? never=absent/?",
		},
		{
			"GroupsThatAreBehind", ask(orders, "stable", "empty"), behind, nil,
			"orders exists=true allowed=true class= reason=false stable=behind/4 empty=absent/4",
		},
		{"GroupAtTheEnd", ask(orders, "stable"), func(l *logs) {
			behind(l)
			l.committed[part(1)] = 10
		}, nil, "orders exists=true allowed=true class= reason=false stable=running/0"},
		{"GroupOfWhichAnEndIsNotKnown", ask(orders, "stable"), func(l *logs) {
			behind(l)
			l.errs[part(1)] = broker.ErrNoLeader
		}, nil, "orders exists=true allowed=true class= reason=false stable=running/?"},
		{"GroupThatMayNotBeSeen", ask(orders, "denied", "stable"), func(l *logs) {
			l.denied = "denied"
		}, nil, "orders exists=true allowed=true class= reason=false denied=unknown/? stable=running/?"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.states = map[string]string{"stable": "Stable", "empty": "Empty", "dead": "Dead"}
			if c.harm != nil {
				c.harm(l)
			}
			r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = c.allow })
			got := r.Inspect(t.Context(), []entity.ReplayQuestion{ask(orders, "stable"), c.ask})
			check.True(t, len(got) == 2 && shown(got[1]) == c.want, "Inspect\n got %s\nwant %s", shown(got[len(got)-1]), c.want)
			if got[1].Exists == nil || !*got[1].Exists {
				return
			}
			planned := r.Plan(t.Context(), plain(message(to(c.ask.Topic))), false)[0].Err
			check.True(t, c.name == "GroupOfWhichAnEndIsNotKnown" || (planned == nil) == (got[1].Class == ""),
				"Plan = %v, and Inspect says class %q", planned, got[1].Class)
		})
	}
}

func TestInspectAsksSeldom(t *testing.T) {
	t.Parallel()
	l := newLogs()
	r := newRepublisher(t, l)
	now := clock
	r.now = func() time.Time { return now }
	questions := []entity.ReplayQuestion{{Topic: orders, Groups: []string{"a"}}, {Topic: deadLetter, Groups: []string{"b"}}}
	for range 3 {
		r.Inspect(t.Context(), questions)
		r.Inspect(t.Context(), questions[1:])
	}
	check.True(t, l.listed == 1, "groups were listed %d times within 5 s, want once", l.listed)
	l.down = broker.ErrUnavailable
	now = now.Add(4 * time.Second)
	got := r.Inspect(t.Context(), questions)[0]
	check.True(t, got.Exists != nil, "an answer of 4 s ago was forgotten")
	now = now.Add(2 * time.Second)
	check.True(t, r.Inspect(t.Context(), questions)[0].Exists == nil, "an answer of 6 s ago was given")
	check.True(t, len(r.facts.replays) == 2, "%d answers are kept, want 2", len(r.facts.replays))
}

func TestIngestLag(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.topics["a.dlq.v1"], l.topics["b.dlq.v1"] = 2, 2
	at := func(topic string, partition int32) broker.TopicPartition {
		return broker.TopicPartition{Topic: topic, Partition: partition}
	}
	l.records[at("a.dlq.v1", 0)] = []broker.Record{{Offset: 9}}
	l.records[at("a.dlq.v1", 1)] = []broker.Record{{Offset: 4}}
	l.errs[at("b.dlq.v1", 1)] = broker.ErrNoLeader
	r := newRepublisher(t, l)
	positions := []repository.IngestPosition{
		// The topic was deleted and created again since the ingester stored these positions.
		{Topic: "a.dlq.v1", Partition: 0, Next: 7},
		{Topic: "a.dlq.v1", Partition: 1, Next: 9},
		{Topic: "b.dlq.v1", Partition: 0},
		{Topic: "b.dlq.v1", Partition: 1},
		{Topic: "gone.dlq.v1"},
	}
	want := map[string]int64{"a.dlq.v1": 3}
	for range 2 {
		check.Equal(t, r.IngestLag(t.Context(), positions), want, "IngestLag")
	}
	check.True(t, l.asked == 1, "ends were asked for %d times, want once", l.asked)
	got := r.IngestLag(t.Context(), nil)
	check.True(t, len(got) == 0, "IngestLag of nothing = %v, want nothing", got)
}

func TestInspectWithoutKafka(t *testing.T) {
	t.Parallel()
	question := []entity.ReplayQuestion{{Topic: orders, Groups: []string{"g"}}}
	cases := []struct {
		required bool
		want     string
	}{
		{false, "orders exists=? allowed=true class= reason=false g=unknown/?"},
		{true, "orders exists=? allowed=false class=BROKER_UNAVAILABLE reason=true g=unknown/?"},
	}
	for _, c := range cases {
		d := NewDisabled(Config{RepublishRequired: new(c.required)}, zap.NewNop())
		got := d.Inspect(t.Context(), question)
		texts := []string{shown(got[0])}
		check.True(t, slices.Equal(texts, []string{c.want}), "Inspect = %v, want %s", texts, c.want)
		lag := d.IngestLag(t.Context(), []repository.IngestPosition{{Topic: deadLetter}})
		check.True(t, len(lag) == 0, "IngestLag = %v, want nothing", lag)
	}
}
