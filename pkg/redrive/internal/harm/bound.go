package harm

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// maxLooks is how often the messages of a topic whose outcomes cannot be known count as known because none came back for
// the time of a canary. After that the topic is no longer bounded.
const maxLooks = 3

// NextBound returns the bound of a topic after its outcomes were counted, for a redrive whose share of returns holds.
// The bound doubles each time that as many outcomes as the bound have become known. hidden says that no consumer group
// will show the outcomes of the unknown messages; then wait, without a return after the last message that was sent,
// takes their place.
func NextBound(b entity.TopicBound, hidden bool, wait time.Duration, now time.Time) entity.TopicBound {
	if b.Lifted != "" {
		return b
	}
	// messages that were presumed may have become known since, and must not count twice
	b.Presumed = max(0, min(b.Presumed, b.Admitted-b.Known))
	b.Counted = min(b.Counted, b.Known+b.Presumed)
	if hidden && b.Full() && !now.Before(b.AdmittedAt.Add(wait)) {
		b.Presumed = b.Admitted - b.Known
		if b.Looks++; b.Looks == maxLooks {
			b.Lifted = entity.BoundUnknown
			return b
		}
	}
	if known := b.Known + b.Presumed; known-b.Counted >= b.Bound {
		b.Bound, b.Counted = 2*b.Bound, known
	}
	return b
}
