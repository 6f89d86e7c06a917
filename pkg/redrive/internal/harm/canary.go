// Package harm decides whether a redrive does harm: by its canary, and by limits on the shares of failures and returns.
package harm

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// canaryQuiet is how long a canary still waits for returns after all its records were consumed, if CanaryWait is not
// shorter. A consumer may commit the offset of a record and write its dead letter at the same moment, and the dead
// letter is known only after the ingester has stored it.
const canaryQuiet = 5 * time.Second

// Canary holds the times from which this process waits for the outcome of a redrive's canary. Another process that
// continues the redrive begins its wait again, so it may wait for longer, but not for too short a time.
type Canary struct {
	SentAt     time.Time // when all messages of the canary had been sent, as seen by this process
	consumedAt time.Time // when all messages of the canary had been consumed, as seen by this process
}

// Tally counts the outcomes of the canary's messages.
type Tally struct {
	Sent, failed, returned int
	unsent                 int // number of the canary's messages that were resolved without Kafka, so no record was sent
	Hidden                 int // number of published messages whose outcome no consumer group will show
	Awaited                int // number of published messages whose consumer group has not consumed them yet
	// Topic is the target of one of the messages that are awaited or hidden, and Groups the consumer groups of such
	// messages there; "" stands for a group that is not known.
	Topic  string
	Groups []string
	class  string // error class of one of the failures
}

// Unknown returns the topics of published messages whose outcome is not known, with their consumer groups.
func Unknown(items []entity.RedriveItem) (list []repository.TopicGroup) {
	for _, item := range items {
		if item.Outcome == entity.Published {
			list = append(list, repository.TopicGroup{Topic: item.Topic, Group: item.Group})
		}
	}
	return list
}

// Count returns the tally of the canary's messages. hidden says that a consumer group will not show the outcomes of
// messages in a topic.
func Count(items []entity.RedriveItem, hidden func(topic, group string) bool) Tally {
	var t Tally
	for _, item := range items {
		switch item.Result {
		case entity.ItemWaiting, entity.ItemSkipped:
			continue
		case entity.ItemFailed, entity.ItemDead, entity.ItemInDoubt:
			t.failed++
			t.class = item.Reason
		case entity.ItemSucceeded:
		}
		t.Sent++
		switch {
		case item.Result == entity.ItemSucceeded && item.Topic == "":
			t.unsent++
		case item.Outcome == entity.Returned:
			t.returned++
		case item.Outcome != entity.Published:
		default:
			if hidden(item.Topic, item.Group) {
				t.Hidden++
			} else {
				t.Awaited++
			}
			if t.Topic == "" {
				t.Topic = item.Topic
			}
			if item.Topic == t.Topic && !slices.Contains(t.Groups, item.Group) {
				t.Groups = append(t.Groups, item.Group)
			}
		}
	}
	return t
}

// Decide reports whether the canary passes, and returns the reason for passing or failing; the reason is "" while it is
// undecided.
func (c *Canary) Decide(t Tally, o entity.RedriveOptions, now time.Time) (pass bool, why string) {
	if c.SentAt.IsZero() {
		c.SentAt = now
	}
	switch {
	case t.Sent == 0:
		return false, "none of its messages could be sent"
	case t.failed > 0:
		return false, fmt.Sprintf("%d of %d messages failed, %s", t.failed, t.Sent, t.class)
	case t.returned > 0:
		return false, fmt.Sprintf("%d of %d messages failed again", t.returned, t.Sent)
	case t.unsent == t.Sent:
		return true, were(t.Sent, "resolved, nothing was sent: kafka is not configured")
	case t.Awaited > 0:
		c.consumedAt = time.Time{}
		return false, ""
	case t.Hidden > 0:
		if now.Sub(c.SentAt) < o.CanaryWait {
			return false, ""
		}
		return true, fmt.Sprintf("none of %d messages failed again within %s; no consumer group shows whether they were consumed", t.Sent, o.CanaryWait)
	}
	if c.consumedAt.IsZero() {
		c.consumedAt = now
	}
	if now.Sub(c.consumedAt) < min(canaryQuiet, o.CanaryWait) {
		return false, ""
	}
	return true, were(t.Sent, "consumed, none failed again")
}

// were formats a count with its verb, such as "1 message was" or "3 messages were", followed by the text in the
// parameter what.
func were(n int, what string) string {
	if n == 1 {
		return "1 message was " + what
	}
	return fmt.Sprintf("%d messages were %s", n, what)
}
