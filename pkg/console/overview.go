package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// overviewPage answers the first questions: what fails, since when, whether it still fails, and whether a retry helps.
type overviewPage struct {
	Counts   counts
	Oldest   time.Time // of the pending messages; zero: there are none
	LastSeen time.Time // the last arrival in any topic; zero: none
	Lag      *int64
	Ready    readiness
	Topics   []openTopic
	MoreOpen int // topics with open messages that are not shown
	Groups   []groupState
	Redrives []redriveState
	Activity activity
	Spans    []string
	Recent   int64    // arrivals of the last recentMinutes
	Returned int64    // arrivals of these that are returns
	Fresh    bool     // the last arrival is within the last recentMinutes
	Empty    bool     // no message was ever stored
	Missing  []string // parts that could not be read in time
	Refused  bool     // the quarantine holds records
	Mine     string   // the topics that the viewer may see; empty: all
}

type openTopic struct {
	topicState
	Advice advice
}

// Maximum number of rows per section: the overview fits a screen.
const (
	overviewTopics   = 10
	overviewGroups   = 10
	overviewRedrives = 5
	// stillArriving is the age of the last arrival below which a topic counts as still failing.
	stillArriving = 2 * time.Minute
	recentMinutes = 10
)

type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) error {
	span := r.URL.Query().Get("span")
	if !slices.Contains(spans, span) {
		span = spans[1]
	}
	data := overviewPage{Spans: spans, Mine: viewerOf(r).topics()}
	var topics []topicState
	var recent activity
	parts := []overviewPart{
		{"the dependencies", func(r *http.Request) error { return c.api.probe(r, "/readyz", &data.Ready) }},
		{"the topics", func(r *http.Request) (err error) { topics, err = c.allTopics(r); return err }},
		{"the last arrivals", func(r *http.Request) (err error) { recent, err = c.activity(r, spans[0], ""); return err }},
		{"the error groups", func(r *http.Request) (err error) { data.Groups, err = c.openGroups(r); return err }},
		{"the quarantine", func(r *http.Request) (err error) { data.Refused, err = c.anyQuarantined(r); return err }},
		{"the redrives", func(r *http.Request) (err error) { data.Redrives, err = c.liveRedrives(r); return err }},
	}
	if span != spans[0] {
		parts = slices.Insert(parts, 2, overviewPart{"the arrivals", func(r *http.Request) (err error) {
			data.Activity, err = c.activity(r, span, "")
			return err
		}})
	}
	if err := data.read(r, parts); err != nil {
		return err
	}
	if span == spans[0] {
		data.Activity = recent
	}
	data.Recent, data.Returned = recent.last(recentMinutes * time.Minute)
	if err := c.sumUp(r, &data, topics); err != nil {
		return err
	}
	data.Empty = len(topics) == 0 && len(data.Missing) == 0
	return c.render(w, r, http.StatusOK, "overview", page{Title: "Overview", Nav: "/", Modules: []string{"chart"}, Data: data})
}

type overviewPart struct {
	what string
	read func(r *http.Request) error
}

// partPatience limits the time for a part of the page: a page with a gap is better than none.
const partPatience = 3 * time.Second

// read reads all parts concurrently. Parts that fail are named on the page; without credentials or a database there
// is no page.
func (p *overviewPage) read(r *http.Request, parts []overviewPart) error {
	ctx, cancel := context.WithTimeout(r.Context(), partPatience)
	defer cancel()
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { errs[i] = part.read(r.WithContext(ctx)) })
	}
	all.Wait()
	for i, err := range errs {
		var refused *apiError
		switch {
		case err == nil:
		case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.needsDatabase()):
			return err
		default:
			p.Missing = append(p.Missing, parts[i].what)
		}
	}
	return r.Context().Err()
}

func (c *Console) sumUp(r *http.Request, data *overviewPage, topics []topicState) error {
	var open []topicState
	for _, t := range topics {
		data.Counts.add(t.Counts)
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
	data.Fresh = c.now().Sub(data.LastSeen) < recentMinutes*time.Minute
	slices.SortStableFunc(open, func(a, b topicState) int { return cmp.Compare(b.Counts.Open(), a.Counts.Open()) })
	if len(open) > overviewTopics {
		data.MoreOpen = len(open) - overviewTopics
		open = open[:overviewTopics]
	}
	data.Topics = make([]openTopic, len(open))
	back := make([]int64, len(open))
	var hours []overviewPart
	for i, t := range open {
		if t.Topic != "" {
			hours = append(hours, overviewPart{"the repeated failures of single topics", func(r *http.Request) error {
				hour, err := c.activity(r, spans[0], t.Topic)
				_, back[i] = hour.last(time.Hour)
				return err
			}})
		}
	}
	err := data.read(r, hours)
	data.Missing = slices.Compact(data.Missing)
	for i, t := range open {
		data.Topics[i] = openTopic{t, t.advise(c.now(), back[i])}
	}
	return err
}

// rank sorts regressed groups before new ones, and both before all others.
func rank(g groupState) int {
	if g.urgency() == 0 && g.Regressed {
		return -1
	}
	return g.urgency()
}

// openGroups returns the open groups with the most messages and those seen last: regressed first, then new.
func (c *Console) openGroups(r *http.Request) ([]groupState, error) {
	var all []groupState
	seen := map[string]bool{}
	for _, sort := range []string{"last_seen", "open"} {
		var answer listAnswer
		query := url.Values{"open": {"true"}, "sort": {sort}, "trend": {"none"}, "limit": {"50"}}
		if err := c.api.get(r, endpoint("groups"), query, &answer); err != nil {
			return nil, err
		}
		for _, g := range answer.Groups {
			if !seen[g.ID] {
				seen[g.ID] = true
				all = append(all, g)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b groupState) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Open, a.Open))
	})
	return all[:min(len(all), overviewGroups)], nil
}

// liveRedrives returns the redrives that have not ended, those that stopped themselves first.
func (c *Console) liveRedrives(r *http.Request) ([]redriveState, error) {
	var live []redriveState
	for _, state := range []string{"stopped", "canary", "running", "paused"} {
		var answer listAnswer
		if err := c.api.get(r, endpoint("redrives"), url.Values{"state": {state}, "limit": {"5"}}, &answer); err != nil {
			return nil, err
		}
		live = append(live, answer.Redrives...)
	}
	return live[:min(len(live), overviewRedrives)], nil
}
