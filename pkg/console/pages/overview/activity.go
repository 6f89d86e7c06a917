package overview

import (
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// ranges are the lengths of time that the activity chart can show, under their names in the API.
var ranges = []string{"hour", "day", "week"}

type activity struct {
	Range        string          `json:"span"`
	StepSeconds  int64           `json:"step_seconds"`
	Points       []activityPoint `json:"points"`
	CountedUntil time.Time       `json:"counted_until"`
}

type activityPoint struct {
	At       time.Time `json:"at"`
	Arrived  int64     `json:"arrived"`
	Returned int64     `json:"returned"`
}

func (p activityPoint) Unix() int64 { return p.At.Unix() }

func readActivity(r *http.Request, client api.Client, timeRange, topic string) (activity, error) {
	var a activity
	err := client.Get(r, api.Endpoint("activity"), link.Query("span", timeRange, "topic", topic), &a)
	return a, err
}

func (a activity) Total() (sum activityPoint) {
	for _, p := range a.Points {
		sum.Arrived += p.Arrived
		sum.Returned += p.Returned
	}
	return sum
}

// last sums the steps that overlap the last d before the end of the points.
func (a activity) last(d time.Duration) (arrived, returned int64) {
	step := time.Duration(a.StepSeconds) * time.Second
	if step <= 0 || len(a.Points) == 0 {
		return 0, 0
	}
	n := min(int((d+step-1)/step), len(a.Points))
	for _, p := range a.Points[len(a.Points)-n:] {
		arrived += p.Arrived
		returned += p.Returned
	}
	return arrived, returned
}
