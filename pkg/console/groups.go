package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type groupState struct {
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
	Counts      counts       `json:"counts"`
	Open        int64        `json:"open"`
	Arrived     int64        `json:"arrived"`
	Topics      []groupTopic `json:"topics"`
	Hours       []groupHour  `json:"trend"`
	Note        string       `json:"note"`
	Link        string       `json:"link"`
	Muted       bool         `json:"muted"`

	Annotations []groupAnnotation `json:"annotations"`

	Trend groupTrend `json:"-"`
}

// groupAnnotation is a note on the group's messages of a topic; with topic "" it applies to topics without their own.
type groupAnnotation struct {
	Topic string `json:"topic"`
	Note  string `json:"note"`
	Link  string `json:"link"`
	Muted bool   `json:"muted"`
}

// ByTopic returns the annotations when a topic has its own, else nil.
func (g groupState) ByTopic() []groupAnnotation {
	if slices.ContainsFunc(g.Annotations, func(a groupAnnotation) bool { return a.Topic != "" }) {
		return g.Annotations
	}
	return nil
}

type groupTopic struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
}

// Heading returns the class without its package, or the title.
func (g groupState) Heading() string {
	if g.Class == "" {
		return g.Title
	}
	return g.Class[strings.LastIndexAny(g.Class, ".$\\/:")+1:]
}

func (g groupState) There() int64 { return g.Counts.Open() + g.Counts.Resolved }

func (g groupState) Share(t groupTopic) float64 {
	var all int64
	for _, topic := range g.Topics {
		all += topic.Messages
	}
	return float64(t.Messages) / float64(max(1, all))
}

// Ticket returns the group's link if it is an http or https address, else "".
func (g groupState) Ticket() string { return webAddress(g.Link) }

func (g groupState) Here() string { return "/groups/" + url.PathEscape(g.ID) }

func (c *Console) group(r *http.Request, id string) (groupState, bool) {
	g := groupState{ID: id}
	err := c.api.get(r, endpoint("groups", id), url.Values{"trend": {"none"}}, &g)
	return g, err == nil
}

// webAddress returns an http or https address, which is safe as a link, or "".
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return u.String()
}

// urgency sorts new and regressed groups first, and muted groups last.
func (g groupState) urgency() int {
	switch {
	case g.Muted:
		return 2
	case g.New || g.Regressed:
		return 0
	default:
		return 1
	}
}

const groupsPerPage = 50

var groupOrders = []groupOrder{
	{"last_seen", "Last seen"}, {"open", "Most open"}, {"first_seen", "Newest"},
}

type groupOrder struct{ Value, Name string }

type groupsPage struct {
	Groups []groupState
	All    bool // include groups without open messages
	Sort   string
	Orders []groupOrder
	Span   trendSpan
	Spans  []trendSpan
	Topic  string
	First  bool
	Next   string // address of the next page; empty on the last
}

// Same returns the address of the page with another value of one parameter.
func (p groupsPage) Same(name, value string) string {
	q := queryOf("topic", p.Topic, "sort", p.Sort, "trend", p.Span.Name)
	if p.All {
		q.Set("open", "false")
	}
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	return withQuery("/groups", q)
}

func (c *Console) listGroups(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	shown := groupsPage{
		All: q.Get("open") == "false", Sort: cmp.Or(q.Get("sort"), groupOrders[0].Value), Orders: groupOrders,
		Span: trendSpanOf(q.Get("trend")), Spans: []trendSpan{trendDay, trendWeek}, Topic: strings.TrimSpace(q.Get("topic")), First: q.Get("cursor") == "",
	}
	ask := queryOf("limit", strconv.Itoa(groupsPerPage), "sort", shown.Sort, "trend", shown.Span.Name,
		"topic", shown.Topic, "cursor", q.Get("cursor"))
	if !shown.All {
		ask.Set("open", "true")
	}
	var answer listAnswer
	p := page{Title: "Groups", Nav: "/groups", Data: &shown}
	status := http.StatusOK
	if err := c.api.get(r, endpoint("groups"), ask, &answer); err != nil {
		if status, p.Problem, err = problemOf(err); err != nil {
			return err
		}
	}
	shown.Groups = answer.Groups
	slices.SortStableFunc(shown.Groups, func(a, b groupState) int { return cmp.Compare(a.urgency(), b.urgency()) })
	for i := range shown.Groups {
		shown.Groups[i].Trend = shown.Span.draw(c.now(), shown.Groups[i].Hours)
	}
	if answer.Next != "" {
		shown.Next = shown.Same("cursor", answer.Next)
	}
	return c.render(w, r, status, "groups", p)
}
