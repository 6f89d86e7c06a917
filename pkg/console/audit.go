package console

import (
	"net/http"
	"net/url"
	"time"
)

type change struct {
	At         time.Time `json:"at"`
	Action     string    `json:"action"`
	Kind       string    `json:"kind"`
	ObjectID   string    `json:"object_id"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	ErrorClass string    `json:"error_class"`
	Error      string    `json:"error"`
	Actor      string    `json:"actor"`
	Reason     string    `json:"reason"`
	RequestID  string    `json:"request_id"`
}

// Link is the page of the changed object, or empty when it has none.
func (ch change) Link() string {
	switch {
	case ch.Kind == "message" && ch.Action != "delete":
		return place{id: ch.ObjectID}.page()
	case ch.Kind == "redrive" || ch.Kind == "group":
		return "/" + ch.Kind + "s/" + url.PathEscape(ch.ObjectID)
	case ch.Kind == "quarantine":
		return quarantinePath
	case ch.Kind == "mapping":
		return "/topics/mapping"
	default:
		return ""
	}
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
	Changes []change
	Filter  map[string]string
	Kinds   []string
	Actions []string
	Older   string // address of the next page; empty on the last page
	First   string // address of the first page; empty on the first page
}

func (c *Console) listChanges(w http.ResponseWriter, r *http.Request) error {
	asked, narrowed := r.URL.Query(), []string{}
	data := auditPage{Filter: map[string]string{}, Kinds: auditKinds, Actions: auditActions}
	for _, field := range auditFields {
		data.Filter[field] = asked.Get(field)
		narrowed = append(narrowed, field, asked.Get(field))
	}
	if asked.Get("cursor") != "" {
		data.First = to("/audit", narrowed...)
	}
	query := queryOf(append(narrowed, "limit", "100", "cursor", asked.Get("cursor"))...)
	var answer listAnswer
	shown, status := page{Title: "Audit", Nav: "/audit"}, http.StatusOK
	if err := c.api.get(r, endpoint("audit"), query, &answer); err != nil {
		if status, shown.Problem, err = problemOf(err); err != nil {
			return err
		}
	}
	data.Changes = answer.Changes
	if answer.Next != "" {
		data.Older = to("/audit", append(narrowed, "cursor", answer.Next)...)
	}
	shown.Data = data
	return c.render(w, r, status, "audit", shown)
}
