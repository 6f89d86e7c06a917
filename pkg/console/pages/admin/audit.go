// Package admin contains the pages of administrators: the audit trail, the topic mapping, the redirects and the
// quarantine.
package admin

import (
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Audit is the page of the audit trail.
type Audit struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

// auditFields are the filters of the audit trail, by their names in the API, and two filters of the page alone: day is
// a range of whole days, and by=all also shows changes that the program made.
var auditFields = []string{"actor", "action", "kind", "object_id", "request_id", "after", "until", "day", "by"}

var (
	auditKinds   = []string{"message", "redrive", "group", "mapping", "list", "quarantine", "view", "redirect"}
	auditActions = []string{
		"retry", "attempt", "requeue", "dead", "delete", "map", "restore", "erase", "unmask", "read_pointer", "accept_envelope",
		"annotate", "replace", "save", "create", "pass", "pause", "resume", "cancel", "stop", "finish", "redirect",
	}
)

type auditPage struct {
	Changes []change
	Single  bool // the page lists the entries of one object or request, not one row for each request
	Filter  map[string]string
	Set     bool // a filter is set
	Kinds   []string
	Actions []string
	Days    []auditLink
	By      []auditLink
	Older   string // address of the next page; empty on the last page
	First   string // address of the first page; empty on the first page
}

type auditLink struct {
	Label, Href string
	Current     bool
}

// Show lists the requests that the filter selects, or the entries of one object or request.
func (a *Audit) Show(w http.ResponseWriter, r *http.Request) error {
	given := url.Values{}
	for _, field := range auditFields {
		if value := r.URL.Query().Get(field); value != "" {
			given.Set(field, value)
		}
	}
	if given.Has("day") && (given.Has("after") || given.Has("until")) {
		given.Del("day")
	}
	data := auditPage{
		Filter: map[string]string{}, Kinds: auditKinds, Actions: auditActions, Set: len(given) > 0,
		Single: given.Has("object_id") || given.Has("request_id"),
	}
	for name := range given {
		data.Filter[name] = given.Get(name)
	}
	for _, field := range []string{"after", "until"} {
		data.Filter[field] = format.Input(given.Get(field))
	}
	data.Days = choices(given, "day", []string{"", "today", "yesterday", "7d"}, []string{"Any time", "Today", "Yesterday", "7 days"}, "after", "until")
	data.By = choices(given, "by", []string{"", "all"}, []string{"People only", "People and machines"})
	cursor := r.URL.Query().Get("cursor")
	if cursor != "" {
		data.First = link.WithQuery(link.Audit, given)
	}
	var answer struct {
		Changes []change `json:"changes"`
		Next    string   `json:"next_cursor"`
	}
	shown, status := view.Page{Title: "Audit", Nav: link.Audit, Modules: []string{"message"}}, http.StatusOK
	if err := a.API.Get(r, api.Endpoint("audit"), a.query(given, data.Single, cursor), &answer); err != nil {
		if status, shown.Problem, err = view.ProblemOf(err); err != nil {
			return err
		}
	}
	data.Changes = answer.Changes
	if answer.Next != "" {
		given.Set("cursor", answer.Next)
		data.Older = link.WithQuery(link.Audit, given)
	}
	shown.Data = data
	return a.Renderer.Render(w, r, status, "audit", shown)
}

// query returns the query for the API.
func (a *Audit) query(given url.Values, single bool, cursor string) url.Values {
	asked := link.Query("limit", "100", "cursor", cursor)
	for _, field := range []string{"actor", "action", "kind", "object_id", "request_id"} {
		if given.Has(field) {
			asked.Set(field, given.Get(field))
		}
	}
	for _, field := range []string{"after", "until"} {
		if given.Has(field) {
			asked.Set(field, format.ReadTime(given.Get(field)))
		}
	}
	if !single {
		asked.Set("limit", "50")
		asked.Set("by_request", "true")
		if given.Get("by") != "all" {
			asked.Set("actor_kind", "person")
		}
	}
	today := a.Now().UTC().Truncate(24 * time.Hour)
	switch given.Get("day") {
	case "today":
		asked.Set("after", api.Time(today))
	case "yesterday":
		asked.Set("after", api.Time(today.AddDate(0, 0, -1)))
		asked.Set("until", api.Time(today))
	case "7d":
		asked.Set("after", api.Time(today.AddDate(0, 0, -6)))
	}
	return asked
}

// choices returns links that set a parameter to each of the values, and remove the parameters listed in also.
func choices(given url.Values, name string, values, labels []string, also ...string) []auditLink {
	var links []auditLink
	timed := false
	for _, other := range also {
		timed = timed || given.Has(other)
	}
	for i, value := range values {
		query := url.Values{}
		for field, set := range given {
			query[field] = set
		}
		for _, other := range append(also, name) {
			query.Del(other)
		}
		if value != "" {
			query.Set(name, value)
		}
		links = append(links, auditLink{labels[i], link.WithQuery(link.Audit, query), !timed && given.Get(name) == value})
	}
	return links
}
