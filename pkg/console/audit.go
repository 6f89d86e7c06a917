package console

import (
	"net/http"
	"net/url"
	"time"
)

// change is an entry of the audit trail.
type change struct {
	ID         int64     `json:"id"`
	At         time.Time `json:"at"`
	Action     string    `json:"action"`
	Kind       string    `json:"kind"`
	ObjectID   string    `json:"object_id"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	RetryCount *int      `json:"retry_count"`
	ErrorClass string    `json:"error_class"`
	Error      string    `json:"error"`
	Actor      string    `json:"actor"`
	Reason     string    `json:"reason"`
	RequestID  string    `json:"request_id"`
	TraceID    string    `json:"trace_id"`
}

// Link is the page of what was changed; of what has none it is empty.
func (ch change) Link() string {
	switch {
	case ch.Kind == "message" && ch.Action != "delete":
		return "/messages/" + url.PathEscape(ch.ObjectID)
	case ch.Kind == "redrive":
		return "/redrives/" + url.PathEscape(ch.ObjectID)
	case ch.Kind == "group":
		return "/groups/" + url.PathEscape(ch.ObjectID)
	case ch.Kind == "quarantine":
		return quarantinePath
	case ch.Kind == "mapping":
		return "/topics/mapping"
	default:
		return ""
	}
}

// auditFields are what narrows the trail, by the names that the API has for them.
var auditFields = []string{"actor", "action", "kind", "object_id", "request_id", "after"}

// What entries can be of.
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
	Older   string // address of the next page; empty: there is none
	First   string // address without a cursor, when this is not the first page
}

// listChanges answers with who did what, newest first.
func (c *Console) listChanges(w http.ResponseWriter, r *http.Request) error {
	asked := r.URL.Query()
	data := auditPage{Filter: map[string]string{}, Kinds: auditKinds, Actions: auditActions}
	query := url.Values{"limit": {"100"}}
	narrowed := []string{}
	for _, field := range auditFields {
		value := asked.Get(field)
		data.Filter[field] = value
		if value != "" {
			query.Set(field, value)
			narrowed = append(narrowed, field, value)
		}
	}
	if cursor := asked.Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
		data.First = to("/audit", narrowed...)
	}
	var answer struct {
		Changes    []change `json:"changes"`
		NextCursor string   `json:"next_cursor"`
	}
	shown := page{Title: "Audit", Nav: "/audit"}
	status := http.StatusOK
	if err := c.api.get(r, endpoint("audit"), query, &answer); err != nil {
		if status, shown.Problem, err = told(err); err != nil {
			return err
		}
	}
	data.Changes = answer.Changes
	if answer.NextCursor != "" {
		data.Older = to("/audit", append(narrowed, "cursor", answer.NextCursor)...)
	}
	shown.Data = data
	return c.render(w, r, status, "audit", shown)
}
