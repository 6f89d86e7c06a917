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

const messagesPerPage = 50

type found struct {
	Messages      []message   `json:"messages"`
	Next          string      `json:"next_cursor"`
	Count         *matchCount `json:"count"`
	SearchedUntil time.Time   `json:"searched_until"`
	// SearchedBackTo is how far the search got when it ran out of time; zero when it was complete.
	SearchedBackTo time.Time `json:"searched_back_to"`
}

type matchCount struct {
	N       int64 `json:"messages"`
	Exact   bool  `json:"exact"`
	AtLeast bool  `json:"at_least"`
}

func (n matchCount) Many() string {
	switch {
	case n.Exact:
		return number(n.N)
	case n.AtLeast:
		return "at least " + number(n.N)
	}
	return "about " + number(n.N)
}

type messagesPage struct {
	Archived bool
	Form     messageForm
	Views    []listLink
	Chips    []chip
	Plain    string // address of the list without conditions

	// A request for one live part leaves the other parts below empty.

	List     *messageList // nil: no list, or it was not requested
	Count    *messageCount
	Arrivals *arrivals
	Topics   []string // names of known topics
}

type messageList struct {
	Table    messageTable
	First    string // first page of the list; "" on it
	Older    string
	Searched time.Time // how far the search index reaches, when it lags noticeably
	// SearchedTo is where the search ended early; Forward: it ran from older to newer messages.
	SearchedTo time.Time
	Forward    bool
	Columns    []columnChoice
	Self       string
	Exports    []listLink
	Elsewhere  listLink
	Choice     *messageChoice // nil: no action is possible on the list

	Asked bool // a condition is set
}

type messageCount struct {
	matchCount
	Ask  string // address that counts exactly; "" when the count is exact
	Load string // the same address, when the page counts by itself
}

type arrivals struct {
	N     int64
	Since time.Time
	Again string // address to poll
	Show  string
}

type messageChoice struct {
	Shown  int
	Filter []hidden // conditions of all that match
	AllWhy string   // the reason for which not all that match can be chosen
	Until  time.Time
	Back   string
}

type hidden struct{ Name, Value string }

type listLink struct {
	Label, Href string
	Current     bool
}

// The ids of the parts of a list that poll themselves.
const (
	countPart    = "count"
	arrivalsPart = "arrivals"
	topicsPart   = "known-topics"
)

func (c *Console) messageList(path string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if given := r.URL.Query(); tidied(given) {
			return seeOther(w, r, withQuery(r.URL.Path, given))
		}
		q := questionOf(r, path, c.now())
		asked, wrong := q.api()
		if wrong != nil {
			return c.renderMessages(w, r, q, http.StatusBadRequest, messagesPage{}, wrong)
		}
		p, err := c.messagesFor(r, q, asked)
		if err == nil {
			return c.renderMessages(w, r, q, http.StatusOK, p, nil)
		}
		status, problem, err := problemOf(err)
		if err != nil {
			return err
		}
		return c.renderMessages(w, r, q, status, messagesPage{}, problem)
	}
}

// tidied removes empty parameters from a query, and reports whether there were any.
func tidied(query url.Values) (untidy bool) {
	for name, values := range query {
		kept := slices.DeleteFunc(values, func(value string) bool { return value == "" })
		untidy = untidy || len(kept) < len(values)
		if query[name] = kept; len(kept) == 0 {
			query.Del(name)
		}
	}
	return untidy
}

// messagesFor requests only what the page, or its polled part, shows.
func (c *Console) messagesFor(r *http.Request, q question, asked url.Values) (p messagesPage, err error) {
	switch part := partOf(r); part {
	case arrivalsPart:
		p.Arrivals, err = c.arrived(r, q, asked)
	case countPart:
		asked.Set("limit", "1")
		asked.Set("count", "exact")
		var f found
		err = c.api.get(r, "/api/v1"+q.path, asked, &f)
		p.Count = countOf(q, f, true)
	case topicsPart:
		p.Topics, err = c.topicNames(r)
	default:
		return c.messagesFound(r, q, asked)
	}
	return p, err
}

// partOf returns the id of the polled part, or "" for a whole page.
func partOf(r *http.Request) string {
	if r.Header.Get("HX-Request") != "true" {
		return ""
	}
	return r.Header.Get("HX-Target")
}

func (c *Console) topicNames(r *http.Request) ([]string, error) {
	var answer listAnswer
	err := c.api.get(r, endpoint("topics"), nil, &answer)
	known, names := map[string]bool{"": true}, []string(nil)
	for _, t := range answer.Topics {
		for _, name := range append([]string{t.Topic}, t.DLQTopics...) {
			if !known[name] {
				known[name], names = true, append(names, name)
			}
		}
	}
	return names, err
}

// arrived counts messages at least 1 ms newer than the newest of the page, as messages of one batch have equal times.
func (c *Console) arrived(r *http.Request, q question, asked url.Values) (*arrivals, error) {
	seen, err := time.Parse(time.RFC3339, r.URL.Query().Get("seen"))
	if err != nil {
		seen = q.opened
	}
	a := q.arrivalsSince(seen)
	asked.Set("created_after", moment(seen.Add(time.Millisecond)))
	asked.Set("limit", "1")
	asked.Set("omit", "payload")
	asked.Set("count", "exact")
	var f found
	if err := c.api.get(r, "/api/v1"+q.path, asked, &f); err != nil || f.Count == nil {
		return a, err
	}
	a.N = f.Count.N
	return a, nil
}

func (q question) arrivalsSince(seen time.Time) *arrivals {
	return &arrivals{Since: seen, Again: q.address("seen", moment(seen)), Show: q.address()}
}

func (c *Console) messagesFound(r *http.Request, q question, asked url.Values) (p messagesPage, err error) {
	asked.Set("limit", strconv.Itoa(messagesPerPage))
	asked.Set("omit", "payload")
	asked.Set("count", "estimate")
	if q.exact {
		asked.Set("count", "exact")
	}
	if q.cursor != "" {
		asked.Set("cursor", q.cursor)
	}
	var f found
	if err := c.api.get(r, "/api/v1"+q.path, asked, &f); err != nil {
		return p, err
	}
	p.Count = countOf(q, f, q.exact)
	p.List = c.listOf(r, q, f)
	if q.newestFirst() && q.path == messagesPath {
		seen := q.opened
		if len(f.Messages) > 0 {
			seen = f.Messages[0].CreatedAt
		}
		p.Arrivals = q.arrivalsSince(seen)
	}
	return p, nil
}

// countOf returns how many messages match. A list of one page needs no request for it.
func countOf(q question, f found, counted bool) *messageCount {
	n := &messageCount{Ask: q.address("count", "exact")}
	switch {
	case !counted && q.cursor == "" && f.Next == "":
		n.matchCount = matchCount{N: int64(len(f.Messages)), Exact: true}
	case f.Count != nil:
		n.matchCount = *f.Count
	}
	if n.Exact || n.AtLeast || counted {
		n.Ask = ""
	} else if q.cursor == "" {
		n.Load = n.Ask
	}
	return n
}

// lateSearch is how far the search index may lag without a notice.
const lateSearch = 10 * time.Second

func (c *Console) listOf(r *http.Request, q question, f found) *messageList {
	shown := columnsFor(r, q.cols)
	l := &messageList{
		Table: messageTable{
			Caption: "Messages", Path: q.path, Columns: shown, Rows: f.Messages,
			Form: "chosen", ClipAt: 240, HideHead: true,
		},
		Columns: columnChoices(shown), Self: r.URL.RequestURI(), Exports: q.exports(),
		Asked: !q.plain(), Elsewhere: q.elsewhere(),
	}
	if q.cursor != "" {
		l.First = q.address()
	}
	if f.Next != "" {
		l.Older = q.older(f.Next)
	}
	l.SearchedTo, l.Forward = f.SearchedBackTo, q.sort == "created_at"
	if c.now().Sub(f.SearchedUntil) > lateSearch {
		l.Searched = f.SearchedUntil
	}
	if q.path == messagesPath && len(f.Messages) > 0 {
		l.Table.Select = true
		l.Choice = q.choice(f)
	}
	return l
}

func (q question) choice(f found) *messageChoice {
	var newest time.Time
	if q.newestFirst() {
		newest = f.Messages[0].CreatedAt
	}
	all := q.everything(newest)
	choice := &messageChoice{Shown: len(f.Messages), Back: q.address()}
	choice.Until, _ = time.Parse(time.RFC3339, all.Get("created_before"))
	if !q.narrow() {
		choice.AllWhy = "needs a topic, a group or another condition: times and states alone could select every message"
	}
	for _, name := range filterNames {
		for _, value := range all[name] {
			choice.Filter = append(choice.Filter, hidden{name, value})
		}
	}
	return choice
}

func (q question) exports() []listLink {
	var links []listLink
	for _, format := range []string{"ndjson", "csv"} {
		query := q.own()
		query.Del("cols")
		query.Set("format", format)
		if q.path == archivePath {
			query.Set("source", "archive")
		}
		links = append(links, listLink{Label: strings.ToUpper(format), Href: withQuery(messagesPath+"/export", query)})
	}
	return links
}

// elsewhere links to the same search in the other list: archive or live messages.
func (q question) elsewhere() listLink {
	other := question{path: archivePath, filter: q.filter, since: q.since, sort: q.sort, cols: q.cols}
	if q.path == archivePath {
		other.path = messagesPath
		return listLink{Label: "Search the live messages", Href: other.address()}
	}
	return listLink{Label: "Search the archive", Href: other.address()}
}

func (c *Console) renderMessages(w http.ResponseWriter, r *http.Request, q question, status int, p messagesPage, problem *failure) error {
	title, name := "Messages", "messages"
	if p.Archived = q.path == archivePath; p.Archived {
		title, name = "Archive", "archive"
	}
	p.Plain = withQuery(q.path, nil)
	p.Views = q.views()
	p.Form = formOf(q, problem)
	if partOf(r) == "" {
		p.Chips = q.chips(c.groupTitle(r, q.filter.Get("group_id")))
	}
	return c.render(w, r, status, name, page{
		Title: title, Nav: q.path, Modules: []string{"messages"}, Data: p,
		Problem: problem.besides(p.Form.names()),
	})
}

// groupTitle returns the title of a group, else its class; "" when it cannot be read, which the list reports.
func (c *Console) groupTitle(r *http.Request, id string) string {
	if id == "" {
		return ""
	}
	g, _ := c.group(r, id)
	return cmp.Or(g.Title, g.Class)
}
