package auto

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	topicsFresh = 2 * time.Second // maximum age of the list of topics with PENDING messages; an older list is read again
	// walkAgain is the pause between two walks over the messages that have no attempt yet. A new walk also finds
	// messages that were committed late, after the last walk had passed their position.
	walkAgain = 30 * time.Second
	idleMax   = 2 * time.Second // longest pause while no message is due
	// after this time the remaining results of a query are dropped, because other processes may have attempted these
	// messages.
	spareFresh = time.Second

	// heldMax is the largest number of messages that are held back one by one. Beyond it, the whole topic of a further
	// message is paused.
	heldMax   = 2000
	exceptMax = 256 // maximum number of pairs (original topic, dead-letter topic) that queries leave out; see leaveOut
)

// Store is the part of a repository in which automatic retry finds messages.
type Store interface {
	Due(ctx context.Context, q repository.DueQuery) (ids []uuid.UUID, next repository.Cursor, err error)
	Counts(ctx context.Context) ([]repository.Count, error)
}

// feed finds due messages, oldest first, and gives each to one worker. It leaves out messages that are held back, and
// paused topics.
type feed struct {
	store    Store
	patterns deadletter.Patterns
	idle     time.Duration // pause after the first query that finds no due message
	woken    wait.Broadcast
	turn     chan struct{} // the goroutine that has sent to this channel may query the store

	// Only the goroutine that holds turn uses the next five fields.
	topics  []string // topics that match the patterns and have PENDING messages
	asked   time.Time
	open    []string // topics that were not paused at the last query
	after   repository.Cursor
	endedAt time.Time // when the walk reached its end; zero while it has not

	mu         sync.Mutex // guards the fields below
	spare      []uuid.UUID
	spareAt    time.Time
	spareAfter repository.Cursor // position from which the walk continues if the messages in spare are dropped
	taken      map[uuid.UUID]bool
	// messages that were put back since the last query began; a result of that query is ignored for them, because it
	// may be older than their attempts
	returned     map[uuid.UUID]bool
	held         map[uuid.UUID]hold
	pausedTopics map[string]time.Time // end of each topic's pause
	except       map[repository.TopicPair]time.Time
	again        bool // messages that the walk has passed can be sent now, so a new walk is needed
	idleFor      time.Duration
	idleUntil    time.Time
}

// hold describes why and until when a message is held back.
type hold struct {
	// when this partition accepts a record, the message is released; zero: the message waits until the time in until
	at    attempt.TopicPartition
	until time.Time
}

func newFeed(store Store, patterns deadletter.Patterns, idle time.Duration) *feed {
	return &feed{
		store: store, patterns: patterns, idle: idle,
		turn: make(chan struct{}, 1), taken: map[uuid.UUID]bool{}, returned: map[uuid.UUID]bool{}, held: map[uuid.UUID]hold{}, pausedTopics: map[string]time.Time{},
		except: map[repository.TopicPair]time.Time{},
	}
}

// take returns up to n messages, which belong to the caller until putBack. If it returns none, the caller asks again
// after wait, or when woken is notified. empty reports that the store was queried and no message is due.
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
	more, err := f.poll(ctx, n)
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

// poll queries the store. It reads messages without an attempt in walks: a walk goes from the oldest to the newest
// message in several queries. The result more means that the walk has not reached its end and should continue at once.
func (f *feed) poll(ctx context.Context, n int) (more bool, err error) {
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
		return false, fmt.Errorf("list due messages: %w", err)
	}
	f.keep(due, from)
	switch {
	case next == repository.Cursor{}:
		if f.endedAt.IsZero() {
			f.endedAt = time.Now()
		}
		return false, nil
	default:
		f.after, f.endedAt = next, time.Time{}
		return next != from, nil
	}
}

// refresh reads which topics have PENDING messages.
func (f *feed) refresh(ctx context.Context) error {
	now := time.Now()
	if !f.asked.IsZero() && now.Sub(f.asked) < topicsFresh {
		return nil
	}
	counts, err := f.store.Counts(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	f.asked, f.topics = now, nil
	for _, c := range counts {
		if c.Status == entity.Pending && c.Messages > 0 && f.patterns.Match(c.OriginalTopic) {
			f.topics = append(f.topics, c.OriginalTopic)
		}
	}
	return nil
}

// openTopics returns the topics that are not paused.
func (f *feed) openTopics() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var topics []string
	for _, t := range f.topics {
		if until, aside := f.pausedTopics[t]; aside && now.Before(until) {
			continue
		}
		delete(f.pausedTopics, t)
		topics = append(topics, t)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// startWalk starts a new walk when the last walk ended walkAgain ago, or when the present walk may have passed
// messages that can be sent only now, such as those of an added topic.
func (f *feed) startWalk(topics []string) {
	joined := slices.ContainsFunc(topics, func(t string) bool { return !slices.Contains(f.open, t) })
	late := !f.endedAt.IsZero() && time.Since(f.endedAt) >= walkAgain
	f.mu.Lock()
	defer f.mu.Unlock()
	if joined || late || f.again {
		f.after, f.endedAt = repository.Cursor{}, time.Time{}
	}
	f.again = false
	f.open = topics
}

// busy returns the number of messages that are taken or held back. A query may find so many messages that no worker can
// take now, so it asks for that many more.
func (f *feed) busy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for id, h := range f.held {
		if !now.Before(h.until) {
			delete(f.held, id)
		}
	}
	return len(f.held) + len(f.taken)
}

// keep adds the messages that a query found to spare, but not messages that are taken, were put back since, or are held
// back. The query began at the position from.
func (f *feed) keep(due []uuid.UUID, from repository.Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// spare contains messages that were put back meanwhile; their positions are not known, so a dropped spare starts
	// the walk anew
	if len(f.spare) > 0 {
		from = repository.Cursor{}
	}
	f.spareAt, f.spareAfter = time.Now(), from
	for _, id := range due {
		if _, held := f.held[id]; !held && !f.taken[id] && !f.returned[id] && !slices.Contains(f.spare, id) {
			f.spare = append(f.spare, id)
		}
	}
}

// fromSpare returns messages that an earlier query found. If that query is too old, it drops them and moves the walk
// back to the position before them.
func (f *feed) fromSpare(n int) []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spare) > 0 && time.Since(f.spareAt) >= spareFresh {
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

// putBack returns messages that take has given out. Those in unseen were not read by the caller, so the next call of
// take returns them first.
func (f *feed) putBack(ids, unseen []uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		delete(f.taken, id)
		f.returned[id] = true
	}
	if len(unseen) > 0 {
		f.spare = slices.Concat(unseen, f.spare)
		f.spareAt, f.spareAfter = time.Now(), repository.Cursor{}
	}
}

// hold holds a message back until the given time, or until the partition in the parameter at accepts a record. It
// returns false, without effect, when heldMax messages are held back already.
func (f *feed) hold(id uuid.UUID, at attempt.TopicPartition, until time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) >= heldMax {
		return false
	}
	f.held[id] = hold{at, until}
	return true
}

// free releases the messages that are held back because of the partition in the parameter at.
func (f *feed) free(at attempt.TopicPartition) {
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

// pauseTopic pauses a topic until the given time.
func (f *feed) pauseTopic(topic string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.After(f.pausedTopics[topic]) {
		f.pausedTopics[topic] = until
	}
}

// leaveOut makes queries leave out, until the given time, the messages of one dead-letter topic that name a certain
// original topic. So forged origins do not delay other messages of that original topic. It returns false when exceptMax
// pairs are left out already.
func (f *feed) leaveOut(pair repository.TopicPair, until time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.except[pair]; !known && len(f.except) >= exceptMax {
		return false
	}
	f.except[pair] = until
	return true
}

// excepted returns the pairs of an original topic and a dead-letter topic whose messages queries leave out now.
func (f *feed) excepted() []repository.TopicPair {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
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

// sleeps returns the rest of the pause during which no worker queries the store.
func (f *feed) sleeps() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Until(f.idleUntil)
}

// sleep begins a pause during which no worker queries the store, and returns its length. As long as queries find no
// message, each pause is twice as long as the last, up to idleMax.
func (f *feed) sleep() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idleFor = min(max(f.idle, 2*f.idleFor), max(f.idle, idleMax))
	f.idleUntil = time.Now().Add(f.idleFor)
	return f.idleFor
}

// wake ends the pause in which no worker queries the store.
func (f *feed) wake() {
	f.mu.Lock()
	f.idleFor, f.idleUntil = 0, time.Time{}
	f.mu.Unlock()
	f.woken.Notify()
}
