package redrive

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	spotRest  = 30 * time.Second // longest pause of a failing partition
	probeTime = 10 * time.Second // how long others wait for the result of a probe
)

// health tracks failing partitions for automatic retry. An unreachable broker must not cost messages their attempts:
// after a failed send, a single message is sent as a probe after growing pauses, and the others wait for its result.
// A message's last attempt waits for another message's success, or until nothing has been accepted for patience; then
// one last attempt is allowed per patience, so that a record that itself causes the failure comes to an end.
//
// The caller guards it against concurrent use.
type health struct {
	rest     wait.Backoff
	patience time.Duration
	spots    map[place]*spot
}

// spot is a failing partition.
type spot struct {
	failures int
	until    time.Time // no record is sent there before
	since    time.Time // first failed send in a row; zero when a missing leader explains the failure
	risked   time.Time // when a last attempt was allowed
	probed   bool      // a probe is under way
}

func newHealth(b wait.Backoff) *health {
	patience := b.Max
	b.Max = min(b.Max, spotRest)
	return &health{rest: b, patience: patience, spots: map[place]*spot{}}
}

// admit reports whether a message may be sent to a place, else until when it waits. last means that it has one
// attempt left.
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

// lastFrom returns when a last attempt may be made.
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

// missing records a place whose leader is unreachable, and returns the end of its pause.
func (h *health) missing(at place, now time.Time) time.Time {
	s := h.worse(at, now)
	s.since = time.Time{}
	return s.until
}

// failed records a place where every sent record failed.
func (h *health) failed(at place, now time.Time) {
	if s := h.worse(at, now); s.since.IsZero() {
		s.since = now
	}
}

// worse pauses a place, for less time than the messages that failed there wait.
func (h *health) worse(at place, now time.Time) *spot {
	s := h.spots[at]
	if s == nil {
		s = &spot{}
		h.spots[at] = s
	}
	if s.probed || !now.Before(s.until) { // batches sent at the same time count as one failure
		s.failures++
		s.until = now.Add(h.rest.After(s.failures, 0))
	}
	s.probed = false
	return s
}

// well records that a place accepted a record, and reports whether it was failing before.
func (h *health) well(at place) bool {
	_, was := h.spots[at]
	delete(h.spots, at)
	return was
}

// unprobed ends a probe that was not sent.
func (h *health) unprobed(at place, now time.Time) {
	if s := h.spots[at]; s != nil && s.probed {
		s.probed, s.until = false, now
	}
}
