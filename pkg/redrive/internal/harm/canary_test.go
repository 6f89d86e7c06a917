package harm

import (
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestCanaryDecides(t *testing.T) {
	t.Parallel()
	const wait = time.Minute
	type look struct {
		after time.Duration // time since the first call of Decide
		items []entity.RedriveItem
		pass  bool
		why   string // expected part of the reason; "" while undecided
	}
	hidden := func(_, group string) bool { return group == "" || group == "idle" }
	item := func(result entity.ItemResult, outcome entity.Outcome, group string) entity.RedriveItem {
		return entity.RedriveItem{Result: result, Outcome: outcome, Group: group, Reason: "BAD_RECORD", Topic: "orders"}
	}
	published := item(entity.ItemSucceeded, entity.Published, "billing")
	consumed := item(entity.ItemSucceeded, entity.Consumed, "billing")
	returned := item(entity.ItemSucceeded, entity.Returned, "billing")
	idle := item(entity.ItemSucceeded, entity.Published, "idle")
	nobody := item(entity.ItemSucceeded, entity.Published, "")
	for name, looks := range map[string][]look{
		"ConsumedAndQuiet": {
			{0, []entity.RedriveItem{published, consumed}, false, ""},
			{time.Hour, []entity.RedriveItem{published, consumed}, false, ""},
			{time.Hour + time.Second, []entity.RedriveItem{consumed, consumed}, false, ""},
			{time.Hour + time.Second + canaryQuiet - 1, []entity.RedriveItem{consumed, consumed}, false, ""},
			{time.Hour + time.Second + canaryQuiet, []entity.RedriveItem{consumed, consumed}, true, "2 messages were consumed"},
		},
		"ComesBackInTheQuiet": {
			{0, []entity.RedriveItem{consumed, consumed}, false, ""},
			{canaryQuiet / 2, []entity.RedriveItem{consumed, returned}, false, "1 of 2 messages failed again"},
		},
		"NobodyKnowsTheGroup": {
			{0, []entity.RedriveItem{nobody, consumed}, false, ""},
			{wait - 1, []entity.RedriveItem{nobody, consumed}, false, ""},
			{wait, []entity.RedriveItem{nobody, consumed}, true, "no consumer group shows"},
		},
		"GroupThatCommitsNothing": {
			{wait - 1, []entity.RedriveItem{idle, consumed}, false, ""},
			{2*wait - 1, []entity.RedriveItem{idle, consumed}, true, "no consumer group shows"},
		},
		"Fails":       {{0, []entity.RedriveItem{consumed, item(entity.ItemDead, "", "")}, false, "1 of 2 messages failed, BAD_RECORD"}},
		"Doubt":       {{0, []entity.RedriveItem{item(entity.ItemInDoubt, "", "")}, false, "1 of 1 messages failed"}},
		"NothingSent": {{0, []entity.RedriveItem{item(entity.ItemSkipped, "", "")}, false, "none of its messages could be sent"}},
		"NoKafka":     {{0, []entity.RedriveItem{{Result: entity.ItemSucceeded}}, true, "nothing was sent"}},
		"SkippedAreNotAsked": {
			{0, []entity.RedriveItem{consumed, item(entity.ItemSkipped, "", "")}, false, ""},
			{canaryQuiet, []entity.RedriveItem{consumed, item(entity.ItemSkipped, "", "")}, true, "1 message was consumed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c Canary
			began := time.Now()
			for _, l := range looks {
				pass, why := c.Decide(Count(l.items, hidden), entity.RedriveOptions{CanaryWait: wait}, began.Add(l.after))
				check.True(t, pass == l.pass && (why == "") == (l.why == "") && strings.Contains(why, l.why),
					"after %s: decide = %t, %q, want %t, %q", l.after, pass, why, l.pass, l.why)
			}
		})
	}
}
