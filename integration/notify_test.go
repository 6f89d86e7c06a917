package integration_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestNotificationsSurviveKilledProcesses: the receivers get a notification of a new error group, of a dead message and
// of a finished redrive. This holds although a receiver refuses requests at first, and although the API is killed
// before it has read the events, while it waits for a receiver's answer, and while a notification waits for its next
// try. All requests about an event have the same id and text, and a valid signature. Heartbeats, which arrive all the
// time, cause no notification.
func TestNotificationsSurviveKilledProcesses(t *testing.T) {
	t.Parallel()
	n := newNotified(t)
	n.startReady("ingester")
	n.up()

	// First, both receivers refuse the notification. Then the API is killed while it waits for the answer of the
	// receiver hook.
	n.hook.does(refuses)
	n.chat.does(refuses)
	n.fails("com.acme.Timeout", "the stock service is late")
	first := event{"group_new", n.groupOf("com.acme.Timeout")}
	n.hook.waitFor("a refused notification", func(d delivery) bool { return d.event == first && d.answer == http.StatusInternalServerError })
	n.chat.waitFor("a refused notification", func(d delivery) bool { return d.answer == http.StatusInternalServerError })
	n.hook.does(holds)
	n.hook.waitFor("a notification in hand", func(d delivery) bool { return d.event == first && d.answer == 0 })
	n.api.kill()

	// No API runs while these dead letters arrive.
	n.fails("com.acme.NoSuchArticle", "article is gone")
	second := event{"group_new", n.groupOf("com.acme.NoSuchArticle")}
	n.hook.does(takes)
	n.chat.does(takes)
	n.up()
	n.delivered(first, second)

	// When the API is killed, the events are stored and their notifications wait for the next try.
	n.hook.does(refuses)
	n.chat.does(refuses)
	died := event{"message_dead", n.target}
	n.dies()
	finished := event{"redrive_finished", n.redriven()}
	n.hook.waitFor("a death that is refused", func(d delivery) bool { return d.event == died })
	n.api.kill()
	n.hook.does(takes)
	n.chat.does(takes)
	n.up()
	n.delivered(first, second, died, finished)

	n.wantOneIDEach(first, second, died, finished)
	n.wantSlack("com.acme.Timeout", "com.acme.NoSuchArticle", "1 message became DEAD in "+n.target, "Redrive (retry) finished")
	n.wantNothingOfHeartbeats()
	n.api.wantRunning()
}

// notified is a system under test with two receivers of notifications: hook gets signed webhooks, and chat gets texts
// as Slack does.
type notified struct {
	*operators
	hook, chat *listener
	beats      string // topic of the heartbeats
}

func newNotified(t *testing.T) *notified {
	t.Helper()
	key := []byte("a secret of the test, 32 bytes..")
	n := &notified{operators: &operators{letters: newLetters(newSystem(t))}, hook: newListener(t, key), chat: newListener(t, nil)}
	n.beats = n.topic("heartbeat.dlq.v1")
	n.kafka.create(n.beats, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	check.NoError(t, os.WriteFile(secret, []byte("whsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600))
	config, err := os.OpenFile(n.config, os.O_APPEND|os.O_WRONLY, 0o600)
	check.NoError(t, err)
	defer config.Close()
	if _, err := fmt.Fprintf(config, `
heartbeat: {topic: %q, interval: 1s}
notify:
  interval: 100ms
  window: 500ms
  timeout: 5s
  backoff: 200ms
  backoff_max: 500ms
  console_url: https://dlq.example.com
  sinks:
    - {name: hook, type: webhook, url: %q, secret_file: %q, per_minute: 600}
    - {name: chat, type: slack, url: %q, per_minute: 600}
`, n.beats, n.hook.URL+"/hook", secret, n.chat.URL+"/slack"); err != nil {
		t.Fatal(err)
	}
	return n
}

// up starts the API, and waits until the API has begun to read events, because it sends no notification about earlier
// events.
func (n *notified) up() {
	n.t.Helper()
	n.api = n.startReady("api")
	eventually(n.t, "the notifier looks for events", func() bool {
		var looking bool
		return n.db.Get(&looking, `SELECT began_at IS NOT NULL FROM dlq.notification_state`) == nil && looking
	})
}

// fails produces three dead letters with this error class and message, and waits until the ingester has stored them.
func (n *notified) fails(class, message string) {
	n.t.Helper()
	before := n.ofTarget()
	for range 3 {
		n.failing(class, message, `{"order": 1}`)
	}
	eventually(n.t, class+" is stored", func() bool { return n.ofTarget() == before+3 })
}

func (n *notified) ofTarget() int { return n.count("original_topic = '" + n.target + "'") }

func (n *notified) groupOf(class string) (id string) {
	n.t.Helper()
	if err := n.db.Get(&id, `SELECT id FROM dlq.error_groups WHERE class = $1 AND first_seen IS NOT NULL`, class); err != nil {
		n.t.Fatalf("the group of %s: %v", class, err)
	}
	return id
}

// dies uses the API to mark the oldest PENDING message of the original topic dead.
func (n *notified) dies() {
	n.t.Helper()
	var id string
	if err := n.db.Get(&id, `SELECT id FROM dlq.dlq_messages WHERE original_topic = $1 AND status = 'PENDING' ORDER BY id LIMIT 1`, n.target); err != nil {
		n.t.Fatalf("a pending message: %v", err)
	}
	if status, body := n.api.try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", nil); status != http.StatusOK {
		n.t.Fatalf("mark %s as dead = %d %s, want 200", id, status, body)
	}
}

// redriven retries all messages of the original topic by a redrive, waits until the redrive is finished, and returns
// the redrive's id.
func (n *notified) redriven() string {
	n.t.Helper()
	id := n.api.accepted("/api/v1/redrives", fmt.Sprintf(`{"filter": {"topic": %q}}`, n.target), "Content-Type", "application/json")
	eventually(n.t, "the redrive is finished", func() bool {
		var state string
		return n.db.Get(&state, `SELECT state FROM dlq.redrives WHERE id = $1`, id) == nil && state == "finished"
	})
	return id
}

// delivered waits until the receiver hook has accepted a notification of each of these events, and until no
// notification waits to be sent.
func (n *notified) delivered(events ...event) {
	n.t.Helper()
	for _, e := range events {
		n.hook.waitFor(fmt.Sprint(e), func(d delivery) bool { return d.event == e && d.answer == http.StatusNoContent })
	}
	eventually(n.t, "no delivery is pending", func() bool {
		var waiting int
		return n.db.Get(&waiting, `SELECT count(*) FROM dlq.notifications WHERE ended_at IS NULL OR NOT sent`) == nil && waiting == 0
	})
}

// wantOneIDEach checks all requests to the receiver hook. All requests about one event must have the same id and text
// and a valid signature, and two events must not have the same id. There must be at least three requests about the
// first event.
func (n *notified) wantOneIDEach(events ...event) {
	n.t.Helper()
	texts, ids := map[string]string{}, map[event]string{}
	for _, d := range n.hook.all() {
		if !d.signed {
			n.t.Errorf("%v has no valid signature", d.event)
		}
		if text, known := texts[d.id]; known && text != d.body {
			n.t.Errorf("%s says\n%s\nand\n%s", d.id, text, d.body)
		}
		texts[d.id] = d.body
		if id, known := ids[d.event]; known && id != d.id {
			n.t.Errorf("%v came as %s and as %s, want one id", d.event, id, d.id)
		}
		ids[d.event] = d.id
	}
	if len(ids) != len(events) || len(texts) != len(events) {
		n.t.Errorf("got %d events under %d ids, want %d: %v", len(ids), len(texts), len(events), ids)
	}
	again := 0
	for _, d := range n.hook.all() {
		if d.event == events[0] {
			again++
		}
	}
	if again < 3 {
		n.t.Errorf("%v was sent %d times, want one refused, one interrupted and one accepted delivery", events[0], again)
	}
}

// wantSlack checks that the receiver chat has accepted a text that contains each of the parts.
func (n *notified) wantSlack(parts ...string) {
	n.t.Helper()
	for _, part := range parts {
		n.chat.waitFor("text with "+part, func(d delivery) bool {
			return d.answer == http.StatusNoContent && strings.Contains(d.text, part)
		})
	}
}

// wantNothingOfHeartbeats checks that heartbeats were sent, stored and deleted, and that no notification and no metric
// of error groups mentions them.
func (n *notified) wantNothingOfHeartbeats() {
	n.t.Helper()
	eventually(n.t, "heartbeats were received and deleted", func() bool {
		var came bool
		return n.db.Get(&came, `SELECT (SELECT count(*) FROM dlq.audit WHERE actor = 'heartbeat') > 1 AND EXISTS (
			SELECT FROM dlq.error_groups WHERE class = 'dlqmanager.Heartbeat' AND first_seen IS NOT NULL)`) == nil && came
	})
	for _, d := range append(n.hook.all(), n.chat.all()...) {
		if strings.Contains(d.body, "eartbeat") {
			n.t.Errorf("a notification mentions a heartbeat: %s", d.body)
		}
	}
	metrics := string(n.api.call(http.MethodGet, "/metrics", http.StatusOK, nil))
	for _, want := range []string{`dlq_error_groups_recent{change="new"} 2`, `dlq_error_groups_recent{change="regressed"} 0`} {
		if !strings.Contains(metrics, want) {
			n.t.Errorf("/metrics has no %s", want)
		}
	}
}
