package integration_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestInvariantsNoticeWhatIsWrong tests the checks of the invariants. It breaks invariants by hand, one after the
// other, and expects the checks to report the broken one, because checks that detect no errors would prove nothing.
func TestInvariantsNoticeWhatIsWrong(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	l.stored(60)
	api := l.startReady("api")
	for _, id := range l.somePending(30) {
		api.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", 200, nil)
	}
	l.kafka.waitNoLag(l.prefix, l.source)
	l.account().wantInvariants()

	var complaints []string
	a := l.account()
	a.wrong = func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	look := func() string {
		complaints = nil
		a.wantInvariants()
		return strings.Join(complaints, "\n")
	}
	const pending = `(SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' AND dlq_offset IS NOT NULL ORDER BY id LIMIT 1)`
	const resolved = oldestResolved
	for _, c := range []struct{ want, statement string }{
		{"I1: records are stored with other bytes", `UPDATE dlq.records SET headers = '\x00' WHERE message_id = ` + pending},
		{"I1: records are in the log and not stored", `DELETE FROM dlq.dlq_messages WHERE id = ` + pending},
		{"I2: rows have no record", `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('a', 'b')`},
		{"I2: records are stored twice", `UPDATE dlq.dlq_messages m SET (dlq_partition, dlq_offset) = (SELECT dlq_partition, dlq_offset FROM dlq.dlq_messages WHERE id = ` + resolved + `) WHERE m.id = ` + pending},
		{"I4: records are not what was dead-lettered", `UPDATE dlq.records SET value = 'other' WHERE message_id = ` + resolved},
		{"I4: records are in an original topic without an attempt", `UPDATE dlq.attempts SET to_status = 'PENDING', verdict = 'failed' WHERE message_id = ` + resolved},
		{"I4: attempts and messages are called RESOLVED", `UPDATE dlq.attempts SET to_status = 'RESOLVED', verdict = 'acknowledged', attempt_id = gen_random_uuid() WHERE message_id = ` + resolved},
		{"I5: messages are not what the audit trail says", `UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE id = ` + pending},
		{"I5: attempts without an end", `UPDATE dlq.dlq_messages SET attempt_no = attempt_no + 1 WHERE id = ` + pending},
		{"I5: moves that the state machine does not have", `INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, actor) SELECT now(), 'requeue', 'message', id, 'RESOLVED', 'PENDING', 'nobody' FROM dlq.dlq_messages WHERE id = ` + resolved},
		{"I6: messages are in two places", `INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message) SELECT id, original_topic, error_message FROM dlq.dlq_messages WHERE id = ` + resolved},
	} {
		if before := look(); strings.Contains(before, c.want) {
			t.Fatalf("%s: reported before the change: %s", c.want, before)
		}
		if _, err := l.db.Exec(c.statement); err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		if after := look(); !strings.Contains(after, c.want) {
			t.Errorf("complaints %q, want %q", after, c.want)
		}
	}
	l.wantNoticed(a, look)
	l.wantPositionsNoticed(a)
}

// oldestResolved is the SQL expression of the id of the first resolved message.
const oldestResolved = `(SELECT id FROM dlq.dlq_messages WHERE status = 'RESOLVED' ORDER BY id LIMIT 1)`

// wantNoticed breaks several invariants outside the database, for example by a second record in the original topic. The
// function look runs the checks; its text must name each broken invariant.
func (l *letters) wantNoticed(a *account, look func() string) {
	l.t.Helper()
	var changed string // the message whose attempt has another id now
	if err := l.db.Get(&changed, "SELECT "+oldestResolved); err != nil {
		l.t.Fatal(err)
	}
	sent := l.kafka.readAll(l.target)
	again := sent[slices.IndexFunc(sent, func(r *kgo.Record) bool { return header(r, "dlq-message-id") != changed })]
	l.kafka.produce(&kgo.Record{Topic: l.target, Partition: again.Partition, Key: again.Key, Value: again.Value, Headers: again.Headers})
	a.resolved("00000000-0000-0000-0000-00000000dead")
	a.acked[l.source+"/0/999999"] = again
	a.secrets = append(a.secrets, "listening on")
	after := look()
	for _, want := range []string{
		"I4: one attempt is in its topic more than once", "I4: messages were sent again", "I4: clients got a success",
		"I1: Kafka itself has lost or changed", `I8: "listening on" is in the log`,
	} {
		if !strings.Contains(after, want) {
			l.t.Errorf("complaints %q, want %q", after, want)
		}
	}
}

// wantPositionsNoticed checks the check of the invariant I3: it must report committed offsets that are ahead of the
// stored rows.
func (l *letters) wantPositionsNoticed(a *account) {
	l.t.Helper()
	if _, err := l.db.Exec(`UPDATE dlq.ingest_positions SET next_offset = next_offset - 1 WHERE next_offset > 0`); err != nil {
		l.t.Fatal(err)
	}
	var heard string
	a.wrong = func(format string, args ...any) { heard += fmt.Sprintf(format, args...) }
	w := a.watch()
	lasting(500 * time.Millisecond)
	w.want(1)
	if !strings.Contains(heard, "is committed and") {
		l.t.Errorf("complaints %q, want a report of offsets that are ahead", heard)
	}
}
