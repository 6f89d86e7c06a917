package bulk

import (
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// canaryQuiet is how long a canary still waits for returns after all its records were consumed, if CanaryWait is not
// shorter. A consumer may commit the offset of a record and write its dead letter at the same moment, and the dead
// letter is known only after the ingester has stored it.
const canaryQuiet = 5 * time.Second

// canary holds the times from which this process waits for the outcome of a redrive's canary. Another process that
// continues the redrive begins to wait anew, so it may wait for longer, but not for too short a time.
type canary struct {
	sentAt     time.Time // when all messages of the canary had been sent, as seen by this process
	consumedAt time.Time // when all messages of the canary had been consumed, as seen by this process
}

// tally counts the outcomes of the canary's messages.
type tally struct {
	sent, failed, returned int
	unsent                 int // number of the canary's messages that were resolved without Kafka, so no record was sent
	unknown                int // number of published messages whose consumer group is not known
	awaited                int // number of published messages whose consumer group has not consumed them yet
	group                  string
	class                  string // error class of one of the failures
}

func count(items []entity.RedriveItem) tally {
	var t tally
	for _, item := range items {
		switch item.Result {
		case entity.ItemWaiting, entity.ItemSkipped:
			continue
		case entity.ItemFailed, entity.ItemDead, entity.ItemInDoubt:
			t.failed++
			t.class = item.Reason
		case entity.ItemSucceeded:
		}
		t.sent++
		switch {
		case item.Result == entity.ItemSucceeded && item.Topic == "":
			t.unsent++
		case item.Outcome == entity.Returned:
			t.returned++
		case item.Outcome != entity.Published:
		case item.Group == "":
			t.unknown++
		default:
			t.awaited++
			t.group = item.Group
		}
	}
	return t
}

// decide reports whether the canary passes, and returns the reason for passing or failing; the reason is "" while it is
// undecided.
func (c *canary) decide(t tally, o entity.RedriveOptions, now time.Time) (pass bool, why string) {
	if c.sentAt.IsZero() {
		c.sentAt = now
	}
	switch {
	case t.sent == 0:
		return false, "none of its messages could be sent"
	case t.failed > 0:
		return false, fmt.Sprintf("%d of %d messages failed, %s", t.failed, t.sent, t.class)
	case t.returned > 0:
		return false, fmt.Sprintf("%d of %d messages failed again", t.returned, t.sent)
	case t.unsent == t.sent:
		return true, were(t.sent, "resolved, nothing was sent: kafka is not configured")
	case t.awaited > 0:
		c.consumedAt = time.Time{}
		return false, ""
	case t.unknown > 0:
		if now.Sub(c.sentAt) < o.CanaryWait {
			return false, ""
		}
		return true, fmt.Sprintf("none of %d messages failed again within %s; no consumer group is known", t.sent, o.CanaryWait)
	}
	if c.consumedAt.IsZero() {
		c.consumedAt = now
	}
	if now.Sub(c.consumedAt) < min(canaryQuiet, o.CanaryWait) {
		return false, ""
	}
	return true, were(t.sent, "consumed, none failed again")
}

// were formats a count with its verb, such as "1 message was" or "3 messages were", followed by the text in the
// parameter what.
func were(n int, what string) string {
	if n == 1 {
		return "1 message was " + what
	}
	return fmt.Sprintf("%d messages were %s", n, what)
}
