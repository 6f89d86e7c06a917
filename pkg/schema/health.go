package schema

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// A registry counts as down when downQuestions different questions have failed within downWindow, and it has
	// answered no question in that time.
	downQuestions = 3
	downWindow    = 10 * time.Second
	// probeInterval is the time between two questions to a registry that counts as down.
	probeInterval = 5 * time.Second
)

// question is a request to a registry. Equal keys mean the same schema or subject.
type question struct {
	key, topic string
	send       func(ctx context.Context) error
}

// health decides whether a registry counts as down. A record chooses the id of its schema, and so the question; hence
// one question says little about the registry. Before a registry counts as down, and as long as it does, it is asked a
// question that it answered well earlier, if possible one of a topic without failures.
type health struct {
	mu        sync.Mutex
	answered  time.Time            // time of the last answer
	failed    map[string]time.Time // by key: the questions that failed within downWindow, with the time
	tried     map[string]bool      // topics with a question that failed since the last answer
	known     map[string]question  // by topic: the last question that was answered well
	verifying bool                 // a known question is being asked, because others have failed
	fault     error                // why the registry counts as down; nil when it does not
	next      time.Time            // time of the next probe of a registry that is down
	doubtful  bool                 // the registry is down, and no known question can tell: there is none, or a probe failed
}

func newHealth() *health {
	return &health{failed: map[string]time.Time{}, tried: map[string]bool{}, known: map[string]question{}}
}

// check returns an error when no question of the topic may be asked now.
func (h *health) check(topic string, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed(topic, now)
}

// closed is check with the lock held. While known questions cannot tell whether a registry is down, the first question
// of each topic is allowed, so that no topic decides for the others.
func (h *health) closed(topic string, now time.Time) error {
	if h.fault == nil || !now.Before(h.next) || h.doubtful && !h.tried[topic] {
		return nil
	}
	return errors.New(h.fault.Error()) // not the error itself: it is not a failure of the question that is not asked
}

// enter is like check, directly before the question is asked. If first has a key, that question must be asked first and
// its result must be given to settle.
func (h *health) enter(topic string, now time.Time) (first question, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.closed(topic, now); err != nil || h.fault == nil {
		return first, err
	}
	h.tried[topic] = true
	if now.Before(h.next) {
		return first, nil
	}
	h.next = now.Add(probeInterval)
	return h.pick(), nil
}

// pick returns a question that was answered well earlier, if possible one of a topic without failures.
func (h *health) pick() (q question) {
	for topic, known := range h.known {
		if q = known; !h.tried[topic] {
			break
		}
	}
	return q
}

// note stores the result of a question. If verify has a key, that question must be asked now, and its result must be
// given to settle.
func (h *health) note(q question, err error, now time.Time) (verify question) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch kindOf(err) {
	case kindFound:
		h.known[q.topic] = q
		h.works(now)
		return verify
	case kindUnknown, kindRefused:
		h.works(now)
		return verify
	case kindFailed:
	default:
		return verify
	}
	h.tried[q.topic] = true
	h.failed[q.key] = now
	maps.DeleteFunc(h.failed, func(_ string, at time.Time) bool { return now.Sub(at) >= downWindow })
	switch {
	case h.fault != nil:
		h.fault = err
	case h.verifying || len(h.failed) < downQuestions || now.Sub(h.answered) < downWindow:
	case len(h.known) == 0:
		h.fault, h.next, h.doubtful = err, now.Add(probeInterval), true
	default:
		h.verifying = true
		return h.pick()
	}
	return verify
}

// settle stores the result of a question that enter or note returned.
func (h *health) settle(err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.verifying = false
	switch kindOf(err) {
	case kindFound, kindUnknown, kindRefused:
		h.works(now)
	case kindFailed:
		h.doubtful = h.fault != nil // the second time
		h.fault, h.next = err, now.Add(probeInterval)
	default:
	}
}

func (h *health) works(now time.Time) {
	h.answered, h.fault, h.doubtful = now, nil, false
	clear(h.failed)
	clear(h.tried)
}

// down is 1 while the registry counts as down, otherwise 0.
func (h *health) down() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil {
		return 1
	}
	return 0
}
