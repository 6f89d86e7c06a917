package harm

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestExcess(t *testing.T) {
	t.Parallel()
	limits := entity.RedriveOptions{MaxFailureShare: 0.2, MaxReturnShare: 0.1, MinSample: 20}
	for _, c := range []struct {
		name     string
		options  entity.RedriveOptions
		counts   entity.RedriveCounts
		forgiven entity.Tally
		stops    bool
	}{
		{"NothingSent", limits, entity.RedriveCounts{}, entity.Tally{}, false},
		{"NoLimits", entity.RedriveOptions{MinSample: 1}, entity.RedriveCounts{Failed: 100, Returned: 100}, entity.Tally{}, false},
		{"TooFewToTell", limits, entity.RedriveCounts{Failed: 19}, entity.Tally{}, false},
		{"FailuresAtTheLimit", limits, entity.RedriveCounts{Succeeded: 16, Failed: 4}, entity.Tally{}, false},
		{"FailuresAboveTheLimit", limits, entity.RedriveCounts{Succeeded: 15, Failed: 5}, entity.Tally{}, true},
		{"SkippedDoNotCount", limits, entity.RedriveCounts{Succeeded: 16, Failed: 4, Skipped: 100}, entity.Tally{}, false},
		{"ReturnsAtTheLimit", limits, entity.RedriveCounts{Succeeded: 20, Returned: 2}, entity.Tally{}, false},
		{"ReturnsAboveTheLimit", limits, entity.RedriveCounts{Succeeded: 20, Returned: 3}, entity.Tally{}, true},
		{"ForgivenByAResume", limits, entity.RedriveCounts{Succeeded: 35, Failed: 5}, entity.Tally{Sent: 20, Failed: 5}, false},
		{"NewFailuresAfterAResume", limits, entity.RedriveCounts{Succeeded: 30, Failed: 10}, entity.Tally{Sent: 20, Failed: 5}, true},
		{"TooFewAfterAResume", limits, entity.RedriveCounts{Succeeded: 15, Failed: 15}, entity.Tally{Sent: 20, Failed: 5}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			why := Excess(entity.Redrive{Options: c.options, Counts: c.counts, Forgiven: c.forgiven})
			check.True(t, (why != "") == c.stops, "excess = %q, want a reason: %t", why, c.stops)
		})
	}
}
