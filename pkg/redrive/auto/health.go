package auto

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	failingPauseMax = 30 * time.Second // longest pause of a failing partition
	probeTime       = 10 * time.Second // how long other messages wait for the result of a probe
)

// health tracks failing partitions for automatic retry. An unreachable broker must not cost messages their attempts:
// after a failed send, a single message is sent as a probe, after a pause that grows with each failure, and the other
// messages of the partition wait for its result. A message's last attempt waits for another message's success, or
// until nothing has been accepted for lastAttemptAfter; then one last attempt is allowed per lastAttemptAfter, so that
// a record that itself causes the failure finally becomes DEAD.
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
	since    time.Time // first failed send in a row; zero when a missing leader explains the failure
	risked   time.Time // when a last attempt of a message was allowed
	probed   bool      // a probe is under way
}

func newHealth(b wait.Backoff) *health {
	lastAttemptAfter := b.Max
	b.Max = min(b.Max, failingPauseMax)
	return &health{pause: b, lastAttemptAfter: lastAttemptAfter, failing: map[attempt.TopicPartition]*failingPartition{}}
}

// admit reports whether a message may be sent to a partition; if not, until is the time until which the message waits.
// The parameter last means that the message has one attempt left.
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

// lastFrom returns the time from which a message may use its last attempt on the failing partition.
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

// failed records that every record sent to a partition has failed.
func (h *health) failed(at attempt.TopicPartition, now time.Time) {
	if s := h.worse(at, now); s.since.IsZero() {
		s.since = now
	}
}

// worse pauses a partition. The pause is shorter than the wait of the messages that failed there.
func (h *health) worse(at attempt.TopicPartition, now time.Time) *failingPartition {
	s := h.failing[at]
	if s == nil {
		s = &failingPartition{}
		h.failing[at] = s
	}
	if s.probed || !now.Before(s.until) { // batches sent at the same time count as one failure
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
