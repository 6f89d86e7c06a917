package redrive

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// shadow is the model's copy of a message. The model computes it from the audit trail, the verdicts of attempts, the
// attempt count of a return, and the claims that have no audit entry.
type shadow struct {
	id      uuid.UUID
	status  entity.Status
	count   int // attempts since the last requeue that were not given back, refused or rescued
	max     int
	rescues int // consecutive rescues of the message
	ended   int // number of attempts in the message's history whose end the model has read in the audit trail
	gone    bool
	touched bool
	repeats int       // number of dead letters that the message must count
	of      uuid.UUID // the first message of the same record, which was final when this one arrived
	failed  bool      // the last change of the message was a failed attempt
}

// watchClaims checks the claims that a process has just made on the messages taken. The caller holds mu.
func (w *world) watchClaims(p *process, taken []entity.Message) {
	for _, m := range taken {
		r := m.Claim.RedriveID
		w.saw(p, "claims %s for redrive %s", short(m.ID), short(r))
		if r == uuid.Nil {
			continue
		}
		held := false
		for of, ids := range w.leases {
			held = held || of.process == p.number && of.redrive == r && ids[m.ID]
		}
		if !held {
			w.fail("an attempt without a lease", "process %d claimed %s for redrive %s, whose batch it does not have", p.number, m.ID, r)
		}
	}
}

// loadToClaim is the longest time that a process may need between reading a message and claiming it. In that time
// another process may claim the message.
const loadToClaim = 2 * time.Minute

// watchAuto checks that automatic retry claims only messages of the topic orders, and none before the message is due. A
// message that changed within loadToClaim may have been due when automatic retry read the message. The caller holds mu.
func (w *world) watchAuto(claims []repository.Claim) {
	for _, c := range claims {
		w.watchRepeat(c.MessageID, true)
		m, err := w.store.Get(context.Background(), c.MessageID, 0)
		if err == nil && m.CanClaim() == nil && (m.OriginalTopic != orders || m.NextAttemptAt.After(time.Now()) && time.Since(m.UpdatedAt) > loadToClaim) {
			w.fail("too early", "automatic retry takes message %s of %s, which is due at %s", m.ID, m.OriginalTopic, m.NextAttemptAt)
		}
	}
}

// watchSettling checks attempts whose record the settler knows to be absent: if the process reported nothing, the
// attempt is rescued; if the process reported an error, the attempt has failed. The caller holds mu.
func (w *world) watchSettling(results []repository.Result) {
	for _, r := range results {
		m, err := w.store.Get(context.Background(), r.MessageID, 0)
		if err != nil || m.Claim.ID != r.ClaimID || r.Verdict == entity.Acknowledged || r.Verdict == entity.InDoubt {
			continue
		}
		if rescued := r.Verdict == entity.Rescued; rescued != (m.LastPublishErrorClass == "") || !rescued && r.Verdict != entity.Failed {
			w.fail("settled otherwise", "message %s had class %q and got verdict %q", m.ID, m.LastPublishErrorClass, r.Verdict)
		}
	}
}

// watchLease checks the lease of a batch that a process got, and remembers the lease. The caller holds mu.
func (w *world) watchLease(p *process, r entity.Redrive, b *repository.RedriveBatch) {
	if b.OnlyCatchUp == r.State.Active() || b.OnlyCatchUp && !b.TakenOver || r.State == entity.RedriveCanary && !b.Canary {
		w.fail("a lease out of turn", "batch %d of redrive %s was handed out while it is %s", b.Number, r.ID, r.State)
	}
	ids := map[uuid.UUID]bool{}
	for _, item := range b.Items {
		ids[item.MessageID] = item.Result == entity.ItemWaiting
	}
	w.leases[batchOf{p.number, r.ID, b.Number}] = ids
	w.saw(p, "leases batch %d of redrive %s, taken over %v", b.Number, short(r.ID), b.TakenOver)
}

// keepHistories remembers the attempts of messages that will be deleted. The caller holds mu.
func (w *world) keepHistories(ids ...uuid.UUID) {
	for _, id := range ids {
		if h := w.history(id); len(h) > 0 {
			w.histories[id] = h
		}
	}
}

// history returns the attempts on a message, also after the message was deleted. The caller holds mu.
func (w *world) history(id uuid.UUID) []entity.Attempt {
	h, err := w.store.History(context.Background(), id)
	w.want(err == nil, "no history", "History: %v", err)
	if len(h) == 0 {
		return w.histories[id]
	}
	return h
}

// check compares the store and the logs with the model.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.newLines() {
		if line.Kind == entity.KindRedrive {
			w.readRedrive(line)
			continue
		}
		s, ok := w.shadows[line.ObjectID]
		if !ok {
			w.fail("a line about nothing", "%+v", line)
			return
		}
		if w.read(s, line); w.failure != "" {
			return
		}
	}
	attempts := map[uuid.UUID]int{}
	sent := w.log.byAttempt()
	for _, id := range w.messages {
		w.checkMessage(w.shadows[id], attempts, sent)
	}
	for attempt, n := range attempts {
		if n > 1 {
			w.fail("an attempt made twice", "attempt %s is there %d times: %+v", attempt, n, w.named(attempt))
		}
		delete(sent, attempt)
	}
	for attempt := range sent {
		w.fail("a record without an attempt", "attempt %s", attempt)
	}
	w.checkRedrives()
}

// named returns the ended attempts with this id, of any message: the retry of one message must not have the id of
// another one.
func (w *world) named(attempt uuid.UUID) []entity.Attempt {
	var found []entity.Attempt
	for _, id := range w.messages {
		for _, a := range w.history(id) {
			if a.ID == attempt {
				found = append(found, a)
			}
		}
	}
	return found
}

// byAttempt returns the number of records in the log for each attempt.
func (l *modelLog) byAttempt() map[uuid.UUID]int {
	sent := map[uuid.UUID]int{}
	for _, records := range l.partitions {
		for _, r := range records {
			sent[r.attempt]++
		}
	}
	return sent
}

// newLines returns the audit entries that the model has not read, the oldest first.
func (w *world) newLines() []entity.AuditEntry {
	var lines []entity.AuditEntry
	q := repository.TrailQuery{Limit: 50}
	for {
		page, err := w.store.Trail(context.Background(), q)
		if err != nil {
			w.fail("no trail", "Trail: %v", err)
			return nil
		}
		for _, line := range page {
			if line.ID > w.seen {
				lines = append(lines, line)
			}
		}
		if len(page) < q.Limit || page[len(page)-1].ID <= w.seen {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	slices.Reverse(lines)
	if n := len(lines); n > 0 {
		w.seen = lines[n-1].ID
	}
	return lines
}

// read applies an audit entry to the model's copy of a message. It fails the test if the copy's state does not allow
// the change.
func (w *world) read(s *shadow, line entity.AuditEntry) {
	if line.Action == entity.ActionAcceptEnvelope { // it changes no state, and another request may delete the message before it
		w.want(w.accepts[s.id], "a line without a request", "the trail says %+v", line)
		return
	}
	if s.gone {
		w.fail("a line after the end", "message %s was deleted, and then: %+v", s.id, line)
		return
	}
	from := entity.Status(line.From)
	if from == "" && line.Cause.Actor == entity.ActorIngest && !s.touched {
		from = entity.Pending // the ingester stored the message as DEAD, because it had reached its retry limit
	}
	if s.status == entity.Pending && from == entity.Retrying {
		s.claim() // redrives and automatic retry claim messages without an audit entry
	}
	if s.status != from {
		w.fail("a line from elsewhere", "message %s is %s, and the trail says %+v", s.id, s.status, line)
		return
	}
	s.touched, s.failed = true, false
	switch line.Action {
	case entity.ActionRetry:
		if from == entity.Retrying { // an operator takes the message over: its unsettled attempt ends as abandoned
			w.end(s, entity.Abandoned, entity.Retrying)
			s.status = entity.Pending
		}
		s.claim()
	case entity.ActionAttempt:
		w.end(s, "", entity.Status(line.To))
	case entity.ActionRequeue:
		w.arrow(s, entity.Dead, entity.Pending)
		s.count, s.rescues = 0, 0
	case entity.ActionDead:
		if from == entity.Retrying {
			w.end(s, entity.Abandoned, entity.Dead)
		} else {
			w.arrow(s, entity.Pending, entity.Dead)
		}
	case entity.ActionDelete:
		s.gone = true
		w.want(from != entity.Retrying, "deleted under a claim", "message %s: %+v", s.id, line)
		return
	default:
		w.fail("an unknown line", "%+v", line)
	}
	w.want(string(s.status) == line.To && s.count == line.RetryCount,
		"another state", "message %s: the model has %s after %d attempts, the trail %+v", s.id, s.status, s.count, line)
}

func (w *world) arrow(s *shadow, from, to entity.Status) {
	w.want(s.status == from, "no such arrow", "message %s: from %s to %s", s.id, s.status, to)
	s.status = to
}

func (s *shadow) claim() {
	s.status = entity.Retrying
	s.count++
	s.touched = true
}

// end changes the model's copy of a message at the end of an attempt. want is the verdict that the attempt must have,
// or "" for any verdict. to is the message's status in the audit trail.
func (w *world) end(s *shadow, want entity.Verdict, to entity.Status) {
	h := w.history(s.id)
	if s.ended >= len(h) {
		w.fail("an attempt without a row", "message %s has %d attempts, its trail one more", s.id, len(h))
		return
	}
	a := h[s.ended]
	s.ended++
	w.want((want == "" || a.Verdict == want) && a.RetryCount == s.count && a.To == to,
		"another attempt", "message %s after %d attempts, to %s: %+v", s.id, s.count, to, a)
	switch a.Verdict {
	case entity.Acknowledged:
		s.status, s.rescues = entity.Resolved, 0
	case entity.Rejected:
		s.status, s.rescues = entity.Dead, 0
	case entity.Failed:
		s.rescues, s.failed = 0, true
		s.back(0)
	case entity.Refused:
		s.rescues = 0
		s.back(1)
	case entity.GivenBack:
		s.back(1)
	case entity.Rescued:
		s.rescues++
		s.back(1)
	case entity.Abandoned:
		s.status = to
	default:
		w.fail("an unknown verdict", "%+v", a)
	}
}

// back changes the copy of a message whose attempt did not succeed. The count of attempts decreases by given. The
// message becomes PENDING, or DEAD if it has no attempts or rescues left.
func (s *shadow) back(given int) {
	s.count -= given
	s.status = entity.Pending
	if s.count >= s.max || s.rescues >= repository.RescueLimit {
		s.status = entity.Dead
	}
}

// checkMessage compares a stored message with the model's copy of it, and with the records in the log.
func (w *world) checkMessage(s *shadow, attempts, sent map[uuid.UUID]int) {
	h := w.history(s.id)
	w.want(s.ended == len(h), "an attempt without a line", "message %s has %d attempts, its trail %d", s.id, len(h), s.ended)
	acknowledged := 0
	for i, a := range h {
		attempts[a.ID]++
		if a.Verdict == entity.Acknowledged {
			acknowledged++
		}
		if i > 0 && a.Number <= h[i-1].Number {
			w.fail("attempts out of order", "message %s: %d after %d", s.id, a.Number, h[i-1].Number)
		}
		w.checkSent(a, sent[a.ID])
		w.checkEdit(a)
	}
	m, err := w.store.Get(context.Background(), s.id, -1)
	if err != nil {
		w.want(s.gone, "a lost message", "Get(%s) = %v", s.id, err)
		return
	}
	w.checkRecord(m)
	w.want(m.Repeats.Count == s.repeats && m.Repeats.Of == s.of,
		"other repeats", "message %s has %+v, the model has %d of %s", s.id, m.Repeats, s.repeats, s.of)
	if m.Claimed() {
		attempts[m.Claim.ID]++
		if sent[m.Claim.ID] > 1 {
			w.fail("a doubled record", "claim %s of message %s has %d records", m.Claim.ID, s.id, sent[m.Claim.ID])
		}
	}
	if s.status == entity.Pending && m.Claimed() {
		s.claim()
	}
	if s.gone || m.Status != s.status || m.RetryCount != s.count {
		w.fail("another state", "message %s is %s after %d attempts, the model has %s after %d", s.id, m.Status, m.RetryCount, s.status, s.count)
	}
	w.want((m.Status == entity.Resolved) == (acknowledged == 1) && acknowledged <= 1,
		"another success", "message %s is %s with %d acknowledged attempts", s.id, m.Status, acknowledged)
	w.want(m.Status != entity.Pending || m.RetryCount < m.MaxRetries,
		"nothing left", "message %s is PENDING after %d of %d attempts", s.id, m.RetryCount, m.MaxRetries)
	w.want(m.Status != entity.Pending || (s.touched && s.of == uuid.Nil) != m.NextAttemptAt.IsZero(),
		"another next attempt", "message %s is PENDING, touched %v, due %s", s.id, s.touched, m.NextAttemptAt)
	w.want(m.Claimed() != (m.Claim.ID == uuid.Nil) && (!m.Unsettled || m.Claimed()),
		"a wrong claim", "message %s is %s with claim %+v", s.id, m.Status, m.Claim)
	if n := len(h); n > 0 && m.Status == entity.Pending && s.failed && s.of == uuid.Nil {
		w.checkBackoff(m, h[n-1])
	}
}

// checkSent checks that the number n of records that the log has of the attempt a is possible with the attempt's
// verdict, and that an acknowledged record has the attempt's offset.
func (w *world) checkSent(a entity.Attempt, n int) {
	want := 0
	switch a.Verdict { //nolint:exhaustive // attempts with other verdicts have no record
	case entity.Acknowledged:
		want = 1
		log := w.log.partitions[topicPartition{a.Topic, a.Partition}]
		w.want(a.Offset >= 0 && a.Offset < int64(len(log)) && log[a.Offset].attempt == a.ID,
			"a false success", "attempt %+v is not where it says", a)
	case entity.Abandoned:
		want = min(n, 1)
	}
	w.want(n == want, "a record too many or too few", "attempt %+v has %d records, want %d", a, n, want)
}

// checkBackoff checks that the wait until a message's next attempt doubles with each failure up to a maximum, within
// the jitter.
func (w *world) checkBackoff(m entity.Message, a entity.Attempt) {
	auto := DefaultConfig().Auto
	wait := min(auto.Backoff<<(a.RetryCount-1), auto.BackoffMax)
	got := m.NextAttemptAt.Sub(a.EndedAt)
	if jitter := time.Duration(float64(wait)*auto.Jitter) + time.Millisecond; got < wait-jitter || got > wait+jitter {
		w.fail("another backoff", "message %s failed with count %d and is due after %s, want about %s", m.ID, a.RetryCount, got, wait)
	}
}

// checkArrival checks what the store recorded about a return: the message that was sent, its attempt and its outcome.
// The caller holds mu.
func (w *world) checkArrival(m entity.Message, a repository.Arrival) {
	parent, ok := w.shadows[a.Parent]
	if !ok || a.MessageID != m.ID {
		w.fail("a wrong return", "%+v", a)
		return
	}
	known := slices.ContainsFunc(w.history(a.Parent), func(h entity.Attempt) bool {
		return h.RetryCount == a.RetryCount && (m.Return == nil && h.Verdict == entity.Acknowledged || m.Return != nil && h.ID == m.Return.Attempt)
	})
	if p, err := w.store.Get(context.Background(), a.Parent, 0); err == nil {
		known = known || p.Claimed() && p.RetryCount == a.RetryCount && (m.Return == nil || p.Claim.ID == m.Return.Attempt)
		w.want(p.Outcome == entity.Returned, "a wrong outcome", "message %s came back and its outcome is %q", p.ID, p.Outcome)
	}
	w.want(known && a.ByContent != (m.Return != nil),
		"a wrong return", "%+v is of no attempt of %s (%d attempts)", a, a.Parent, parent.ended)
}

// checkRest counts how the messages ended, and checks that only unsettled messages have a claim left, and that all
// redrives are over. The test calls it after it has removed all faults.
func (w *world) checkRest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.messages {
		s := w.shadows[id]
		w.score.attempts += s.ended
		switch s.status { //nolint:exhaustive // PENDING messages are not counted
		case entity.Resolved:
			w.score.resolved++
		case entity.Dead:
			w.score.dead++
		case entity.Retrying:
			w.score.unsettled++
		}
		m, err := w.store.Get(context.Background(), id, 0)
		w.want(err != nil || !m.Claimed() || m.Unsettled && m.LastPublishErrorClass == entity.UnknownClass,
			"a claim is left", "message %s: %+v", id, m.Claim)
	}
	w.score.redrives += len(w.order)
	w.checkRedrivesOver()
}
