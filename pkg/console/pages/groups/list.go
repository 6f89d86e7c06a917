// Package groups contains the pages of error groups: the list, each group with its trend and a sample of its messages,
// and the comparison of two messages.
package groups

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Pages are the pages of error groups.
type Pages struct {
	API            api.Client
	Renderer       *view.Renderer
	Now            func() time.Time
	VersionHeaders []string // names of headers that hold a version of the producer or the consumer
}

// errorGroup is an error group, with its arrivals drawn as bars.
type errorGroup struct {
	api.ErrorGroup
	Trend trend `json:"-"`
}

// ByTopic returns the annotations if a topic has an annotation of its own, else nil.
func (g errorGroup) ByTopic() []api.Annotation {
	if slices.ContainsFunc(g.Annotations, func(a api.Annotation) bool { return a.Topic != "" }) {
		return g.Annotations
	}
	return nil
}

// LiveCount returns how many messages of the error group are live, which means neither archived nor deleted.
func (g errorGroup) LiveCount() int64 { return g.Counts.Open() + g.Counts.Dead + g.Counts.Resolved }

func (g errorGroup) Shares() []string {
	var parts []int64
	for _, topic := range g.Topics {
		parts = append(parts, topic.Messages)
	}
	return format.Shares(parts)
}

const perPage = 50

var orders = []order{
	{"last_seen", "Last seen"}, {"recent", "Most in 15 min"}, {"open", "Most open"}, {"first_seen", "Newest"},
}

// listViews are the lists of error groups. With the order "open", the API orders the groups of a list by the number of
// their messages in the list's statuses, which the list shows.
var listViews = []listView{
	{"", "open ones", url.Values{"status": {"PENDING,RETRYING"}}},
	{"new", "new ones", url.Values{"status": {"PENDING,RETRYING"}, "new": {"true"}}},
	{"regressed", "regressed ones", url.Values{"status": {"PENDING,RETRYING"}, "regressed": {"true"}}},
	{"dead", "dead ones", url.Values{"status": {"DEAD"}}},
	{"all", "all", nil},
}

// listView is a list of error groups: its name in the address, its label, and the parameters of its request to the API.
type listView struct {
	Name, Label string
	ask         url.Values
}

func listViewOf(name string) listView {
	if i := slices.IndexFunc(listViews, func(v listView) bool { return v.Name == name }); i >= 0 {
		return listViews[i]
	}
	return listViews[0]
}

type order struct{ Value, Name string }

type listPage struct {
	Groups []errorGroup
	View   listView
	Views  []listView
	Sort   string
	Orders []order
	Range  trendRange
	Ranges []trendRange
	Topic  string
	First  bool
	Next   string // address of the next page; empty on the last
}

// Same returns the address of the page with another value of one parameter.
func (p listPage) Same(name, value string) string {
	q := link.Query("topic", p.Topic, "sort", p.Sort, "trend", p.Range.Name)
	if p.View.Name != "" {
		q.Set("show", p.View.Name)
	}
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	return link.WithQuery(link.Groups, q)
}

// List shows the list of those error groups that the filter selects.
func (p *Pages) List(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	shown := listPage{
		View: listViewOf(q.Get("show")), Views: listViews, Sort: cmp.Or(q.Get("sort"), orders[0].Value), Orders: orders,
		Range: trendRangeOf(q.Get("trend")), Ranges: []trendRange{trendDay, trendWeek}, Topic: strings.TrimSpace(q.Get("topic")), First: q.Get("cursor") == "",
	}
	ask := link.Query("limit", strconv.Itoa(perPage), "sort", shown.Sort, "trend", shown.Range.Name,
		"topic", shown.Topic, "cursor", q.Get("cursor"))
	if q.Get("open") == "false" { // links of earlier versions of the console use this parameter
		shown.View = listViewOf("all")
	}
	maps.Copy(ask, shown.View.ask)
	var answer struct {
		Groups []errorGroup `json:"groups"`
		Next   string       `json:"next_cursor"`
	}
	page, status := view.Page{Title: "Groups", Nav: link.Groups, Data: &shown}, http.StatusOK
	if err := p.API.Get(r, api.Endpoint("groups"), ask, &answer); err != nil {
		if status, page.Problem, err = view.ProblemOf(err); err != nil {
			return err
		}
	}
	shown.Groups = answer.Groups
	for i := range shown.Groups {
		shown.Groups[i].Trend = shown.Range.draw(p.Now(), shown.Groups[i].Hours)
	}
	if answer.Next != "" {
		shown.Next = shown.Same("cursor", answer.Next)
	}
	return p.Renderer.Render(w, r, status, "groups", page)
}
