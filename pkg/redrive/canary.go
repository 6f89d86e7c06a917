package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// canaryQuiet is how long after everything was consumed a canary still waits for returns: a consumer commits its
// offset at the moment in which it dead-letters, and the dead letter has to come in first.
const canaryQuiet = 5 * time.Second

// canary is the state of a redrive's first messages in this process. A restart waits again, never too short.
type canary struct {
	sentAt     time.Time // when all of them were seen to be sent
	consumedAt time.Time // when all of them were seen to be consumed
}

// tally counts the outcomes of the canary's messages.
type tally struct {
	sent, failed, returned int
	nowhere                int // resolved without being sent anywhere
	unknown                int // published, and no group tells more
	awaited                int // published, and a group has not come so far
	group                  string
	class                  string // of a failure
}

// judge says what the canary leads to, once it leads anywhere.
func (c *canary) judge(ctx context.Context, r *run, redrive entity.Redrive) (repository.RedriveMove, bool) {
	size := min(redrive.Options.Canary, redrive.Selected-redrive.LeftOut)
	if done := redrive.Selected - redrive.LeftOut - redrive.Counts.Waiting; done < size {
		return repository.RedriveMove{}, false
	}
	items, err := r.selected.RedriveItems(ctx, redrive.ID, repository.ItemQuery{Limit: size})
	if err != nil {
		r.complain(ctx, "canary cannot be looked at", err)
		return repository.RedriveMove{}, false
	}
	t := count(items)
	pass, why := c.decide(t, redrive.Options, r.now())
	switch {
	case why == "" && t.awaited > 0 && r.now().Sub(c.sentAt) >= redrive.Options.CanaryWait:
		r.noteWaiting(ctx, true, fmt.Sprintf(
			"canary: %d of %d messages are not consumed yet by group %s; resume to go on all the same, or cancel", t.awaited, t.sent, t.group))
		return repository.RedriveMove{}, false
	case why == "":
		return repository.RedriveMove{}, false
	case !pass:
		return stop(redrive, "canary: "+why), true
	}
	return repository.RedriveMove{
		To: entity.RedriveRunning, From: []entity.RedriveState{entity.RedriveCanary}, Action: entity.ActionPass,
		Note: "canary: " + why, Cause: entity.By(redrive.Cause.Actor), PassCanary: true,
	}, true
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
			t.nowhere++
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

// decide returns what the canary came to, "" while that is open.
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
		return false, fmt.Sprintf("%d of %d messages came back", t.returned, t.sent)
	case t.nowhere == t.sent:
		return true, were(t.sent, "resolved, nothing was sent: no kafka is configured")
	case t.awaited > 0:
		c.consumedAt = time.Time{}
		return false, ""
	case t.unknown > 0:
		if now.Sub(c.sentAt) < o.CanaryWait {
			return false, ""
		}
		return true, fmt.Sprintf("none of %d messages came back within %s; no consumer group is known that could tell more", t.sent, o.CanaryWait)
	}
	if c.consumedAt.IsZero() {
		c.consumedAt = now
	}
	if now.Sub(c.consumedAt) < min(canaryQuiet, o.CanaryWait) {
		return false, ""
	}
	return true, were(t.sent, "consumed, none came back")
}

// were formats the outcome of n messages.
func were(n int, what string) string {
	if n == 1 {
		return "1 message was " + what
	}
	return fmt.Sprintf("%d messages were %s", n, what)
}
