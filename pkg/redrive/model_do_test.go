package redrive

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxLiving is the largest number of processes that run at the same time.
const maxLiving = 3

// do executes a command. A request to a process that the command starts may continue after do returns.
func (w *world) do(c command) {
	p, alive := pick(w.living(), c.a)
	switch c.verb {
	case cmdAdd:
		w.add(1+c.rng().IntN(4), c.rng())
	case cmdReturn:
		w.comeBack(c)
	case cmdStart:
		if len(w.living()) < maxLiving {
			w.startProcess()
		}
	case cmdBroker:
		w.setWeather(weathers[c.a%uint64(len(weathers))])
	case cmdHealthy:
		w.setWeather(well)
	case cmdStore:
		w.mu.Lock()
		w.storeBack = time.Now().Add(upTo(c.rng(), time.Second, 40*time.Second))
		w.mu.Unlock()
	case cmdLock:
		w.lockRows(c)
	case cmdTruncate:
		w.truncate(c)
	case cmdSleep:
		elapse(upTo(c.rng(), time.Millisecond, 15*time.Second))
	case cmdLongSleep:
		elapse(upTo(c.rng(), time.Minute, 5*time.Minute))
	case cmdOutage:
		for _, p := range w.living() {
			w.crash(p)
		}
		elapse(upTo(c.rng(), time.Minute, 8*time.Hour))
		w.startProcess()
	default:
		if alive {
			w.doWith(p, c)
		}
	}
}

// doWith executes a command that concerns one process.
func (w *world) doWith(p *process, c command) {
	rng := c.rng()
	switch c.verb {
	case cmdAuto:
		p.toggle()
	case cmdStop:
		w.others.Go(func() { p.end() })
	case cmdCrash:
		p.mu.Lock()
		p.fuse = rng.IntN(20)
		p.mu.Unlock()
		w.score.crashes++
	case cmdFreeze:
		p.mu.Lock()
		p.chill, p.rest = rng.IntN(12), upTo(rng, 10*time.Second, 100*time.Second)
		p.mu.Unlock()
	case cmdLose:
		p.mu.Lock()
		p.losing = rng.IntN(6)
		p.mu.Unlock()
	case cmdBegin:
		w.begin(p, c)
	case cmdSettle:
		w.others.Go(func() { _ = p.Settle(p.ctx) })
	case cmdPause, cmdResume, cmdContinue, cmdCancel:
		w.steer(p, c)
	default:
		id, ok := pick(w.messages, c.b)
		if doubtful, some := pick(w.those(func(m entity.Message) bool { return m.Unsettled }), c.b); some && c.verb == cmdAccept {
			id = doubtful
		}
		if again, some := pick(w.those(func(m entity.Message) bool { return m.Repeats.Of != uuid.Nil }), c.b); some && c.verb == cmdRetry && c.c%2 == 0 {
			id = again
		}
		if ok {
			w.others.Go(func() { w.request(p, c, id) })
		}
	}
}

// those returns the ids of the stored messages for which the function are returns true.
func (w *world) those(are func(entity.Message) bool) []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []uuid.UUID
	for _, id := range w.messages {
		if m, err := w.store.Get(context.Background(), id, 0); err == nil && are(m) {
			ids = append(ids, id)
		}
	}
	return ids
}

// request executes an operator's request for one message.
func (w *world) request(p *process, c command, id uuid.UUID) {
	cause := entity.By("operator")
	switch c.verb { //nolint:exhaustive // other verbs are no requests for one message
	case cmdRetry:
		w.retry(p, entity.RetryOrder{ID: id, Cause: cause})
	case cmdAccept:
		w.accept(id)
		w.retry(p, entity.RetryOrder{ID: id, Cause: cause, AcceptDuplicate: true, AcceptEnvelope: true, Edit: sometimes(c)})
	case cmdEdit:
		w.retry(p, entity.RetryOrder{ID: id, Cause: cause, Edit: anEdit(c)})
	case cmdTwice:
		w.retryTwice(p, c, id)
	case cmdRequeue:
		_, _ = p.store.Requeue(p.ctx, id, cause)
	case cmdDead:
		if m, err := p.MarkDead(p.ctx, id, cause); err == nil && m.Status != entity.Dead {
			w.differs("a wrong answer", "GiveUp(%s) = %s", id, m.Status)
		}
	case cmdDelete:
		_ = p.Delete(p.ctx, id, cause)
	}
}

// retry requests a retry of one message from a process, and checks the answer.
func (w *world) retry(p *process, order entity.RetryOrder) {
	result, err := p.Retry(p.ctx, order)
	if p.isDead() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed *entity.PublishError
	switch {
	case err == nil && result.Offset < 0: // another attempt of this message succeeded, for example one that was settled
		if m, err := w.store.Get(context.Background(), order.ID, 0); err == nil && m.Status != entity.Resolved {
			w.fail("a false success", "Retry(%s) = %+v, and it is %s", order.ID, result, m.Status)
		}
	case err == nil:
		log := w.log.partitions[topicPartition{result.Topic, result.Partition}]
		if result.Offset >= int64(len(log)) || log[result.Offset].message != order.ID {
			w.fail("a false success", "Retry(%s) = %+v, which is not in the log", order.ID, result)
			return
		}
		w.checkAnswer(order, log[result.Offset])
	case errors.As(err, &failed):
		w.want(failed.ID == order.ID && (failed.Class != "" || failed.Status == entity.Dead),
			"a wrong answer", "Retry(%s) = %+v", order.ID, failed)
	}
}

// retryTwice sends the same request to two processes, or twice to one. The second request follows the first answer, or
// begins after at most a minute.
func (w *world) retryTwice(p *process, c command, id uuid.UUID) {
	cause := entity.By("operator")
	cause.Operation = uuid.New()
	edit := sometimes(c)
	answered := make(chan struct{})
	w.others.Go(func() {
		defer close(answered)
		w.retry(p, entity.RetryOrder{ID: id, Cause: cause, Edit: edit})
	})
	select {
	case <-answered:
	case <-time.After(upTo(c.rng(), 15*time.Second, time.Minute)):
	}
	if other, ok := pick(w.living(), c.c); ok {
		w.retry(other, entity.RetryOrder{ID: id, Cause: cause, Edit: edit, Resumed: true})
	}
}

// accept notes that the operator accepts envelopes, for a message or a redrive.
func (w *world) accept(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepts[id] = true
}

func (w *world) begin(p *process, c command) {
	rng := c.rng()
	n := repository.NewRedrive{
		Action:    entity.RedriveRetry,
		Selection: entity.Selection{Filter: entity.Filter{Topic: []string{deadLetter, deadLetter, orders, payments}[rng.IntN(4)]}},
		Options:   entity.RedriveOptions{MinSample: 1 + rng.IntN(5), CanaryWait: upTo(rng, time.Second, time.Minute)},
		Cause:     entity.By("operator"),
	}
	if rng.IntN(4) == 0 {
		n.Action = []entity.RedriveAction{entity.RedriveRequeue, entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete}[rng.IntN(4)]
	}
	if rng.IntN(3) == 0 || n.Action == entity.RedriveDelete {
		n.Selection = entity.Selection{}
		for range 1 + rng.IntN(5) {
			id, _ := pick(w.messages, rng.Uint64())
			n.Selection.IDs = append(n.Selection.IDs, id)
		}
	}
	o := &n.Options
	if rng.IntN(4) == 0 {
		o.Canary = 1 + rng.IntN(4)
	}
	if rng.IntN(4) == 0 {
		o.Rate = 0.2 + 5*rng.Float64()
	}
	if rng.IntN(6) == 0 {
		o.MaxFailureShare = rng.Float64()
	}
	if rng.IntN(3) == 0 {
		o.MaxReturnShare = rng.Float64()
	}
	if rng.IntN(4) == 0 && n.Action == entity.RedriveRetry {
		o.Patch = []byte(redrivetest.PatchText)
	}
	o.KeepKeyOrder = rng.IntN(2) == 0
	o.Requeue = rng.IntN(4) == 0
	n.Cause.Operation = uuid.UUID{6: 0x40, 8: 0x80, 15: byte(rng.Uint32()), 0: byte(rng.Uint32()), 1: byte(rng.Uint32()), 2: byte(rng.Uint32())}
	twice := rng.IntN(4) == 0
	if o.AcceptEnvelope = rng.IntN(4) == 0; o.AcceptEnvelope {
		w.accept(n.Cause.Operation)
	}
	w.others.Go(func() {
		_, _ = p.Begin(p.ctx, n)
		if other, ok := pick(w.living(), c.c); ok && twice {
			if r, err := other.Begin(other.ctx, n); err == nil && r.ID != n.Cause.Operation {
				w.differs("a wrong answer", "Begin of %s = %s", n.Cause.Operation, r.ID)
			}
		}
	})
}

// steer pauses, resumes or cancels a redrive that the command chooses.
func (w *world) steer(p *process, c command) {
	w.mu.Lock()
	id, ok := pick(w.order, c.b)
	w.mu.Unlock()
	if !ok {
		return
	}
	do := map[verb]func(context.Context, uuid.UUID, entity.AuditInfo) (entity.Redrive, error){
		cmdPause: p.Pause, cmdResume: p.Resume, cmdContinue: p.Continue, cmdCancel: p.Cancel,
	}[c.verb]
	w.others.Go(func() { _, _ = do(p.ctx, id, entity.By("operator")) })
}

// comeBack stores the dead letter of a record in the log that failed again. The dead letter has, or has lost, the
// headers that dlq-manager adds to replays.
func (w *world) comeBack(c command) {
	rng := c.rng()
	w.mu.Lock()
	var records []written
	for _, at := range []topicPartition{{orders, 0}, {orders, 1}, {payments, 0}, {payments, 1}} {
		records = append(records, w.log.partitions[at]...)
	}
	records = slices.DeleteFunc(records, func(r written) bool { return w.returned[r.attempt] })
	r, ok := pick(records, c.b)
	if !ok {
		w.mu.Unlock()
		return
	}
	parent, err := w.store.Get(context.Background(), r.message, -1)
	if err != nil { // the message was deleted, so its bytes are unknown
		w.mu.Unlock()
		return
	}
	w.returned[r.attempt] = true
	w.score.returns++
	w.mu.Unlock()
	m := entity.NewMessage(r.topic, "boom again", time.Now())
	m.Record.Key, m.Record.Value, m.MaxRetries = r.record.Key, r.record.Value, parent.MaxRetries
	if rng.IntN(3) > 0 {
		m.Return = &entity.Return{Parent: r.message, Attempt: r.attempt}
	}
	stored := w.ingest(m)
	if m.Return != nil && len(stored.Returns) != 1 {
		w.differs("a return is not known", "attempt %s of message %s came back and has no child", r.attempt, r.message)
	}
}

func (w *world) setWeather(to weather) {
	w.tell("the broker is %s", to)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.weather = to
}

// lockRows makes another database session lock the rows of some messages for a while.
func (w *world) lockRows(c command) {
	rng := c.rng()
	w.mu.Lock()
	defer w.mu.Unlock()
	until := time.Now().Add(upTo(rng, time.Millisecond, time.Minute))
	for range 1 + rng.IntN(20) {
		if id, ok := pick(w.messages, rng.Uint64()); ok {
			w.locked[id] = until
		}
	}
}

// truncate makes the records that a partition has now, and the next record written to it, unreadable, as retention
// does.
func (w *world) truncate(c command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := topicPartition{[]string{orders, payments}[c.a%2], int32(c.b % 2)}
	w.log.lost[at] = int64(len(w.log.partitions[at])) + 1
}

func (w *world) crash(p *process) {
	p.die()
	w.score.crashes++
}

// rest removes all faults and lets two processes work until no work is left.
func (w *world) rest() {
	w.setWeather(well)
	w.mu.Lock()
	w.storeBack = time.Time{}
	clear(w.locked)
	w.mu.Unlock()
	for _, p := range w.processes {
		p.heal()
	}
	for len(w.living()) < 2 {
		w.startProcess()
	}
	living := w.living()
	for _, p := range living[2:] {
		p.end()
	}
	for _, p := range living[:2] {
		if p.auto == nil {
			p.toggle()
		}
	}
	const patience = 2 * time.Hour
	for end := time.Now().Add(patience); !w.atRest(living[0]); elapse(5 * time.Second) {
		w.check()
		if w.failed() {
			return
		}
		if time.Now().After(end) {
			w.differs("no rest", "after %s there is still something to do: %s", patience, w.unrest())
			return
		}
	}
}

// atRest reports whether no work is left. It resumes redrives that wait for an operator.
func (w *world) atRest(p *process) bool {
	rest := true
	for _, r := range w.allRedrives() {
		if r.State == entity.RedrivePaused || r.State == entity.RedriveStopped {
			_, _ = p.Resume(p.ctx, r.ID, entity.By("operator"))
		}
		rest = rest && r.State.Over()
	}
	return rest && w.unrest() == ""
}

// unrest describes one thing that is still to be done; "" when no work is left.
func (w *world) unrest() string {
	for _, r := range w.allRedrives() {
		if !r.State.Over() {
			return "redrive " + r.ID.String() + " is " + string(r.State) + ", " + r.Note
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.messages {
		m, err := w.store.Get(context.Background(), id, -1)
		switch {
		case err != nil:
		case m.Claimed() && !m.Unsettled:
			return "message " + id.String() + " is claimed"
		case m.Status == entity.Pending && m.OriginalTopic == orders && !refusable(m.Record) && !isEnvelope(m.Record) && m.Repeats.Of == uuid.Nil:
			return "message " + id.String() + " waits for automatic retry"
		}
	}
	return ""
}

func (w *world) allRedrives() []entity.Redrive {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.store.Redrives(context.Background(), repository.RedriveQuery{Limit: 1000})
	w.want(err == nil, "no redrives", "Redrives: %v", err)
	return all
}
