package overview

import (
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// chart shows the arrivals over a range of time as bars. Widths and heights are in units of the SVG picture, which the
// page stretches to its own width.
type chart struct {
	Total   activityPoint
	Bars    []bar
	Width   int
	Height  int
	Top     int64    // number at the upper end of the vertical axis
	Labels  []string // labels of the horizontal axis, at equal distances
	From    string
	Until   string // end of the chart's last step
	Each    string // length of each of the chart's steps, in words
	Counted time.Time
	Late    bool // the counts do not yet include the latest arrivals
}

type bar struct {
	At       time.Time
	X        int
	Width    int
	Arrived  int64
	Returned int64
	Tall     int // height of the bar for the arrivals
	Low      int // height of the bar for the arrivals that failed again
	Link     string
	Words    string
}

const (
	chartHeight = 1000
	chartStep   = 10
	chartLabels = 6 // number of distances between the labels
	shortest    = 15
	// countedLate is the age of the counts above which the page says that the latest arrivals are missing.
	countedLate = 30 * time.Second
)

// draw makes a bar for every step. Each bar with arrivals links to the messages that arrived in its step; with a topic,
// only to the messages of the topic.
func (a activity) draw(now time.Time, topic string) chart {
	step := time.Duration(a.StepSeconds) * time.Second
	c := chart{
		Total: a.Total(), Width: len(a.Points) * chartStep, Height: chartHeight, Each: stepWords(step), Counted: a.CountedUntil,
		Late: !a.CountedUntil.IsZero() && now.Sub(a.CountedUntil) > countedLate,
	}
	var most int64
	for _, p := range a.Points {
		most = max(most, p.Arrived)
	}
	c.Top = axisTop(most)
	for i, p := range a.Points {
		b := bar{
			At: p.At, X: i * chartStep, Width: chartStep, Arrived: p.Arrived, Returned: p.Returned,
			Tall: height(p.Arrived, c.Top), Low: height(p.Returned, c.Top), Words: stepTime(p.At, step) + " UTC: " + format.Number(p.Arrived) + " arrived",
		}
		if p.Returned > 0 {
			b.Words += ", " + format.Number(p.Returned) + " of them failed again"
		}
		if p.Arrived > 0 {
			b.Link = link.To(link.Messages, "topic", topic, "created_after", api.Time(p.At), "created_before", api.Time(p.At.Add(step)))
		}
		c.Bars = append(c.Bars, b)
	}
	if len(a.Points) == 0 {
		return c
	}
	from := a.Points[0].At
	until := a.Points[len(a.Points)-1].At.Add(step)
	for i := range chartLabels + 1 {
		c.Labels = append(c.Labels, stepTime(from.Add(until.Sub(from)*time.Duration(i)/chartLabels), step))
	}
	c.From, c.Until = c.Labels[0], c.Labels[chartLabels]
	return c
}

// Latest returns the bars with arrivals, the latest first.
func (c chart) Latest() (bars []bar) {
	for i := len(c.Bars) - 1; i >= 0; i-- {
		if c.Bars[i].Arrived > 0 {
			bars = append(bars, c.Bars[i])
		}
	}
	return bars
}

// Half returns the number at the middle of the vertical axis.
func (c chart) Half() int64 { return c.Top / 2 }

// height returns the height of a bar. A number above 0 always has a visible bar.
func height(n, top int64) int {
	if n <= 0 {
		return 0
	}
	return max(shortest, int(n*chartHeight/top))
}

// axisTop returns the smallest of the numbers 2, 4, 10, 20, 40, 100, ... that is at least n.
func axisTop(n int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, step := range []int64{2, 4, 10} {
			if step*power >= n {
				return step * power
			}
		}
	}
}

func stepTime(at time.Time, step time.Duration) string {
	if step >= time.Hour {
		return at.UTC().Format("01-02 15:04")
	}
	return at.UTC().Format("15:04")
}

func stepWords(step time.Duration) string {
	if step == time.Hour {
		return "an hour"
	}
	if step == time.Minute {
		return "a minute"
	}
	return strconv.Itoa(int(step.Minutes())) + " minutes"
}
