package groups

import (
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

// trend contains the arrivals of an error group, drawn as bars.
type trend struct {
	format.Bars
	Buckets []api.Hour // the arrivals in each bar; Hour is the time at which the bar begins
	Total   int64
}

type trendRange struct {
	Name    string // name of the range in the API
	Title   string
	buckets int
	bucket  time.Duration
}

var (
	trendDay         = trendRange{"24h", "24 hours", 24, time.Hour}
	trendWeek        = trendRange{"7d", "7 days", 28, 6 * time.Hour}
	trendWeekByHours = trendRange{"7d", "7 days", 7 * 24, time.Hour}
)

func trendRangeOf(name string) trendRange {
	if name == trendWeek.Name {
		return trendWeek
	}
	return trendDay
}

// draw makes bars of the arrivals, up to the end of the current hour. Hours that are not in hours count as 0.
func (s trendRange) draw(now time.Time, hours []api.Hour) trend {
	end := now.UTC().Truncate(time.Hour).Add(time.Hour)
	begin := end.Add(-time.Duration(s.buckets) * s.bucket)
	var t trend
	for i := range s.buckets {
		t.Buckets = append(t.Buckets, api.Hour{Hour: begin.Add(time.Duration(i) * s.bucket)})
	}
	for _, h := range hours {
		if h.Hour.Before(begin) || !h.Hour.Before(end) {
			continue
		}
		bucket := &t.Buckets[int(h.Hour.Sub(begin)/s.bucket)]
		bucket.Messages += h.Messages
		t.Total += h.Messages
	}
	numbers := make([]int64, len(t.Buckets))
	for i, bucket := range t.Buckets {
		numbers[i] = bucket.Messages
	}
	t.Bars = format.DrawBars(numbers, format.Plural(t.Total, "arrival", "arrivals")+" in "+s.Title, format.Rough(s.bucket))
	return t
}

func (t trend) Arrivals() []api.Hour {
	var list []api.Hour
	for _, bucket := range slices.Backward(t.Buckets) {
		if bucket.Messages > 0 {
			list = append(list, bucket)
		}
	}
	return list
}
