package auto

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	failingPauseMax = 30 * time.Second // longest pause of a failing partition
	probeTime       = 10 * time.Second // how long the other messages of a partition wait for the result of its probe
)

// health tracks failing partitions for automatic retry. Messages must not lose their attempts because a broker is
// unreachable. So after a failed send the partition is paused, for longer with each failure. Then one message is sent
// as a probe, while the other messages of the partition wait for its result. A message with one attempt left waits
// until another message succeeds, or until the partition has accepted nothing for lastAttemptAfter. From then on, one
// such message may be sent per lastAttemptAfter, so that a message whose own record causes the failures finally becomes
// DEAD.
//
// It is not safe for concurrent use.
type health struct {
	pause            wait.Backoff
	lastAttemptAfter time.Duration
	failing          map[attempt.TopicPartition]*failingPartition
}

// failingPartition is the state of a partition that fails.
type failingPartition struct {
	failures int
	until    time.Time // before this time no record is sent to the partition
	// time of the first of the failed sends in a row; zero when the partition fails because its leader is unreachable
	since  time.Time
	risked time.Time // when a message with one attempt left was last allowed to be sent
	probed bool      // a message was sent as a probe, and its result is not known yet
}

func newHealth(b wait.Backoff) *health {
	lastAttemptAfter := b.Max
	b.Max = min(b.Max, failingPauseMax)
	return &health{pause: b, lastAttemptAfter: lastAttemptAfter, failing: map[attempt.TopicPartition]*failingPartition{}}
}

// admit reports whether a message may be sent to a partition now; if not, it waits until the returned time. The
// parameter last means that the message has one attempt left.
func (h *health) admit(at attempt.TopicPartition, last bool, now time.Time) (ok bool, until time.Time) {
	s := h.failing[at]
	if s == nil {
		return true, time.Time{}
	}
	if now.Before(s.until) {
		return false, s.until
	}
	if until := s.lastFrom(h.lastAttemptAfter); last && now.Before(until) {
		return false, until
	}
	if last {
		s.risked = now
	}
	s.probed, s.until = true, now.Add(probeTime)
	return true, time.Time{}
}

// lastFrom returns the time from which a message with one attempt left may be sent to the failing partition.
func (s *failingPartition) lastFrom(lastAttemptAfter time.Duration) time.Time {
	from := s.since
	if s.risked.After(from) {
		from = s.risked
	}
	if from.IsZero() {
		return from
	}
	return from.Add(lastAttemptAfter)
}

// missing records that the leader of a partition is unreachable, and returns the end of the partition's pause.
func (h *health) missing(at attempt.TopicPartition, now time.Time) time.Time {
	s := h.worse(at, now)
	s.since = time.Time{}
	return s.until
}

// failed records that all those records of a batch have failed that were sent to one partition.
func (h *health) failed(at attempt.TopicPartition, now time.Time) {
	if s := h.worse(at, now); s.since.IsZero() {
		s.since = now
	}
}

// worse records a further failure of a partition, and pauses the partition.
func (h *health) worse(at attempt.TopicPartition, now time.Time) *failingPartition {
	s := h.failing[at]
	if s == nil {
		s = &failingPartition{}
		h.failing[at] = s
	}
	// other batches that were sent at the same time fail for the same reason and do not count
	if s.probed || !now.Before(s.until) {
		s.failures++
		s.until = now.Add(h.pause.After(s.failures, 0))
	}
	s.probed = false
	return s
}

// accepted records that a partition accepted a record, and reports whether it was failing before.
func (h *health) accepted(at attempt.TopicPartition) bool {
	_, was := h.failing[at]
	delete(h.failing, at)
	return was
}

// endProbe ends a probe whose record was not sent.
func (h *health) endProbe(at attempt.TopicPartition, now time.Time) {
	if s := h.failing[at]; s != nil && s.probed {
		s.probed, s.until = false, now
	}
}
