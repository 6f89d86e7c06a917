package groups

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

// trend is the arrivals of a group, drawn as bars.
type trend struct {
	Buckets []api.Hour // Hour is the beginning of the bucket
	Bars    string     // SVG path of the bars, within Width and Height
	Width   int
	Height  int
	Most    int64 // largest number in a bucket
	Total   int64
	Words   string
}

// The width of a bar, the space between bars, and the height of the picture, in SVG units.
const (
	barWidth   = 3
	barSpace   = 1
	barsHeight = 24
)

type trendRange struct {
	Name    string // name in the API
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

// draw makes bars of the arrivals up to the end of the current hour. Missing hours count as 0.
func (s trendRange) draw(now time.Time, hours []api.Hour) trend {
	end := now.UTC().Truncate(time.Hour).Add(time.Hour)
	begin := end.Add(-time.Duration(s.buckets) * s.bucket)
	t := trend{Width: s.buckets*(barWidth+barSpace) - barSpace, Height: barsHeight}
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
		t.Most = max(t.Most, bucket.Messages)
	}
	t.Bars = barsOf(t.Buckets, t.Most)
	t.Words = format.Plural(t.Total, "arrival", "arrivals") + " in " + s.Title
	if t.Total > 0 {
		t.Words += fmt.Sprintf(", at most %s in %s", format.Number(t.Most), format.Rough(s.bucket))
	}
	return t
}

// barsOf draws every bar above 0 at least one unit high, so that it is visible.
func barsOf(buckets []api.Hour, most int64) string {
	var bars strings.Builder
	for i, b := range buckets {
		if b.Messages <= 0 {
			continue
		}
		height := max(1, int(b.Messages*barsHeight/most))
		fmt.Fprintf(&bars, "M%d %dh%dv-%dh-%dz", i*(barWidth+barSpace), barsHeight, barWidth, height, barWidth)
	}
	return bars.String()
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
