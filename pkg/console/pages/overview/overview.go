// Package overview contains the first page of the console, the list of topics and the page of a topic.
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
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
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

// page answers the first questions of an operator: what fails, since when, whether it still fails, and whether a retry
// helps.
type page struct {
	Counts   api.Counts
	Oldest   time.Time // when the oldest PENDING message was created; zero: there is none
	LastSeen time.Time // time of the last arrival in any topic; zero: none
	Lag      *int64
	Ready    readiness
	Topics   []openTopic
	MoreOpen int // number of topics with open messages for which the page has no row
	Groups   []api.ErrorGroup
	Causes   string // which error groups the page shows: new, regressed, or "" for all
	Chart    chart
	Recent   activityPoint // arrivals of the last fifteen minutes
	Before   activityPoint // arrivals of the fifteen minutes before Recent
	Since    time.Time     // beginning of the first minute of Recent
	Redrives []liveRedrive
	Range    string
	Ranges   []string
	Empty    bool   // the list of topics is empty, and every part could be read
	Refused  bool   // the quarantine holds records
	Mine     string // the topics that the viewer may see; empty: all
	Faults   []string
	Unknown  map[string]string // the reasons why parts of the page could not be read, by the name of the part
}

type openTopic struct {
	topic
	Advice advice
}

// Maximum number of rows per section, so that the overview fits on a screen.
const (
	maxTopics   = 10
	maxGroups   = 10
	maxRedrives = 5
	// stillArriving is the age of the last arrival below which a topic counts as still failing.
	stillArriving = 2 * time.Minute
	recent        = api.RecentMinutes * time.Minute
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
	data := page{Range: r.URL.Query().Get("span"), Ranges: ranges, Causes: r.URL.Query().Get("causes"), Mine: session.ViewerOf(r).Topics(), Unknown: map[string]string{}}
	if !slices.Contains(ranges, data.Range) {
		data.Range = ranges[0]
	}
	if !slices.Contains(causes, data.Causes) {
		data.Causes = ""
	}
	var topics topicList
	var minutes, arrivals activity
	parts := []part{
		{"dependencies", func(r *http.Request) error { return o.API.Health(r, "/readyz", &data.Ready) }},
		{"topics", func(r *http.Request) (err error) { topics, err = allTopics(r, o.API); return err }},
		{"last arrivals", func(r *http.Request) (err error) { minutes, err = readActivity(r, o.API, ranges[0], ""); return err }},
		{"error groups", func(r *http.Request) (err error) { data.Groups, err = o.openGroups(r, data.Causes); return err }},
		{"quarantine", func(r *http.Request) (err error) { data.Refused, err = o.anyQuarantined(r); return err }},
		{"redrives", func(r *http.Request) (err error) { data.Redrives, err = o.liveRedrives(r); return err }},
	}
	if data.Range != ranges[0] {
		parts = append(parts, part{"arrivals", func(r *http.Request) (err error) {
			arrivals, err = readActivity(r, o.API, data.Range, "")
			return err
		}})
	}
	if err := data.read(r, parts); err != nil {
		return err
	}
	if data.Range == ranges[0] {
		arrivals = minutes
		data.copyUnknown("last arrivals", "arrivals")
	}
	now := o.Now()
	data.Chart, data.Since = arrivals.draw(now, ""), now.UTC().Truncate(time.Minute).Add(-recent)
	data.Recent, data.Before = minutes.since(data.Since, now), minutes.since(data.Since.Add(-recent), data.Since)
	if err := o.sumUp(r, &data, topics); err != nil {
		return err
	}
	data.Empty = len(topics.Topics) == 0 && len(data.Unknown) == 0
	data.Faults = data.faults()
	return o.Renderer.Render(w, r, http.StatusOK, "overview", view.Page{Title: data.title(), Nav: "/", Data: data})
}

// title returns the page's title with the number of pending messages, which a browser shows on its tab.
func (p *page) title() string {
	if p.Unknown["topics"] != "" || p.Counts.Pending == 0 {
		return "Overview"
	}
	return "(" + format.Number(p.Counts.Pending) + ") Overview"
}

// faults returns one sentence for each dependency that fails, the worst first. If no dependency fails but a part of the
// page could not be read, it returns a general sentence.
func (p *page) faults() (faults []string) {
	for _, f := range faultTexts {
		if state, known := p.Ready.Checks[f.check]; known && !healthy(state) && state != "not known" {
			faults = append(faults, f.text)
		}
	}
	if len(p.Unknown) > 0 && len(faults) == 0 {
		faults = []string{"Not everything could be read. A dash is a value that is not known; the reason is next to it."}
	}
	return slices.Compact(faults)
}

const databaseFault = "The database does not answer. Counts are not known: a dash is not a zero."

var faultTexts = []struct{ check, text string }{
	{"database", databaseFault},
	{"schema", databaseFault},
	{"kafka", "Kafka does not answer. Ingest lag and consumers are not known, and nothing can be sent. Counts come from the database."},
	{"ingester", "No ingester is running. New dead letters stay in Kafka until one starts."},
}

func healthy(state string) bool {
	return state == "ok" || state == "in memory" || state == "not configured"
}

func (p *page) copyUnknown(from, to string) {
	if reason := p.Unknown[from]; reason != "" {
		p.Unknown[to] = reason
	}
}

type part struct {
	name string
	read func(r *http.Request) error
}

// partTimeout limits the time for a part of the page; after it, the page shows a reason in place of the part.
const partTimeout = 3 * time.Second

// read reads all parts concurrently. If a part fails, the page shows the reason in its place. Without credentials or a
// database there is no page.
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
			p.Unknown[parts[i].name] = reasonOf(refused)
		}
	}
	return r.Context().Err()
}

func reasonOf(refused *api.Error) string {
	if refused == nil || refused.Status >= http.StatusInternalServerError {
		return "not known: no answer in time"
	}
	return "not known: " + refused.Message
}

func (o *Overview) sumUp(r *http.Request, data *page, topics topicList) error {
	if len(topics.Missing) > 0 {
		data.Unknown["ingest lag"] = "not known: Kafka does not answer"
	}
	var open []topic
	for _, t := range topics.Topics {
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
			hours = append(hours, part{"failed again", func(r *http.Request) error {
				hour, err := readActivity(r, o.API, ranges[0], t.Topic)
				back[i] = hour.Total().Returned
				return err
			}})
		}
	}
	err := data.read(r, hours)
	for i, t := range open {
		data.Topics[i] = openTopic{t, t.advise(o.Now(), back[i])}
		if reason := data.Unknown["failed again"]; reason != "" {
			data.Topics[i].Advice = advice{Text: reason}
		}
	}
	return err
}

// causes are the values of the parameter causes, which limits the error groups on the page to new or to regressed
// groups.
var causes = []string{"new", "regressed"}

type causeLink struct {
	Name, Link string
	Current    bool
}

// CauseLinks returns a link for all error groups, for new groups and for regressed groups.
func (p page) CauseLinks() []causeLink {
	links := []causeLink{{"all", link.To("/", "span", p.Range), p.Causes == ""}}
	for _, only := range causes {
		links = append(links, causeLink{only, link.To("/", "span", p.Range, "causes", only), p.Causes == only})
	}
	return links
}

// openGroups reads the 20 error groups with open messages that have the most arrivals in the last minutes, and returns
// the first maxGroups of them after it has moved muted groups to the end. The parameter only is "new" or "regressed" to
// read only such groups, or "" to read all.
func (o *Overview) openGroups(r *http.Request, only string) ([]api.ErrorGroup, error) {
	var answer struct {
		Groups []api.ErrorGroup `json:"groups"`
	}
	query := url.Values{"status": {"PENDING,RETRYING"}, "sort": {"recent"}, "minutes": {"true"}, "trend": {"none"}, "limit": {"20"}}
	if only != "" {
		query.Set(only, "true")
	}
	err := o.API.Get(r, api.Endpoint("groups"), query, &answer)
	slices.SortStableFunc(answer.Groups, func(a, b api.ErrorGroup) int {
		switch {
		case a.Muted == b.Muted:
			return 0
		case a.Muted:
			return 1
		default:
			return -1
		}
	})
	return answer.Groups[:min(len(answer.Groups), maxGroups)], err
}

// liveRedrives returns at most maxRedrives redrives that have not ended: first those that stopped themselves.
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

func readActivity(r *http.Request, client api.Client, timeRange, topic string) (activity, error) {
	var a activity
	query := link.Query("span", timeRange, "topic", topic)
	if timeRange == ranges[0] {
		query.Set("step", "minute")
	}
	err := client.Get(r, api.Endpoint("activity"), query, &a)
	return a, err
}

func (a activity) Total() (sum activityPoint) {
	for _, p := range a.Points {
		sum.Arrived += p.Arrived
		sum.Returned += p.Returned
	}
	return sum
}

// since adds up the arrivals and returns of the steps that begin at or after the time from and before the time until.
func (a activity) since(from, until time.Time) (sum activityPoint) {
	for _, p := range a.Points {
		if !p.At.Before(from) && p.At.Before(until) {
			sum.Arrived += p.Arrived
			sum.Returned += p.Returned
		}
	}
	return sum
}
