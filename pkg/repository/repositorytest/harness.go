package repositorytest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	original   = "orders"
	deadLetter = "orders.dlq"
	expiry     = 30 * time.Second
	whole      = int64(-1) // the limit for the size of values with which values of any size are loaded
)

// harness is what the test of one promise uses: the store, its clock, and helpers. A helper ends the test when the
// store returns an error.
type harness struct {
	*testing.T
	Fixture
	clock *Clock
	next  int64 // offset that the method message gives to the next message
	refs  map[string]repository.TopicRef
}

// message returns a PENDING message of the dead-letter topic that tests use by default, without storing it.
func (h *harness) message(changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	m := entity.NewMessage(original, "boom", h.clock.Now())
	m.Record.Value = []byte(`{"order": 1}`)
	m.Origin.Confidence = entity.FromHeader
	m.Source = h.source(deadLetter, h.next)
	h.next++
	for _, change := range changes {
		change(&m)
	}
	m.Record.Size = max(m.Record.Size, int64(len(m.Record.Value)))
	return m
}

// put stores a new message, which the method message returns with the given changes, and advances the clock by a
// second.
func (h *harness) put(changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	m := h.message(changes...)
	h.Insert(h.T, m)
	h.clock.Advance(time.Second)
	return m
}

// puts stores n messages like put, and returns their ids, the oldest first.
func (h *harness) puts(n int, changes ...func(*entity.Message)) []uuid.UUID {
	h.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = h.put(changes...).ID
	}
	return ids
}

// source returns the source of a record in partition 0 of a topic's first incarnation, at the given offset.
func (h *harness) source(topic string, offset int64) entity.Source {
	h.Helper()
	ref, ok := h.refs[topic]
	if !ok {
		ref = h.topic(topic, "life-1")
		h.refs[topic] = ref
	}
	return entity.Source{Topic: topic, TopicID: ref.TopicID, Incarnation: ref.Incarnation, Offset: offset}
}

func (h *harness) topic(name, life string) repository.TopicRef {
	h.Helper()
	refs, err := h.Repository.OpenTopics(h.Context(), []repository.Topic{{Name: name, Incarnation: life}})
	check.Require(h, err == nil && len(refs) == 1, "OpenTopics(%s, %s) = %v, %v, want one", name, life, refs, err)
	return refs[0]
}

func (h *harness) get(id uuid.UUID) entity.Message {
	h.Helper()
	return check.Must(h.Repository.Get(h.Context(), id, whole))(h)
}

func (h *harness) list(topic string, page repository.Page) repository.List {
	h.Helper()
	return check.Must(h.Repository.List(h.Context(), topic, page))(h)
}

// claimable returns the number of messages of the topic that can be claimed now.
func (h *harness) claimable(topic string) int {
	h.Helper()
	free, err := h.Repository.Claimable(h.Context(), ids(h.list(topic, repository.Page{Number: 1, Size: everything}).Messages))
	check.True(h, err == nil, "Claimable(%q): %v", topic, err)
	return len(free)
}

func (h *harness) history(id uuid.UUID) []entity.Attempt {
	h.Helper()
	return check.Must(h.Repository.History(h.Context(), id))(h)
}

func (h *harness) expired(limit int) []uuid.UUID {
	h.Helper()
	messages := check.Must(h.Repository.Expired(h.Context(), repository.ExpiredQuery{Limit: limit}))(h)
	return ids(messages)
}

// intent returns a claim with a new id on a message.
func intent(id uuid.UUID) repository.Claim {
	return repository.Claim{MessageID: id, ID: uuid.New(), Topic: original, Partition: 2, EndOffset: 40}
}

func intents(ids ...uuid.UUID) []repository.Claim {
	claims := make([]repository.Claim, len(ids))
	for i, id := range ids {
		claims[i] = intent(id)
	}
	return claims
}

func (h *harness) claimAll(claims ...repository.Claim) []entity.Message {
	h.Helper()
	return check.Must(h.Repository.Claim(h.Context(), claims, repository.Claiming{Expiry: expiry, Cause: entity.By("alice")}))(h)
}

// claim claims one message, which must be claimable, and returns the claim.
func (h *harness) claim(id uuid.UUID) repository.Claim {
	h.Helper()
	c := intent(id)
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1 && taken[0].ID == id, "Claim(%s) took %v, want it", id, ids(taken))
	return c
}

// result returns a result with the given verdict for the attempt of the claim c. The error class, the error and the
// offset of the result are those that usually belong to the verdict.
func result(c repository.Claim, verdict entity.Verdict) repository.Result {
	r := repository.Result{
		MessageID: c.MessageID, ClaimID: c.ID, Verdict: verdict,
		Partition: c.Partition, Offset: -1,
	}
	switch verdict {
	case entity.Acknowledged:
		r.Offset = 41
	case entity.Skipped, entity.GivenBack, entity.Rescued, entity.Abandoned:
	case entity.Failed:
		r.Class, r.Error, r.RetryIn = entity.NetworkTimeout, "no answer in 5s", 4*time.Second
	case entity.Rejected:
		r.Class, r.Error = entity.BadRecord, "message too large"
	case entity.Refused:
		r.Class, r.Error = entity.Unauthorized, "not authorised to write orders"
	case entity.InDoubt:
		r.Class, r.Error = entity.BrokerUnavailable, "connection reset"
	}
	return r
}

func (h *harness) finishAll(results ...repository.Result) []repository.Finished {
	h.Helper()
	return check.Must(h.Repository.Finish(h.Context(), results, entity.By("alice")))(h)
}

// finish stores a result with the given verdict for the attempt of the claim c. The attempt must not have ended before.
func (h *harness) finish(c repository.Claim, verdict entity.Verdict) repository.Finished {
	h.Helper()
	finished := h.finishAll(result(c, verdict))
	check.Require(h, len(finished) == 1 && finished[0].MessageID == c.MessageID,
		"Finish(%s) = %+v, want one for it", c.MessageID, finished)
	return finished[0]
}

// attempt makes one attempt on a message: it claims the message, and finishes the attempt with the verdict a second
// later.
func (h *harness) attempt(id uuid.UUID, verdict entity.Verdict) repository.Finished {
	h.Helper()
	c := h.claim(id)
	h.clock.Advance(time.Second)
	return h.finish(c, verdict)
}

// in stores a new message, brings it to the given status by calling methods of the store, and returns it.
func (h *harness) in(status entity.Status, changes ...func(*entity.Message)) entity.Message {
	h.Helper()
	m := h.put(changes...)
	switch status {
	case entity.Pending:
	case entity.Retrying:
		h.claim(m.ID)
	case entity.Resolved:
		h.attempt(m.ID, entity.Acknowledged)
	case entity.Dead:
		h.attempt(m.ID, entity.Rejected)
	}
	h.wantStatus(m.ID, status)
	return h.get(m.ID)
}

func (h *harness) wantStatus(id uuid.UUID, want entity.Status) {
	h.Helper()
	check.Same(h, h.get(id).Status, want, "message %s", id)
}

// wantMoved checks that UpdatedAt of a message is the clock's time after a change. When the store takes UpdatedAt from
// its server, it must only be later than before.
func (h *harness) wantMoved(before, after entity.Message) {
	h.Helper()
	if h.UpdatedAtIsTheServers {
		check.True(h, after.UpdatedAt.After(before.UpdatedAt),
			"UpdatedAt = %v, want it after %v", after.UpdatedAt, before.UpdatedAt)
		return
	}
	check.Same(h, after.UpdatedAt, h.clock.Kept(), "UpdatedAt, want the clock's")
}

// wantUnchanged checks that the stored message is equal to the message before, in every field.
func (h *harness) wantUnchanged(before entity.Message) {
	h.Helper()
	check.Same(h, h.get(before.ID), before, "message changed")
}

func (h *harness) wantIDs(what string, got, want []uuid.UUID) {
	h.Helper()
	check.Same(h, got, want, "%s", what)
}

func (h *harness) wantSameIDs(what string, got, want []uuid.UUID) {
	h.Helper()
	sorted := func(ids []uuid.UUID) []uuid.UUID {
		ids = slices.Clone(ids)
		slices.SortFunc(ids, compareIDs)
		return ids
	}
	h.wantIDs(what, sorted(got), sorted(want))
}

func (h *harness) wantNotFound(call string, id uuid.UUID, err error) {
	h.Helper()
	var missing *entity.NotFoundError
	check.True(h, errors.As(err, &missing) && missing.ID == id, "%s = %v, want a NotFoundError of %s", call, err, id)
}

func (h *harness) wantClaimed(call string, id uuid.UUID, err error) {
	h.Helper()
	var claimed *entity.ClaimedError
	check.True(h, errors.As(err, &claimed) && claimed.ID == id, "%s = %v, want a ClaimedError of %s", call, err, id)
}

func (h *harness) wantNoArrow(call string, from, to entity.Status, err error) {
	h.Helper()
	var illegal *entity.TransitionError
	check.True(h, errors.As(err, &illegal) && illegal.From == from && illegal.To == to,
		"%s = %v, want a TransitionError from %s to %s", call, err, from, to)
}

// together calls the function do in n goroutines, which begin at the same moment, and waits for all of them.
func together(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			do(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func ids(messages []entity.Message) []uuid.UUID {
	found := make([]uuid.UUID, len(messages))
	for i, m := range messages {
		found[i] = m.ID
	}
	return found
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// Clock is the clock of a store under test. It changes only by Advance. Its times have nanoseconds and a time zone
// other than UTC, so that a test notices when a store does not truncate a time or does not convert it to UTC. It is
// safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that is set to a time in the past.
func NewClock() *Clock {
	zone := time.FixedZone("IST", 5*3600+1800)
	return &Clock{now: time.Date(2026, 3, 4, 10, 36, 7, 123456789, zone)}
}

// Now returns the present time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Kept returns the present time in the precision and the time zone in which a store returns times.
func (c *Clock) Kept() time.Time { return entity.TruncateTime(c.Now()) }

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
