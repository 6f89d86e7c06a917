package api

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// ErrorGroup describes the messages that failed with the same cause.
type ErrorGroup struct {
	ID          string       `json:"id"`
	Class       string       `json:"class"`
	Title       string       `json:"title"`
	Frames      []string     `json:"frames"`
	Rule        string       `json:"rule"`
	FirstSeen   time.Time    `json:"first_seen_at"`
	LastSeen    time.Time    `json:"last_seen_at"`
	RegressedAt time.Time    `json:"regressed_at"`
	New         bool         `json:"new"`
	Regressed   bool         `json:"regressed"`
	Counts      Counts       `json:"counts"`
	Arrived     int64        `json:"arrived"`
	Topics      []GroupTopic `json:"topics"`
	Missing     []string     `json:"missing_topics"` // missing topics without a redirect; nil in lists of error groups
	Hours       []Hour       `json:"trend"`
	Recent      Recent       `json:"recent"`
	Note        string       `json:"note"`
	Link        string       `json:"link"`
	Muted       bool         `json:"muted"`

	Annotations []Annotation `json:"annotations"`
}

// Recent contains the number of arrivals between two times, and the number of arrivals in each of the last sixty
// minutes, without the minutes that have none.
type Recent struct {
	Since        time.Time `json:"since"`
	Arrived      *int64    `json:"arrived"` // nil: no arrivals of this time are counted yet
	CountedUntil time.Time `json:"counted_until"`
	Minutes      []struct {
		Minute   time.Time `json:"minute"`
		Messages int64     `json:"messages"`
	} `json:"minutes"`
}

// RecentMinutes is how many whole minutes Recent.Arrived covers; it also covers the current minute.
const RecentMinutes = 15

// Spark returns the arrivals of the last sixty minutes, the current one included.
func (r Recent) Spark() format.Bars {
	steps := make([]int64, 60)
	first := r.Since.Add((RecentMinutes + 1 - time.Duration(len(steps))) * time.Minute)
	var total int64
	for _, m := range r.Minutes {
		if i := int(m.Minute.Sub(first) / time.Minute); !m.Minute.Before(first) && i < len(steps) {
			steps[i] += m.Messages
			total += m.Messages
		}
	}
	words := format.Plural(total, "arrival", "arrivals") + " in 60 minutes"
	if r.Arrived == nil {
		words = "latest arrivals not known"
	}
	return format.DrawBars(steps, words, "1 min")
}

// Any reports whether any message is known to have arrived.
func (r Recent) Any() bool { return r.Arrived != nil && *r.Arrived > 0 }

// Annotation is a note on the messages of an error group in a topic. With topic "" it applies to topics without a note
// of their own.
type Annotation struct {
	Topic string `json:"topic"`
	Note  string `json:"note"`
	Link  string `json:"link"`
	Muted bool   `json:"muted"`
}

// GroupTopic is the number of messages of an error group in an original topic; topic "" is unknown.
type GroupTopic struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
}

// Hour is the number of arrivals of an hour, or of the longer step that begins at that hour.
type Hour struct {
	Hour     time.Time `json:"hour"`
	Messages int64     `json:"messages"`
}

// Heading returns the title of the error group; if there is none, its class or "failures without a message".
func (g ErrorGroup) Heading() string { return cmp.Or(g.Title, g.Class, "failures without a message") }

// Ticket returns the error group's link if it is an http or https address, else "".
func (g ErrorGroup) Ticket() string { return link.Web(g.Link) }

// URL returns the address of the error group's page.
func (g ErrorGroup) URL() string { return link.ErrorGroup(g.ID) }

// ErrorGroup returns an error group without its trend, and whether the group could be read.
func (c Client) ErrorGroup(r *http.Request, id string) (ErrorGroup, bool) {
	g := ErrorGroup{ID: id}
	err := c.Get(r, Endpoint("groups", id), url.Values{"trend": {"none"}}, &g)
	return g, err == nil
}

// Counts contains the number of messages in each status.
type Counts struct {
	Pending  int64 `json:"PENDING"`
	Retrying int64 `json:"RETRYING"`
	Resolved int64 `json:"RESOLVED"`
	Dead     int64 `json:"DEAD"`
}

// Open returns how many messages are still to be sent. DEAD messages are counted separately.
func (n Counts) Open() int64 { return n.Pending + n.Retrying }

// Add adds the numbers of m to n.
func (n *Counts) Add(m Counts) {
	n.Pending += m.Pending
	n.Retrying += m.Retrying
	n.Resolved += m.Resolved
	n.Dead += m.Dead
}

// Change is an entry of the audit trail.
type Change struct {
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
	ActorKind  string    `json:"actor_kind"`
	Entries    int       `json:"entries"` // number of audit entries of the request, which are shown as this one change
	Redrive    *struct {
		Action   string `json:"action"`
		Selected int64  `json:"selected"`
	} `json:"redrive"`
}

// Link returns the address of the page of the changed object; "" if the object has no page.
func (ch Change) Link() string {
	switch {
	case ch.Kind == "message" && ch.Action != "delete":
		return MessageRef{ID: ch.ObjectID}.URL()
	case ch.Kind == "redrive" || ch.Kind == "group":
		return "/" + ch.Kind + "s/" + url.PathEscape(ch.ObjectID)
	case ch.Kind == "quarantine":
		return link.Quarantine
	case ch.Kind == "mapping":
		return link.Mapping
	case ch.Kind == "redirect":
		return link.Redirects
	default:
		return ""
	}
}

// RoleFor returns the role that an action on messages needs.
func RoleFor(action string) string {
	if action == "delete" {
		return "admin"
	}
	return "operator"
}

// Time returns a time in the form that parameters of the API have: in UTC, to the millisecond.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
