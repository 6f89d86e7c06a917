// Package admin has the pages of administrators: the audit trail, the topic mapping and the quarantine.
package admin

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Audit is the page of the audit trail.
type Audit struct {
	API      api.Client
	Renderer *view.Renderer
}

// auditFields are the filters of the audit trail, under their names in the API.
var auditFields = []string{"actor", "action", "kind", "object_id", "request_id", "after"}

var (
	auditKinds   = []string{"message", "redrive", "group", "mapping", "list", "quarantine"}
	auditActions = []string{
		"retry", "attempt", "requeue", "dead", "delete", "map", "restore", "unmask",
		"annotate", "replace", "create", "pass", "pause", "resume", "cancel", "stop", "finish",
	}
)

type auditPage struct {
	Changes []api.Change
	Filter  map[string]string
	Kinds   []string
	Actions []string
	Older   string // address of the next page; empty on the last page
	First   string // address of the first page; empty on the first page
}

// Show lists the changes that the filter selects.
func (a *Audit) Show(w http.ResponseWriter, r *http.Request) error {
	asked, narrowed := r.URL.Query(), []string{}
	data := auditPage{Filter: map[string]string{}, Kinds: auditKinds, Actions: auditActions}
	for _, field := range auditFields {
		data.Filter[field] = asked.Get(field)
		narrowed = append(narrowed, field, asked.Get(field))
	}
	if asked.Get("cursor") != "" {
		data.First = link.To("/audit", narrowed...)
	}
	query := link.Query(append(narrowed, "limit", "100", "cursor", asked.Get("cursor"))...)
	var answer struct {
		Changes []api.Change `json:"changes"`
		Next    string       `json:"next_cursor"`
	}
	shown, status := view.Page{Title: "Audit", Nav: "/audit"}, http.StatusOK
	if err := a.API.Get(r, api.Endpoint("audit"), query, &answer); err != nil {
		if status, shown.Problem, err = view.ProblemOf(err); err != nil {
			return err
		}
	}
	data.Changes = answer.Changes
	if answer.Next != "" {
		data.Older = link.To("/audit", append(narrowed, "cursor", answer.Next)...)
	}
	shown.Data = data
	return a.Renderer.Render(w, r, status, "audit", shown)
}
