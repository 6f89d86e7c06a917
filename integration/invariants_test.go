package integration_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// account checks the invariants below at the end of a fault test. They must be true after every fault:
//
//	I1  No record of a dead-letter topic is lost or changed.
//	I2  Each message in the database has a record, and no two messages have the same record.
//	I3  No offset is ever committed beyond the stored messages.
//	I4  A message that counts as sent is in its original topic, once per attempt, and
//	    every record there was requested.
//	I5  A message changes its status only as the state machine allows, and the audit trail
//	    contains each end of an attempt.
//	I6  A message is either live or archived.
//	I7  After the faults everything continues by itself, within a minute on an idle machine,
//	    and goroutines and memory have not accumulated.
//	I8  No password, token or payload is in a log.
//	I9  The test had enough records and faults to prove something.
//
// The checks use SQL and their own Kafka client. The fields of account hold what the test observed while it ran.
type account struct {
	*system
	sources, targets []string // dead-letter topics, and the topics of replays
	wrong            func(format string, args ...any)

	mu      sync.Mutex
	acked   map[string]*kgo.Record // records that Kafka acknowledged, by position
	sent    map[string]bool        // ids of messages whose retry the API answered with RESOLVED
	deleted map[string]string      // positions of messages whose deletion was requested, by id
	secrets []string               // texts that no log may contain
}

func newAccount(s *system, sources, targets []string) *account {
	return &account{
		system: s, sources: sources, targets: targets, wrong: s.t.Errorf,
		acked: map[string]*kgo.Record{}, sent: map[string]bool{}, deleted: map[string]string{},
	}
}

// account returns an account of this test's topics that knows the records that were sent so far.
func (l *letters) account() *account {
	a := newAccount(l.system, []string{l.source}, []string{l.target})
	for _, r := range l.sent {
		a.acked[position(r)] = r
	}
	a.secrets = append(a.secrets, "grüße") // each dead letter's value contains this text; no log may contain it
	return a
}

// took adds records that Kafka has acknowledged to the records that must not be lost.
func (a *account) took(records ...*kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range records {
		a.acked[position(r)] = r
	}
}

// resolved remembers that a client got the answer RESOLVED for the message with this id.
func (a *account) resolved(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent[id] = true
}

// deletes remembers that the test is about to request the deletion of a message. The audit trail shows whether the
// message was deleted.
func (a *account) deletes(id, position string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted[id] = position
}

// wantInvariants checks I1, I2, I4, I5, I6 and I8 of the invariants that are listed at type account. It may be called
// only when no program is at work.
func (a *account) wantInvariants() {
	a.t.Helper()
	rows := a.rows()
	a.wantKept(rows)
	a.wantSent(rows)
	a.wantHistory(rows)
	a.wantInOnePlace(rows)
	a.wantDiscretion()
}

// kept is a message in the database: a row of the live table or of the archive.
type kept struct {
	ID        uuid.UUID
	Archived  bool
	Topic     *string
	Partition *int32 `db:"dlq_partition"`
	Offset    *int64 `db:"dlq_offset"`
	Key       []byte
	Value     []byte
	Headers   []byte
	Status    string
	Attempts  int        `db:"attempt_no"`
	Parent    *uuid.UUID `db:"parent_id"`
}

func (k *kept) position() string {
	if k.Topic == nil || k.Partition == nil || k.Offset == nil {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", *k.Topic, *k.Partition, *k.Offset)
}

// rows returns all rows of the live table and of the archive, read in one snapshot.
func (a *account) rows() (rows []kept) {
	a.t.Helper()
	const columns = `m.id, t.name AS topic, m.dlq_partition, m.dlq_offset, m.key, m.value, m.headers, m.status, m.attempt_no, m.parent_id`
	err := a.db.Select(&rows, `
		SELECT false AS archived, `+columns+` FROM dlq.messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
		UNION ALL
		SELECT true AS archived, `+columns+` FROM dlq.archived_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`)
	check.NoError(a.t, err)
	return rows
}

// wantKept checks the invariants I1 and I2: it compares the records in the dead-letter topics with the rows in the
// database.
func (a *account) wantKept(rows []kept) {
	a.t.Helper()
	log := map[string]*kgo.Record{}
	for _, r := range a.kafka.readAll(a.sources...) {
		log[position(r)] = r
	}
	for at, r := range a.acked {
		if log[at] == nil || !bytes.Equal(framed(log[at]), framed(r)) {
			a.wrong("I1: Kafka itself has lost or changed %s", at)
		}
	}
	have := map[string]bool{}
	var doubled, invented, changed []string
	for _, row := range rows {
		at := row.position()
		switch r := log[at]; {
		case r == nil:
			invented = append(invented, row.ID.String()+" at "+at)
		case have[at]:
			doubled = append(doubled, at)
		case !same(row.Key, r.Key) || !same(row.Value, r.Value) || !bytes.Equal(row.Headers, framed(r)):
			changed = append(changed, at)
		}
		have[at] = true
	}
	gone := a.deletions()
	var lost []string
	for at := range log {
		if !have[at] && !gone[at] {
			lost = append(lost, at)
		}
	}
	a.complain("I1: records are in the log and not stored", lost)
	a.complain("I1: records are stored with other bytes than they had", changed)
	a.complain("I2: rows have no record", invented)
	a.complain("I2: records are stored twice", doubled)
}

// complain reports that an invariant is broken, with the number of violations and up to five of them. It reports
// nothing if the list of violations is empty.
func (a *account) complain(what string, which []string) {
	a.t.Helper()
	if len(which) > 0 {
		slices.Sort(which)
		a.wrong("%s: %d, such as %v", what, len(which), which[:min(5, len(which))])
	}
}

// same reports whether a and b are equal. A null value differs from an empty one.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// framed encodes headers as they are stored: their number, then each key and value after its
// length; the length of a value is increased by one, so that zero means null.
func framed(r *kgo.Record) []byte {
	out := binary.AppendUvarint(nil, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		out = append(binary.AppendUvarint(out, uint64(len(h.Key))), h.Key...)
		if h.Value == nil {
			out = binary.AppendUvarint(out, 0)
			continue
		}
		out = append(binary.AppendUvarint(out, uint64(len(h.Value))+1), h.Value...)
	}
	return out
}

// deletions returns the positions of messages that were deleted on request. It reports messages that were deleted
// without a request or twice.
func (a *account) deletions() map[string]bool {
	a.t.Helper()
	var ids []uuid.UUID
	check.NoError(a.t, a.db.Select(&ids, `SELECT object_id FROM dlq.audit WHERE kind = 'message' AND action = 'delete'`))
	gone := map[string]bool{}
	for _, id := range ids {
		at, asked := a.deleted[id.String()]
		if !asked {
			a.wrong("I1: message %s was deleted without a request", id)
		}
		if gone[at] {
			a.wrong("I5: message %s was deleted twice", id)
		}
		gone[at] = true
	}
	return gone
}

// trial is an attempt that has ended, as the message's history in dlq.attempts describes it.
type trial struct {
	ID        uuid.UUID `db:"attempt_id"`
	Message   uuid.UUID `db:"message_id"`
	Verdict   *string
	To        string  `db:"to_status"`
	Topic     string  `db:"target_topic"`
	Partition *int32  `db:"target_partition"`
	Offset    *int64  `db:"target_offset"`
	Edited    *[]byte `db:"edited"` // the edited value, if an edit set one
}

// takenOver is the verdict of an attempt whose result will never be known, because an operator has decided not to wait
// until it is settled.
const takenOver = "abandoned"

// wantSent checks the invariant I4, that each sent message is in its topic once per attempt. It compares the records in
// the original topics with the attempts in the database.
func (a *account) wantSent(rows []kept) {
	a.t.Helper()
	var trials []trial
	if err := a.db.Select(&trials, `
		SELECT t.attempt_id, t.message_id, t.verdict, t.to_status, t.target_topic, t.target_partition, t.target_offset,
			(SELECT e.value FROM dlq.edits e WHERE e.attempt_id = t.attempt_id AND e.message_id = t.message_id AND e.set_value) AS edited
		FROM dlq.attempts t`); err != nil {
		a.t.Fatal(err)
	}
	attempts, byMessage := map[string]*trial{}, map[string][]*trial{}
	for i := range trials {
		attempts[trials[i].ID.String()] = &trials[i]
		byMessage[trials[i].Message.String()] = append(byMessage[trials[i].Message.String()], &trials[i])
	}
	letters := map[string]*kept{}
	for i := range rows {
		letters[rows[i].ID.String()] = &rows[i]
	}
	inLog := map[string]int{} // number of records in the logs, by attempt
	messages := map[string]int{}
	var unasked, altered []string
	for _, r := range a.kafka.readAll(a.targets...) {
		id, attempt := header(r, "dlq-message-id"), header(r, "dlq-redrive-id")
		inLog[attempt]++
		messages[id]++
		if _, deleted := a.deleted[id]; deleted && letters[id] == nil {
			continue // the message was deleted, and its attempts were deleted with it
		}
		t := attempts[attempt]
		if t == nil || t.Message.String() != id || t.Topic != r.Topic || t.To != "RESOLVED" && (t.Verdict == nil || *t.Verdict != takenOver) {
			unasked = append(unasked, fmt.Sprintf("%s of message %s attempt %s (%+v)", position(r), id, attempt, t))
			continue
		}
		if row := letters[id]; row == nil || !faithful(r, row, t.Edited) {
			altered = append(altered, fmt.Sprintf("%s of message %s", position(r), id))
		}
	}
	a.complain("I4: records are in an original topic without an attempt that says so", unasked)
	a.complain("I4: records are not what was dead-lettered", altered)
	a.wantEachSent(rows, byMessage, inLog, messages)
}

// wantEachSent checks the invariant I4 in the other direction than wantSent: each attempt that counts as sent must have
// its record in the topic.
func (a *account) wantEachSent(rows []kept, byMessage map[string][]*trial, inLog, messages map[string]int) {
	a.t.Helper()
	var missing, doubled, often, promised []string
	restored := a.countActions("restore")
	for id, list := range byMessage {
		sent, forgiven := 0, restored[id]
		for _, t := range list {
			n := inLog[t.ID.String()]
			sent += n
			switch {
			case t.Verdict != nil && *t.Verdict == takenOver:
				forgiven++
			case t.To == "RESOLVED" && n == 0:
				missing = append(missing, fmt.Sprintf("attempt %s of message %s", t.ID, id))
			}
			if n > 1 {
				doubled = append(doubled, fmt.Sprintf("attempt %s of message %s: %d times", t.ID, id, n))
			}
		}
		if sent > 1+forgiven {
			often = append(often, fmt.Sprintf("message %s: %d times", id, sent))
		}
	}
	for _, row := range rows {
		if row.Status == "RESOLVED" && messages[row.ID.String()] == 0 {
			missing = append(missing, "message "+row.ID.String())
		}
	}
	for id := range a.sent {
		if messages[id] == 0 {
			promised = append(promised, id)
		}
	}
	a.complain("I4: attempts and messages are called RESOLVED and are not in their topic", missing)
	a.complain("I4: one attempt is in its topic more than once", doubled)
	a.complain("I4: messages were sent again without a recorded reason", often)
	a.complain("I4: clients got a success and there is no record", promised)
}

// faithful reports whether a replay has the key and the value of its dead letter, and no header x-* that the dead
// letter does not have. If an operator has edited the message, the replay must have the edited value.
func faithful(r *kgo.Record, row *kept, edited *[]byte) bool {
	want := row.Value
	if edited != nil {
		want = *edited
	}
	if !bytes.Equal(r.Value, want) || !same(r.Key, row.Key) {
		return false
	}
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, "x-") && !bytes.Contains(row.Headers, slices.Concat([]byte(h.Key), binary.AppendUvarint(nil, uint64(len(h.Value))+1), h.Value)) {
			return false
		}
	}
	return true
}

// countActions counts the audit entries of an action by message.
func (a *account) countActions(action string) map[string]int {
	a.t.Helper()
	var rows []struct {
		ID uuid.UUID `db:"object_id"`
		N  int
	}
	if err := a.db.Select(&rows, `SELECT object_id, count(*) AS n FROM dlq.audit WHERE kind = 'message' AND action = $1 GROUP BY 1`, action); err != nil {
		a.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, row := range rows {
		counts[row.ID.String()] = row.N
	}
	return counts
}

// arrows lists the allowed transitions by action. It does not use the product's own table, so that the test notices a
// mistake in that table.
var arrows = map[string][]string{
	"retry":   {"PENDING>RETRYING", "RETRYING>RETRYING"},
	"attempt": {"RETRYING>RESOLVED", "RETRYING>PENDING", "RETRYING>DEAD"},
	"requeue": {"DEAD>PENDING"},
	"dead":    {"PENDING>DEAD", "RETRYING>DEAD", ">DEAD"},
	"delete":  {"PENDING>", "RESOLVED>", "DEAD>"},
	"restore": {"RESOLVED>PENDING", "DEAD>PENDING"},
	"map":     {"PENDING>PENDING", "DEAD>DEAD"},
}

// wantHistory checks the invariant I5: it follows the audit trail of every message from its creation to its current
// state.
func (a *account) wantHistory(rows []kept) {
	a.t.Helper()
	var trail []struct {
		ID       uuid.UUID `db:"object_id"`
		Action   string
		From, To string
	}
	if err := a.db.Select(&trail, `SELECT object_id, action, coalesce(from_state, '') AS from, coalesce(to_state, '') AS to
		FROM dlq.audit WHERE kind = 'message' AND action <> 'unmask' ORDER BY object_id, id`); err != nil {
		a.t.Fatal(err)
	}
	var illegal []string
	now, ends := map[uuid.UUID]string{}, map[uuid.UUID]int{}
	for _, e := range trail {
		before, known := now[e.ID]
		if !known {
			before = "PENDING"
		}
		// An attempt that a client did not request leaves no audit entry when it starts, so the entry of its end may
		// come directly after PENDING.
		follows := e.From == before || e.From == "RETRYING" && before == "PENDING" || e.From == "" && !known
		if !slices.Contains(arrows[e.Action], e.From+">"+e.To) || !follows {
			illegal = append(illegal, fmt.Sprintf("message %s: %s moved it from %q to %q when it was %q", e.ID, e.Action, e.From, e.To, before))
		}
		now[e.ID] = e.To
		if e.Action == "attempt" {
			ends[e.ID]++
		}
	}
	a.complain("I5: moves that the state machine does not have", illegal)
	a.wantPresent(rows, now)
	a.wantAttemptsNoted(rows, ends)
}

// wantPresent checks that the last state of each message in the audit trail is the state in the message's row. After
// PENDING, the row may also be RETRYING.
func (a *account) wantPresent(rows []kept, now map[uuid.UUID]string) {
	a.t.Helper()
	var elsewhere []string
	for _, row := range rows {
		last, known := now[row.ID]
		if !known {
			last = "PENDING"
		}
		if row.Status != last && (row.Status != "RETRYING" || last != "PENDING") {
			elsewhere = append(elsewhere, fmt.Sprintf("message %s is %s, and %q by the trail", row.ID, row.Status, last))
		}
		delete(now, row.ID)
	}
	for id, last := range now {
		if last != "" {
			elsewhere = append(elsewhere, fmt.Sprintf("message %s is nowhere, and %q by the trail", id, last))
		}
	}
	a.complain("I5: messages are not what the audit trail says", elsewhere)
}

// wantAttemptsNoted checks that the history of each message contains the end of each of its attempts once, and that the
// audit trail contains one entry for each of these ends, except when an operator has taken the message over.
func (a *account) wantAttemptsNoted(rows []kept, ends map[uuid.UUID]int) {
	a.t.Helper()
	var counted []struct {
		ID    uuid.UUID `db:"message_id"`
		All   int       `db:"all_ends"`
		Noted int
	}
	if err := a.db.Select(&counted, `SELECT message_id, count(*) AS all_ends, count(*) FILTER (WHERE verdict IS DISTINCT FROM 'abandoned') AS noted
		FROM dlq.attempts GROUP BY 1`); err != nil {
		a.t.Fatal(err)
	}
	all, noted := map[uuid.UUID]int{}, map[uuid.UUID]int{}
	for _, c := range counted {
		all[c.ID], noted[c.ID] = c.All, c.Noted
	}
	var wrong []string
	for _, row := range rows {
		begun := row.Attempts
		if row.Status == "RETRYING" {
			begun--
		}
		if all[row.ID] != begun || noted[row.ID] != ends[row.ID] {
			wrong = append(wrong, fmt.Sprintf("message %s, %s: %d attempts have begun and %d ended; the trail has %d of %d",
				row.ID, row.Status, row.Attempts, all[row.ID], ends[row.ID], noted[row.ID]))
		}
	}
	a.complain("I5: attempts without an end, or without it in the audit trail", wrong)
}

// wantInOnePlace checks the invariant I6: no message is both in the live table and in the archive. wantKept finds
// messages that are in neither of the two tables.
func (a *account) wantInOnePlace(rows []kept) {
	a.t.Helper()
	seen := map[uuid.UUID]bool{}
	var twice []string
	for _, row := range rows {
		if seen[row.ID] {
			twice = append(twice, row.ID.String())
		}
		seen[row.ID] = true
	}
	a.complain("I6: messages are in two places", twice)
}

// wantDiscretion checks the invariant I8: no log contains a secret.
func (a *account) wantDiscretion() {
	a.t.Helper()
	secrets := append([]string{passwordIn(a.t, a.config)}, a.secrets...)
	for _, path := range a.logs {
		log := readFile(a.t, path)
		for _, secret := range secrets {
			if secret != "" && strings.Contains(log, secret) {
				a.wrong("I8: %q is in the log %s", secret, path)
			}
		}
	}
}

// passwordIn returns the database password in a configuration file; "" when the file contains none.
func passwordIn(t *testing.T, config string) string {
	t.Helper()
	_, rest, _ := strings.Cut(readFile(t, config), `password: "`)
	password, _, _ := strings.Cut(rest, `"`)
	return password
}

// watch checks the invariants I3 (committed offsets) and I6 (live or archived) again and again while a test runs, until
// want is called. The field looks counts the checks that found a committed offset.
type watch struct {
	a      *account
	cancel context.CancelFunc
	done   chan struct{}
	looks  int
	wrong  []string
}

func (a *account) watch() *watch {
	ctx, cancel := context.WithCancel(a.t.Context())
	w := &watch{a: a, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				w.look(ctx)
			}
		}
	}()
	return w
}

// look reads the committed offsets from Kafka before it reads the ingester's positions from PostgreSQL: positions only
// increase, so they must not be below those offsets at the time of the second read.
func (w *watch) look(ctx context.Context) {
	committed := map[string]map[int]int64{}
	for _, topic := range w.a.sources {
		committed[topic] = w.a.kafka.committed(w.a.prefix, topic)
	}
	var stored []struct {
		Name      string
		Partition int
		Next      int64 `db:"next_offset"`
	}
	if err := w.a.db.SelectContext(ctx, &stored, `SELECT t.name, p.partition, max(p.next_offset) AS next_offset FROM dlq.ingest_positions p
		JOIN dlq.topic_incarnations i ON i.id = p.incarnation_id JOIN dlq.topics t ON t.id = i.topic_id GROUP BY 1, 2`); err != nil {
		return // without an answer of the database, nothing can be checked
	}
	known := map[string]int64{}
	for _, s := range stored {
		known[fmt.Sprintf("%s/%d", s.Name, s.Partition)] = s.Next
	}
	seen := false
	for topic, offsets := range committed {
		for partition, offset := range offsets {
			seen = true
			if at := fmt.Sprintf("%s/%d", topic, partition); offset > known[at] {
				w.wrong = append(w.wrong, fmt.Sprintf("%s: %d is committed and %d stored", at, offset, known[at]))
			}
		}
	}
	var both int
	if err := w.a.db.GetContext(ctx, &both, `SELECT count(*) FROM dlq.dlq_messages JOIN dlq.dlq_messages_archive USING (id)`); err == nil && both > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("%d messages are live and archived", both))
	}
	if seen {
		w.looks++
	}
}

// want stops the checks and reports what they found. It fails the test after too few checks, because they prove
// nothing.
func (w *watch) want(least int) {
	w.a.t.Helper()
	w.cancel()
	<-w.done
	w.a.complain("I3, I6: at some moment", w.wrong)
	w.a.t.Logf("positions were compared %d times", w.looks)
	if w.looks < least {
		w.a.wrong("I9: positions were compared %d times, want at least %d", w.looks, least)
	}
}

// burden is the number of goroutines and the memory that a program uses at one moment.
type burden struct{ goroutines, memory float64 }

func (p *process) burden() burden {
	_, metrics := p.try(http.MethodGet, "/metrics", nil)
	return burden{metric(metrics, "go_goroutines"), metric(metrics, "process_resident_memory_bytes")}
}

// metric returns the value of a metric on a page, -1 when the page does not contain it.
func metric(page []byte, name string) float64 {
	for line := range strings.SplitSeq(string(page), "\n") {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
				return value
			}
		}
	}
	return -1
}

// wantNear checks a part of the invariant I7: a program uses not much more memory and goroutines than before the
// faults. It waits for this for some time.
func (p *process) wantNear(before burden) {
	p.t.Helper()
	var now burden
	most := burden{before.goroutines*1.5 + 50, before.memory*2 + 64<<20}
	eventually(p.t, fmt.Sprintf("%s uses not much more than before the faults, %+v", p.name, before), func() bool {
		now = p.burden()
		return now.goroutines > 0 && now.goroutines <= most.goroutines && now.memory > 0 && now.memory <= most.memory
	})
	p.t.Logf("%s: %.0f goroutines and %.0f MiB before the faults, %.0f and %.0f after", p.name,
		before.goroutines, before.memory/(1<<20), now.goroutines, now.memory/(1<<20))
}
