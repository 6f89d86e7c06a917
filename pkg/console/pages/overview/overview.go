// Package overview has the first page of the console and the list of topics.
package overview

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Overview is the first page of the console.
type Overview struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

// page answers the first questions: what fails, since when, whether it still fails, and whether a retry helps.
type page struct {
	Counts   api.Counts
	Oldest   time.Time // of the pending messages; zero: there are none
	LastSeen time.Time // the last arrival in any topic; zero: none
	Lag      *int64
	Ready    readiness
	Topics   []openTopic
	MoreOpen int // topics with open messages that are not shown
	Groups   []api.ErrorGroup
	Redrives []liveRedrive
	Activity activity
	Ranges   []string
	Recent   int64    // arrivals of the last recentMinutes
	Returned int64    // arrivals of these that are returns
	Fresh    bool     // the last arrival is within the last recentMinutes
	Empty    bool     // no message was ever stored
	Missing  []string // parts that could not be read in time
	Refused  bool     // the quarantine holds records
	Mine     string   // the topics that the viewer may see; empty: all
}

type openTopic struct {
	topic
	Advice advice
}

// Maximum number of rows per section: the overview fits a screen.
const (
	maxTopics   = 10
	maxGroups   = 10
	maxRedrives = 5
	// stillArriving is the age of the last arrival below which a topic counts as still failing.
	stillArriving = 2 * time.Minute
	recentMinutes = 10
)

// liveRedrive is a redrive that has not ended.
type liveRedrive struct {
	ID       string  `json:"id"`
	Action   string  `json:"action"`
	State    string  `json:"state"`
	Progress float64 `json:"progress"`
	Selected int64   `json:"selected"`
	Waiting  int64   `json:"waiting"`
	Returned int64   `json:"returned"`
	Actor    string  `json:"actor"`
}

func (d liveRedrive) Done() int64 { return d.Selected - d.Waiting }

type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// Show answers with the overview.
func (o *Overview) Show(w http.ResponseWriter, r *http.Request) error {
	chosen := r.URL.Query().Get("span")
	if !slices.Contains(ranges, chosen) {
		chosen = ranges[1]
	}
	data := page{Ranges: ranges, Mine: session.ViewerOf(r).Topics()}
	var topics []topic
	var recent activity
	parts := []part{
		{"the dependencies", func(r *http.Request) error { return o.API.Health(r, "/readyz", &data.Ready) }},
		{"the topics", func(r *http.Request) (err error) { topics, err = allTopics(r, o.API); return err }},
		{"the last arrivals", func(r *http.Request) (err error) { recent, err = readActivity(r, o.API, ranges[0], ""); return err }},
		{"the error groups", func(r *http.Request) (err error) { data.Groups, err = o.openGroups(r); return err }},
		{"the quarantine", func(r *http.Request) (err error) { data.Refused, err = o.anyQuarantined(r); return err }},
		{"the redrives", func(r *http.Request) (err error) { data.Redrives, err = o.liveRedrives(r); return err }},
	}
	if chosen != ranges[0] {
		parts = slices.Insert(parts, 2, part{"the arrivals", func(r *http.Request) (err error) {
			data.Activity, err = readActivity(r, o.API, chosen, "")
			return err
		}})
	}
	if err := data.read(r, parts); err != nil {
		return err
	}
	if chosen == ranges[0] {
		data.Activity = recent
	}
	data.Recent, data.Returned = recent.last(recentMinutes * time.Minute)
	if err := o.sumUp(r, &data, topics); err != nil {
		return err
	}
	data.Empty = len(topics) == 0 && len(data.Missing) == 0
	return o.Renderer.Render(w, r, http.StatusOK, "overview", view.Page{Title: "Overview", Nav: "/", Modules: []string{"chart"}, Data: data})
}

type part struct {
	what string
	read func(r *http.Request) error
}

// partTimeout limits the time for a part of the page: a page with a gap is better than none.
const partTimeout = 3 * time.Second

// read reads all parts concurrently. Parts that fail are named on the page; without credentials or a database there
// is no page.
func (p *page) read(r *http.Request, parts []part) error {
	ctx, cancel := context.WithTimeout(r.Context(), partTimeout)
	defer cancel()
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		all.Go(func() { errs[i] = p.read(r.WithContext(ctx)) })
	}
	all.Wait()
	for i, err := range errs {
		var refused *api.Error
		switch {
		case err == nil:
		case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || view.NeedsDatabase(refused)):
			return err
		default:
			p.Missing = append(p.Missing, parts[i].what)
		}
	}
	return r.Context().Err()
}

func (o *Overview) sumUp(r *http.Request, data *page, topics []topic) error {
	var open []topic
	for _, t := range topics {
		data.Counts.Add(t.Counts)
		if n := t.IngestLag; n != nil && data.Lag != nil {
			*data.Lag += *n
		} else if n != nil {
			data.Lag = new(*n)
		}
		if t.LastSeen.After(data.LastSeen) {
			data.LastSeen = t.LastSeen
		}
		if !t.OldestPending.IsZero() && (data.Oldest.IsZero() || t.OldestPending.Before(data.Oldest)) {
			data.Oldest = t.OldestPending
		}
		if t.Counts.Open() > 0 {
			open = append(open, t)
		}
	}
	data.Fresh = o.Now().Sub(data.LastSeen) < recentMinutes*time.Minute
	slices.SortStableFunc(open, func(a, b topic) int { return cmp.Compare(b.Counts.Open(), a.Counts.Open()) })
	if len(open) > maxTopics {
		data.MoreOpen = len(open) - maxTopics
		open = open[:maxTopics]
	}
	data.Topics = make([]openTopic, len(open))
	back := make([]int64, len(open))
	var hours []part
	for i, t := range open {
		if t.Topic != "" {
			hours = append(hours, part{"the repeated failures of single topics", func(r *http.Request) error {
				hour, err := readActivity(r, o.API, ranges[0], t.Topic)
				_, back[i] = hour.last(time.Hour)
				return err
			}})
		}
	}
	err := data.read(r, hours)
	data.Missing = slices.Compact(data.Missing)
	for i, t := range open {
		data.Topics[i] = openTopic{t, t.advise(o.Now(), back[i])}
	}
	return err
}

// rank sorts regressed groups before new ones, and both before all others.
func rank(g api.ErrorGroup) int {
	if g.Urgency() == 0 && g.Regressed {
		return -1
	}
	return g.Urgency()
}

// openGroups returns the open groups with the most messages and those seen last: regressed first, then new.
func (o *Overview) openGroups(r *http.Request) ([]api.ErrorGroup, error) {
	var all []api.ErrorGroup
	seen := map[string]bool{}
	for _, sort := range []string{"last_seen", "open"} {
		var answer struct {
			Groups []api.ErrorGroup `json:"groups"`
		}
		query := url.Values{"open": {"true"}, "sort": {sort}, "trend": {"none"}, "limit": {"50"}}
		if err := o.API.Get(r, api.Endpoint("groups"), query, &answer); err != nil {
			return nil, err
		}
		for _, g := range answer.Groups {
			if !seen[g.ID] {
				seen[g.ID] = true
				all = append(all, g)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b api.ErrorGroup) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Open, a.Open))
	})
	return all[:min(len(all), maxGroups)], nil
}

// liveRedrives returns the redrives that have not ended, those that stopped themselves first.
func (o *Overview) liveRedrives(r *http.Request) ([]liveRedrive, error) {
	var live []liveRedrive
	for _, state := range []string{"stopped", "canary", "running", "paused"} {
		var answer struct {
			Redrives []liveRedrive `json:"redrives"`
		}
		if err := o.API.Get(r, api.Endpoint("redrives"), url.Values{"state": {state}, "limit": {"5"}}, &answer); err != nil {
			return nil, err
		}
		live = append(live, answer.Redrives...)
	}
	return live[:min(len(live), maxRedrives)], nil
}

func (o *Overview) anyQuarantined(r *http.Request) (bool, error) {
	var answer struct {
		Records []struct{} `json:"records"`
	}
	err := o.API.Get(r, api.Endpoint("quarantine"), url.Values{"limit": {"1"}}, &answer)
	return len(answer.Records) > 0, err
}

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
