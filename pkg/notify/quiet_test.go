package notify

import (
	"strings"
	"testing"

	"github.com/google/uuid"

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
