package overview

import (
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
)

var noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

func TestAdvice(t *testing.T) {
	t.Parallel()
	state := func(change func(*topic)) topic {
		s := topic{Topic: "orders", Counts: api.Counts{Pending: 3}, LastSeen: noon.Add(-time.Hour), Replay: replay{Possible: true}}
		change(&s)
		return s
	}
	absent := replay{Possible: true, Groups: []consumerGroup{{Group: "billing", State: "absent"}}}
	for name, c := range map[string]struct {
		state    topic
		returned int64
		good     bool
		want     string
	}{
		"Quiet":         {state(func(*topic) {}), 0, true, "nothing new for 1 h: try one"},
		"StillFailing":  {state(func(s *topic) { s.LastSeen = noon.Add(-time.Second) }), 0, false, "still failing"},
		"CameBack":      {state(func(*topic) {}), 1, false, "1 replay failed again"},
		"NobodyReads":   {state(func(s *topic) { s.Replay = absent }), 0, false, "no consumer"},
		"Refused":       {state(func(s *topic) { s.Replay = replay{Reason: "it is gone"} }), 0, false, "it is gone"},
		"OnlyDead":      {state(func(s *topic) { s.Counts = api.Counts{Dead: 1} }), 0, true, "requeue"},
		"BeingRetried":  {state(func(s *topic) { s.Counts = api.Counts{Retrying: 1} }), 0, true, "under way"},
		"RefusedBefore": {state(func(s *topic) { s.Replay = replay{Reason: "no"}; s.LastSeen = noon }), 3, false, "cannot be sent back"},
	} {
		if got := c.state.advise(noon, c.returned); got.Good != c.good || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: got %+v, want good %t, %q", name, got, c.good, c.want)
		}
	}
}
