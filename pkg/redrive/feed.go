package redrive

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	topicsFresh = 2 * time.Second  // how old the list of topics with PENDING messages may be
	walkAgain   = 30 * time.Second // the pause between walks over unattempted messages, which then find late commits
	idleMax     = 2 * time.Second  // the longest sleep while nothing is due
	spareFresh  = time.Second      // how long found messages are kept, which others may attempt meanwhile

	// heldMax bounds the messages remembered one by one. Beyond it their topics are set aside.
	heldMax   = 2000
	exceptMax = 256 // bounds the pairs of topics that the store leaves out for us
)

// feed finds due messages, oldest first, for one worker each, without those held back or set aside.
type feed struct {
	store    Store
	patterns deadletter.Patterns
	idle     time.Duration // first sleep when nothing is due
	now      func() time.Time
	bell     bell
	turn     chan struct{} // held by who asks the store

	// Only who has the turn touches these.
	topics  []string // with PENDING messages, that match
	asked   time.Time
	open    []string // those of topics that were looked for last
	after   repository.Cursor
	endedAt time.Time // of the walk; zero while it goes on

	mu         sync.Mutex // guards what follows
	spare      []uuid.UUID
	spareAt    time.Time
	spareAfter repository.Cursor // where the walk stood before they were found
	taken      map[uuid.UUID]bool
	returned   map[uuid.UUID]bool // put back since the store was last asked, which may not have known
	held       map[uuid.UUID]hold
	asides     map[string]time.Time // until when
	except     map[repository.TopicPair]time.Time
	again      bool // the walk has passed what can be sent now
	idleFor    time.Duration
	idleUntil  time.Time
}

// hold keeps a message back.
type hold struct {
	at    place // whose recovery frees it; the zero place for none
	until time.Time
}

func newFeed(s *Service, patterns deadletter.Patterns) *feed {
	return &feed{
		store: s.store, patterns: patterns, idle: s.cfg.Auto.IdleSleep, now: s.now,
		turn: make(chan struct{}, 1), taken: map[uuid.UUID]bool{}, returned: map[uuid.UUID]bool{}, held: map[uuid.UUID]hold{}, asides: map[string]time.Time{},
		except: map[repository.TopicPair]time.Time{},
	}
}

// take hands out up to n messages, which are the caller's until putBack. With none, it is to be asked again after
// wait, or when the bell rings. empty says that the store was asked in vain.
func (f *feed) take(ctx context.Context, n int) (ids []uuid.UUID, wait time.Duration, empty bool, err error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, 0, false, nil
	}
	if ids := f.fromSpare(n); len(ids) > 0 {
		return ids, 0, false, nil
	}
	if wait := f.sleeps(); wait > 0 {
		return nil, wait, false, nil
	}
	more, err := f.look(ctx, n)
	if err != nil {
		return nil, f.sleep(), false, err
	}
	if ids := f.fromSpare(n); len(ids) > 0 {
		f.wake()
		return ids, 0, false, nil
	}
	if more {
		return nil, 0, true, nil
	}
	return nil, f.sleep(), true, nil
}

// look asks the store for messages. more means that the walk is not at its end, and should go on at once.
func (f *feed) look(ctx context.Context, n int) (more bool, err error) {
	if err := f.refresh(ctx); err != nil {
		return false, err
	}
	topics := f.openTopics()
	f.startWalk(topics)
	if len(topics) == 0 {
		return false, nil
	}
	from := f.after
	f.mu.Lock()
	f.returned = map[uuid.UUID]bool{}
	f.mu.Unlock()
	due, next, err := f.store.Due(ctx, repository.DueQuery{Topics: topics, After: from, Limit: n + f.busy(), Except: f.excepted()})
	if err != nil {
		return false, fmt.Errorf("look for due messages: %w", err)
	}
	f.keep(due, from)
	switch {
	case next == repository.Cursor{}:
		if f.endedAt.IsZero() {
			f.endedAt = f.now()
		}
		return false, nil
	default:
		f.after, f.endedAt = next, time.Time{}
		return next != from, nil
	}
}

// refresh learns which topics have PENDING messages.
func (f *feed) refresh(ctx context.Context) error {
	now := f.now()
	if !f.asked.IsZero() && now.Sub(f.asked) < topicsFresh {
		return nil
	}
	counts, err := f.store.Counts(ctx)
	if err != nil {
		return fmt.Errorf("look for topics: %w", err)
	}
	f.asked, f.topics = now, nil
	for _, c := range counts {
		if c.Status == entity.Pending && c.Messages > 0 && f.patterns.Match(c.OriginalTopic) {
			f.topics = append(f.topics, c.OriginalTopic)
		}
	}
	return nil
}

// openTopics are the topics that are not set aside.
func (f *feed) openTopics() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var topics []string
	for _, t := range f.topics {
		if until, aside := f.asides[t]; aside && now.Before(until) {
			continue
		}
		delete(f.asides, t)
		topics = append(topics, t)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// startWalk starts the walk again when it is time, and when a topic has joined whose messages it may have passed.
func (f *feed) startWalk(topics []string) {
	joined := slices.ContainsFunc(topics, func(t string) bool { return !slices.Contains(f.open, t) })
	late := !f.endedAt.IsZero() && f.now().Sub(f.endedAt) >= walkAgain
	f.mu.Lock()
	defer f.mu.Unlock()
	if joined || late || f.again {
		f.after, f.endedAt = repository.Cursor{}, time.Time{}
	}
	f.again = false
	f.open = topics
}

// busy is how many messages may be found that no worker can take now.
func (f *feed) busy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for id, h := range f.held {
		if !now.Before(h.until) {
			delete(f.held, id)
		}
	}
	return len(f.held) + len(f.taken)
}

// keep keeps what was found and is free.
func (f *feed) keep(due []uuid.UUID, from repository.Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spare) > 0 { // put back meanwhile, from anywhere
		from = repository.Cursor{}
	}
	f.spareAt, f.spareAfter = f.now(), from
	for _, id := range due {
		if _, held := f.held[id]; !held && !f.taken[id] && !f.returned[id] && !slices.Contains(f.spare, id) {
			f.spare = append(f.spare, id)
		}
	}
}

// fromSpare hands out messages found before. For those found too long ago the walk goes back to their place.
func (f *feed) fromSpare(n int) []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spare) > 0 && f.now().Sub(f.spareAt) >= spareFresh {
		f.spare, f.after, f.endedAt = nil, f.spareAfter, time.Time{}
	}
	n = min(n, len(f.spare))
	ids := f.spare[:n:n]
	f.spare = f.spare[n:]
	for _, id := range ids {
		f.taken[id] = true
	}
	return ids
}

// putBack ends the caller's hold on messages. Those that it did not read are handed out first.
func (f *feed) putBack(ids, unseen []uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		delete(f.taken, id)
		f.returned[id] = true
	}
	if len(unseen) > 0 {
		f.spare = slices.Concat(unseen, f.spare)
		f.spareAt, f.spareAfter = f.now(), repository.Cursor{}
	}
}

// hold keeps a message back until then, or until its place recovers. It reports whether there is room to remember it.
func (f *feed) hold(id uuid.UUID, at place, until time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) >= heldMax {
		return false
	}
	f.held[id] = hold{at, until}
	return true
}

// free hands out again what was held back because of a place.
func (f *feed) free(at place) {
	f.mu.Lock()
	for id, h := range f.held {
		if h.at == at {
			delete(f.held, id)
		}
	}
	f.again = true
	f.mu.Unlock()
	f.wake()
}

// setAside leaves a topic alone until then.
func (f *feed) setAside(topic string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.After(f.asides[topic]) {
		f.asides[topic] = until
	}
}

// leaveOut has the store leave out, until then, messages of a dead-letter topic that claim an original topic:
// forged claims do not hold up the others of that topic. It reports whether there is room for the pair.
func (f *feed) leaveOut(pair repository.TopicPair, until time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.except[pair]; !known && len(f.except) >= exceptMax {
		return false
	}
	f.except[pair] = until
	return true
}

// excepted are the pairs that are left out now.
func (f *feed) excepted() []repository.TopicPair {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var pairs []repository.TopicPair
	for pair, until := range f.except {
		if now.Before(until) {
			pairs = append(pairs, pair)
		} else {
			delete(f.except, pair)
		}
	}
	return pairs
}

// sleeps is how long there is nothing to look for.
func (f *feed) sleeps() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.idleUntil.Sub(f.now())
}

// sleep begins a rest, each longer than the one before while nothing happens.
func (f *feed) sleep() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idleFor = min(max(f.idle, 2*f.idleFor), max(f.idle, idleMax))
	f.idleUntil = f.now().Add(f.idleFor)
	return f.idleFor
}

// wake ends the rest of all workers.
func (f *feed) wake() {
	f.mu.Lock()
	f.idleFor, f.idleUntil = 0, time.Time{}
	f.mu.Unlock()
	f.bell.ring()
}
