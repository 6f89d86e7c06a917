package redrive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

func TestRedriveIsLookedAt(t *testing.T) {
	t.Parallel()
	returning := redrive{State: "finished", EndedAt: noon.Add(-time.Minute)}
	returning.Outcomes.Published = 1
	for name, c := range map[string]struct {
		is   redrive
		want string
	}{
		"OftenWhileItRuns":          {redrive{State: "running"}, "every 2s"},
		"OftenWhileItsCanaryIsOut":  {redrive{State: "canary"}, "every 2s"},
		"LessOftenWhileItIsPaused":  {redrive{State: "paused"}, "every 5s"},
		"LessOftenWhenItStopped":    {redrive{State: "stopped"}, "every 5s"},
		"WhileSomethingMayComeBack": {returning, "every 5s"},
		"NoMoreWhenAllIsKnown":      {redrive{State: "finished", EndedAt: noon.Add(-time.Minute)}, ""},
		"NoMoreAfterLong":           {redrive{State: "cancelled", InDoubt: 1, EndedAt: noon.Add(-time.Hour)}, ""},
	} {
		if got := c.is.Every(noon); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestRedriveWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		waitWords("1m0s"): "1m", waitWords("1h0m0s"): "1h", waitWords("1m30s"): "1m30s", waitWords("10s"): "10s", waitWords("x"): "x",
		sharePercent(0.1): "10", sharePercent(0.125): "12.5", reasonWords("gone"): "it no longer exists, or you may not change it", reasonWords("X"): "X",
		timeWords("2026-02-20T13:00:03.5+01:00"): "2026-02-20 12:00:03.500 UTC", timeWords("soon"): "soon",
		redrive{Rate: 0.5}.Speed(): "30 a minute", redrive{Rate: 1234.5}.Speed(): "1,234 a second", redrive{}.Speed(): "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The page never counts a published message that failed again as a success. The parts of the messages never add up to
// more than the whole.
func TestRedriveParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is         redrive
		parts      string
		fate       fate
		look       string
		outConsume int64
	}{
		"Good":         {redrive{State: "finished", Succeeded: 1500}, "1500 published", fate{0, 1500, 0}, "finished", 1500},
		"FailedAgain":  {redrive{State: "finished", Succeeded: 1500, Returned: 300}, "1500 published, 300 of them failed again", fate{300, 1000, 200}, "caution", 1000},
		"Failed":       {redrive{State: "finished", Failed: 2, Skipped: 1}, "0 published, 2 failed, 1 skipped", fate{}, "caution", 0},
		"ReadLater":    {redrive{State: "running", Succeeded: 60, Returned: 13}, "60 published, 13 of them failed again", fate{13, 47, 0}, "running", 77},
		"NotSavedYet":  {redrive{State: "running", Succeeded: 1, Returned: 3}, "1 published, 1 of them failed again", fate{1, 0, 0}, "running", 0},
		"InDoubt":      {redrive{State: "finished", Succeeded: 1, InDoubt: 1}, "1 published, 1 in doubt", fate{0, 0, 1}, "caution", 0},
		"AnotherState": {redrive{State: "stopped", Failed: 1}, "0 published, 1 failed", fate{}, "stopped", 0},
	} {
		c.is.Action, c.is.Outcomes.Consumed = "retry", c.outConsume
		var parts []string
		for _, p := range c.is.Parts() {
			parts = append(parts, fmt.Sprint(p.N, " ", p.Words))
		}
		if got := strings.Join(parts, ", "); got != c.parts || c.is.Fate() != c.fate || c.is.Look() != c.look {
			t.Errorf("%s: got %q, %+v, %s, want %q, %+v, %s", name, got, c.is.Fate(), c.is.Look(), c.parts, c.fate, c.look)
		}
	}
}

func TestPatchIsLaidOutAsFarAsItIsShown(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]string{"": "", "null": "", "[": "", `[{"op":"x"}]`: "[\n  {\n    \"op\": \"x\"\n  }\n]"} {
		if got := (options{Patch: json.RawMessage(patch)}).Patched(); got != want {
			t.Errorf("%s: got %q, want %q", patch, got, want)
		}
	}
	got := options{Patch: json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("1,", 10_000) + "1" + strings.Repeat("]", 200))}.Patched()
	if len(got) > maxPatch+10 || !strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes, want at most %d and that there is more", len(got), maxPatch)
	}
}
