package notify

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// An event that the program itself causes makes no notification, whichever query finds the event, and does not suppress
// the notifications of other events.
func TestNotifier_SaysNothingOfWhatIsQuiet(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	w := newWorld(t, hook("ops", r))
	ours := entity.Fingerprint{Class: "dlqmanager.Heartbeat", Title: "beat"}
	others := entity.Fingerprint{Class: "E", Title: "out of stock"}
	w.quiet = Quiet{Groups: []uuid.UUID{ours.ID()}, Topics: []string{"heartbeat.dlq.v1"}}
	w.start()
	beat := func() {
		t.Helper()
		m := entity.NewMessage("", "boom", w.clock.Now())
		m.Group, m.Source.Topic = ours.ID(), "heartbeat.dlq.v1"
		check.NoError(t, w.store.SaveFingerprints(t.Context(), []entity.Fingerprint{ours}))
		w.store.Insert(m)
		w.pass()
		check.NoError(t, w.store.Delete(t.Context(), m.ID, entity.By("heartbeat")))
	}
	beat()
	w.clock.advance(w.cfg.Repeat)
	beat() // this heartbeat arrives after the others were deleted, so its error group regresses
	w.dead("heartbeat.dlq.v1", 1)
	w.pass()
	r.want(t, "of heartbeats", 0)
	w.put("orders", others)
	w.pass()
	if got := r.want(t, "of the other group", 1); !strings.Contains(got[0].body, string(repository.GroupNew)) {
		t.Errorf("got %v, want the other group", got)
	}
}

func TestQuiet_IsOfWhatIsOfItsTopicsAlone(t *testing.T) {
	t.Parallel()
	q := Quiet{Groups: []uuid.UUID{{1}}, Topics: []string{"a", "b"}}
	for _, c := range []struct {
		name  string
		event repository.Event
		want  bool
	}{
		{"its group", repository.Event{Object: uuid.UUID{1}, Topics: []string{"orders"}}, true},
		{"its topics", repository.Event{Topics: []string{"b", "a"}}, true},
		{"others too", repository.Event{Topics: []string{"a", "orders"}}, false},
		{"of no known topic", repository.Event{Object: uuid.UUID{2}}, false},
	} {
		if got := q.has(c.event); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// The receiver of a sink with topics belongs to a team that may know nothing of other topics: neither their names, nor
// their messages' numbers, nor what their messages say.
func TestSink_HearsOnlyOfItsTopics(t *testing.T) {
	t.Parallel()
	both, mine := []string{"alpha.one", "beta.one", "beta.two"}, []string{"beta.one"}
	end := func(change func(*repository.RedriveEnd)) repository.RedriveEnd {
		r := repository.RedriveEnd{Action: "retry", Note: "alpha failed", Selected: 977, Succeeded: 3, Skipped: 974}
		change(&r)
		return r
	}
	sent := func(r *repository.RedriveEnd) { r.Note, r.Selected, r.Skipped = "", 3, 0 }
	for name, c := range map[string]struct {
		event repository.Event
		want  string // "" for no notification
	}{
		"NewGroup":       {repository.Event{Kind: repository.GroupNew, Class: "E", Title: "alpha said", Topics: both}, "New error group in beta.one, beta.two: E"},
		"OwnGroup":       {repository.Event{Kind: repository.GroupNew, Class: "E", Title: "said", Topics: mine}, "New error group in beta.one: E: said"},
		"Regressed":      {repository.Event{Kind: repository.GroupRegressed, Class: "E", Title: "alpha said", Topics: both}, "Error group failed again in beta.one, beta.two after all its messages were resolved: E"},
		"Spike":          {repository.Event{Kind: repository.Spike, Topics: both[:1]}, ""},
		"Dead":           {repository.Event{Kind: repository.MessageDead, Topics: both[:1]}, ""},
		"UnknownTopic":   {repository.Event{Kind: repository.LoopStopped}, ""},
		"OthersAlone":    {repository.Event{Kind: repository.RedriveFinished, Topics: both[:1], Redrive: end(sent)}, ""},
		"Redrive":        {repository.Event{Kind: repository.RedriveStopped, Topics: both, Redrive: end(func(*repository.RedriveEnd) {})}, "Redrive (retry) stopped itself in beta.one, beta.two: not counted, because it may have messages of other topics"},
		"SkippedOfOther": {repository.Event{Kind: repository.RedriveFinished, Topics: mine, Redrive: end(func(*repository.RedriveEnd) {})}, "Redrive (retry) finished in beta.one: not counted, because it may have messages of other topics"},
		"DeadOfOthers": {
			repository.Event{Kind: repository.RedriveFinished, Topics: mine, Redrive: end(func(r *repository.RedriveEnd) { r.Action, r.Succeeded = "dead", r.Selected })},
			"Redrive (dead) finished in beta.one: not counted, because it may have messages of other topics",
		},
		"AllSent": {
			repository.Event{Kind: repository.RedriveFinished, Topics: mine, Redrive: end(sent)},
			"Redrive (retry) finished in beta.one: of 3 selected 3 succeeded, 0 failed, 0 in doubt, 0 skipped",
		},
		"OfItsTopic": {
			repository.Event{Kind: repository.RedriveStopped, Topics: mine, Redrive: end(func(r *repository.RedriveEnd) { r.Note, r.Topic = "too many", "beta.one" })},
			"Redrive (retry) stopped itself in beta.one: of 977 selected 3 succeeded, 0 failed, 0 in doubt, 974 skipped (too many)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Sinks = []SinkConfig{{Name: "beta", Type: TypeWebhook, URL: "https://example.com", Topics: []string{"beta*"}}}
			n := check.Must(New(cfg, nil, prometheus.NewRegistry(), zap.NewNop()))(t)
			made := n.notifications(repository.Events{List: []repository.Event{c.event}})
			if c.want == "" {
				check.Equal(t, len(made), 0, "notifications")
				return
			}
			told := repository.Notification{NewNotification: made[0]}
			body := string(check.Must(words{}.cloudEvent(told))(t))
			if d := check.Must(words{}.unpack(told))(t); summary(told, d) != c.want || strings.Contains(body, "alpha") || strings.Contains(body, "977") != strings.Contains(c.want, "977") {
				t.Errorf("got %q and %s, want %q", summary(told, d), body, c.want)
			}
		})
	}
}
