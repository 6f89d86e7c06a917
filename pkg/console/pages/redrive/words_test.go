package redrive

import (
	"encoding/json"
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
		"SeldomWhileItIsPaused":     {redrive{State: "paused"}, "every 15s"},
		"SeldomWhenItStoppedItself": {redrive{State: "stopped"}, "every 15s"},
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
