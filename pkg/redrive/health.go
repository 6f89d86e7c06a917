package redrive

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	spotRest  = 30 * time.Second // the longest time for which a partition in trouble is left alone
	probeTime = 10 * time.Second // how long others wait for what a probe comes to
)

// health is the state of partitions in trouble for automatic retry. A broker that is away costs messages no
// attempts: after a failed send one message at a time is a probe, after growing pauses, and the others wait for
// its outcome. A message's last attempt waits for another message's success, or until nothing has worked for
// patience; then one is risked in each patience, so that a record that itself causes the trouble comes to an end.
//
// The caller guards it against concurrent use.
type health struct {
	rest     wait.Backoff
	patience time.Duration
	spots    map[place]*spot
}

// spot is a partition in trouble.
type spot struct {
	failures int
	until    time.Time // nothing is sent there before
	since    time.Time // of the first send in a row that failed; zero when a missing leader explains it
	risked   time.Time // when a last attempt was allowed
	probed   bool      // a probe is under way
}

func newHealth(b wait.Backoff) *health {
	patience := b.Max
	b.Max = min(b.Max, spotRest)
	return &health{rest: b, patience: patience, spots: map[place]*spot{}}
}

// admit reports whether a message may be sent to a place, else until when it waits. last: its last attempt.
func (h *health) admit(at place, last bool, now time.Time) (ok bool, until time.Time) {
	s := h.spots[at]
	if s == nil {
		return true, time.Time{}
	}
	if now.Before(s.until) {
		return false, s.until
	}
	if until := s.lastFrom(h.patience); last && now.Before(until) {
		return false, until
	}
	if last {
		s.risked = now
	}
	s.probed, s.until = true, now.Add(probeTime)
	return true, time.Time{}
}

// lastFrom is when a last attempt may be risked.
func (s *spot) lastFrom(patience time.Duration) time.Time {
	from := s.since
	if s.risked.After(from) {
		from = s.risked
	}
	if from.IsZero() {
		return from
	}
	return from.Add(patience)
}

// missing notes a place whose leader cannot be reached, and returns until when it is left alone.
func (h *health) missing(at place, now time.Time) time.Time {
	s := h.worse(at, now)
	s.since = time.Time{}
	return s.until
}

// failed notes a place where all that was sent failed.
func (h *health) failed(at place, now time.Time) {
	if s := h.worse(at, now); s.since.IsZero() {
		s.since = now
	}
}

// worse rests a place for a shorter time than the messages that failed there wait.
func (h *health) worse(at place, now time.Time) *spot {
	s := h.spots[at]
	if s == nil {
		s = &spot{}
		h.spots[at] = s
	}
	if s.probed || !now.Before(s.until) { // batches that were under way together fail once
		s.failures++
		s.until = now.Add(h.rest.After(s.failures, 0))
	}
	s.probed = false
	return s
}

// well notes a place that took something, and reports whether that is news.
func (h *health) well(at place) bool {
	_, was := h.spots[at]
	delete(h.spots, at)
	return was
}

// unprobed ends a probe that came to nothing: it was not sent.
func (h *health) unprobed(at place, now time.Time) {
	if s := h.spots[at]; s != nil && s.probed {
		s.probed, s.until = false, now
	}
}
