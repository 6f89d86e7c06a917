// Package messages contains the lists of messages, live and archived: filters, columns, counts, exports, and the
// choice of messages to act on.
package messages

import (
	"cmp"
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

// List is the list of messages.
type List struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

const perPage = 50

type results struct {
	Messages      []api.Message `json:"messages"`
	Next          string        `json:"next_cursor"`
	Count         *matchCount   `json:"count"`
	SearchedUntil time.Time     `json:"searched_until"`
	// SearchedBackTo is set when the time for the search ran out: the search has read all messages that are newer than
	// this time. It is zero when the search was complete.
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
		return format.Number(n.N)
	case n.AtLeast:
		return "at least " + format.Number(n.N)
	}
	return "about " + format.Number(n.N)
}

type page struct {
	Archived bool
	Form     filterForm
	Views    []listLink
	Saved    *savedViews // nil: the views could not be read
	Chips    []chip
	Plain    string // address of the list with all conditions removed

	// If a request is for only one live part of the page, the fields below that belong to other parts are empty.

	List     *list // nil: there is no list, or it was not requested
	Count    *count
	Arrivals *arrivals
	Topics   []string // names of known topics
	Facets   string   // address of the facets of the list; "" for the archive
}

type list struct {
	Table    table
	First    string // address of the first page of the list; "" on the first page
	Older    string
	Searched time.Time // time up to which the search index is complete; zero: the search index is not noticeably late
	// SearchedTo is set when the time for the search ran out: the search has read the messages up to this time. Forward
	// is true if the search went from older to newer messages.
	SearchedTo time.Time
	Forward    bool
	Columns    []columnChoice
	Self       string
	Exports    []listLink
	Elsewhere  listLink
	// link to a search for exactly the text that the user typed; set if the list was found by the words of that text
	Exact  *listLink
	Choice *selection // nil: no action is possible on the list
	// Redrives are links to redrives of all archived messages that match, if the filter allows them.
	Redrives []listLink

	Asked bool // the list has a condition
}

type count struct {
	matchCount
	Ask  string // address that counts exactly; "" when the count is exact
	Load string // the address in Ask, if the page requests the exact count by itself; "": only the user requests it
}

type arrivals struct {
	N     int64
	Since time.Time
	Again string // address that the page polls
	Show  string
}

type selection struct {
	Shown  int
	Filter []hidden // conditions of the list as form fields, for an action on all messages that match
	AllWhy string   // the reason for which the user cannot choose all messages that match
	Until  time.Time
	Back   string
}

type hidden struct{ Name, Value string }

type listLink struct {
	Label, Href string
	Current     bool
}

// The ids of the parts of a list that scripts request alone.
const (
	countPart    = "count"
	arrivalsPart = "arrivals"
	topicsPart   = "known-topics"
	viewsPart    = "views" // part that the command palette requests
)

// Show shows the list at a path: link.Messages or link.Archive.
func (l *List) Show(path string) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		given := r.URL.Query()
		if typed := takeTokens(given); removeEmpty(given) || typed {
			return view.Redirect(w, r, link.WithQuery(r.URL.Path, given))
		}
		q := readQuery(r, path, l.Now())
		asked, wrong := q.params()
		if wrong != nil {
			return l.render(w, r, q, http.StatusBadRequest, page{}, wrong)
		}
		p, err := l.load(r, q, asked)
		if err == nil {
			return l.render(w, r, q, http.StatusOK, p, nil)
		}
		status, problem, err := view.ProblemOf(err)
		if err != nil {
			return err
		}
		return l.render(w, r, q, status, page{}, problem)
	}
}

// removeEmpty removes empty parameters from a query, and reports whether the query had any.
func removeEmpty(query url.Values) (untidy bool) {
	for name, values := range query {
		kept := slices.DeleteFunc(values, func(value string) bool { return value == "" })
		untidy = untidy || len(kept) < len(values)
		if query[name] = kept; len(kept) == 0 {
			query.Del(name)
		}
	}
	return untidy
}

// load requests only what the page shows, or the part of it that a script requests alone.
func (l *List) load(r *http.Request, q listQuery, asked url.Values) (p page, err error) {
	switch part := partOf(r); part {
	case arrivalsPart:
		p.Arrivals, err = l.arrived(r, q, asked)
	case countPart:
		asked.Set("limit", "1")
		asked.Set("count", "exact")
		var f results
		err = l.API.Get(r, "/api/v1"+q.path, asked, &f)
		p.Count = countOf(q, f, true)
	case topicsPart:
		p.Topics, err = l.topicNames(r)
	case viewsPart:
	default:
		return l.find(r, q, asked)
	}
	return p, err
}

// partOf returns the id of the part that a script requests alone, or "" for a whole page.
func partOf(r *http.Request) string {
	if r.Header.Get("HX-Request") != "true" {
		return ""
	}
	return r.Header.Get("HX-Target")
}

func (l *List) topicNames(r *http.Request) ([]string, error) {
	var answer struct {
		Topics []struct {
			Topic     string   `json:"topic"`
			DLQTopics []string `json:"dlq_topics"`
		} `json:"topics"`
	}
	err := l.API.Get(r, api.Endpoint("topics"), nil, &answer)
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

// arrived counts the messages that have arrived since the page was loaded. They are at least 1 ms newer than the newest
// message on the page, because messages that were stored together have equal times.
func (l *List) arrived(r *http.Request, q listQuery, asked url.Values) (*arrivals, error) {
	seen, err := time.Parse(time.RFC3339, r.URL.Query().Get("seen"))
	if err != nil {
		seen = q.opened
	}
	a := q.arrivalsSince(seen)
	asked.Set("created_after", api.Time(seen.Add(time.Millisecond)))
	asked.Set("limit", "1")
	asked.Set("omit", "payload")
	asked.Set("count", "exact")
	var f results
	if err := l.API.Get(r, "/api/v1"+q.path, asked, &f); err != nil || f.Count == nil {
		return a, err
	}
	a.N = f.Count.N
	return a, nil
}

func (q listQuery) arrivalsSince(seen time.Time) *arrivals {
	return &arrivals{Since: seen, Again: q.address("seen", api.Time(seen)), Show: q.address()}
}

func (l *List) find(r *http.Request, q listQuery, asked url.Values) (p page, err error) {
	asked.Set("limit", strconv.Itoa(perPage))
	if highlighterOf(q.filter) == nil {
		asked.Set("omit", "payload")
	}
	asked.Set("count", "estimate")
	if q.exact {
		asked.Set("count", "exact")
	}
	if q.cursor != "" {
		asked.Set("cursor", q.cursor)
	}
	var f results
	if err := l.API.Get(r, "/api/v1"+q.path, asked, &f); err != nil {
		return p, err
	}
	p.Count = countOf(q, f, q.exact)
	p.List = l.listOf(r, q, f)
	if q.newestFirst() && q.path == link.Messages {
		seen := q.opened
		if len(f.Messages) > 0 {
			seen = f.Messages[0].CreatedAt
		}
		p.Arrivals = q.arrivalsSince(seen)
	}
	return p, nil
}

// countOf returns how many messages match. If the list has only one page, countOf counts its messages without a further
// request.
func countOf(q listQuery, f results, counted bool) *count {
	n := &count{Ask: q.address("count", "exact")}
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

// searchLag is how late the search index may be before the page shows a notice.
const searchLag = 10 * time.Second

func (l *List) listOf(r *http.Request, q listQuery, f results) *list {
	shown := columnsFor(r, q.cols)
	m := &list{
		Table: table{
			Caption: "Messages", Path: q.path, Columns: shown, Rows: f.Messages,
			Form: "chosen", ClipAt: 120, HideHead: true, Find: highlighterOf(q.filter), Uniform: uniform(f.Messages),
		},
		Columns: columnChoices(shown), Self: r.URL.RequestURI(), Exports: q.exports(),
		Asked: !q.plain(), Elsewhere: q.elsewhere(),
	}
	if typed := r.URL.Query().Get(typedName); typed != "" {
		m.Exact = &listLink{Label: typed, Href: q.address("q", `"`+typed+`"`)}
	}
	if q.cursor != "" {
		m.First = q.address()
	}
	if f.Next != "" {
		m.Older = q.older(f.Next)
	}
	m.SearchedTo, m.Forward = f.SearchedBackTo, q.sort == "created_at"
	if l.Now().Sub(f.SearchedUntil) > searchLag {
		m.Searched = f.SearchedUntil
	}
	if q.path == link.Messages && len(f.Messages) > 0 {
		m.Table.Select = true
		m.Choice = q.choice(f)
	}
	if q.path == link.Archive && len(f.Messages) > 0 && q.narrow() {
		m.Redrives = q.redrives()
	}
	return m
}

// redrives returns links to the previews of redrives of the archived messages that match.
func (q listQuery) redrives() []listLink {
	var links []listLink
	for _, action := range [][2]string{{"restore", "Restore these…"}, {"retry", "Retry these…"}} {
		query := url.Values{"archived": {"true"}, "action": {action[0]}}
		for name, values := range q.frozen(time.Time{}) {
			if name == "id" {
				name = "ids"
			}
			query[name] = values
		}
		links = append(links, listLink{Label: action[1], Href: link.WithQuery(link.NewRedrive, query)})
	}
	return links
}

// uniform reports whether all messages have the same status, so that a column with the status would be useless.
func uniform(messages []api.Message) bool {
	return !slices.ContainsFunc(messages, func(m api.Message) bool { return m.Status != messages[0].Status })
}

func (q listQuery) choice(f results) *selection {
	var newest time.Time
	if q.newestFirst() {
		newest = f.Messages[0].CreatedAt
	}
	all := q.frozen(newest)
	choice := &selection{Shown: len(f.Messages), Back: q.address()}
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

func (q listQuery) exports() []listLink {
	var links []listLink
	for _, kind := range []string{"ndjson", "csv"} {
		query := q.own()
		query.Del("cols")
		query.Set("format", kind)
		if q.path == link.Archive {
			query.Set("source", "archive")
		}
		links = append(links, listLink{Label: strings.ToUpper(kind), Href: link.WithQuery(link.Messages+"/export", query)})
	}
	return links
}

// facets returns the address of the facets of the messages that match.
func (q listQuery) facets() string {
	query := q.own()
	query.Del("cols")
	query.Del("sort")
	return link.WithQuery(link.Facets, query)
}

// elsewhere returns a link to the same search in the other list, of archived or of live messages.
func (q listQuery) elsewhere() listLink {
	other := listQuery{path: link.Archive, filter: q.filter, since: q.since, sort: q.sort, cols: q.cols}
	if q.path == link.Archive {
		other.path = link.Messages
		return listLink{Label: "Search the live messages", Href: other.address()}
	}
	return listLink{Label: "Search the archive", Href: other.address()}
}

func (l *List) render(w http.ResponseWriter, r *http.Request, q listQuery, status int, p page, problem *view.Problem) error {
	title, name := "Messages", "messages"
	if p.Archived = q.path == link.Archive; p.Archived {
		title, name = "Archive", "archive"
	}
	p.Plain = link.WithQuery(q.path, nil)
	if q.path == link.Messages {
		p.Facets = q.facets()
	}
	p.Views = q.views()
	p.Form = formOf(q, problem)
	if part := partOf(r); part == viewsPart {
		p.Saved = l.saved(r, q)
	} else if part == "" {
		p.Saved = l.saved(r, q)
		p.Chips = q.chips(l.groupTitle(r, q.filter.Get("group_id")))
	}
	return l.Renderer.Render(w, r, status, name, view.Page{
		Title: title, Nav: q.path, Modules: []string{"messages"}, Data: p,
		Problem: problem.Without(p.Form.names()),
	})
}

// groupTitle returns the title of an error group, else its class; "" when the group cannot be read, because the list
// then reports the error.
func (l *List) groupTitle(r *http.Request, id string) string {
	if id == "" {
		return ""
	}
	g, _ := l.API.ErrorGroup(r, id)
	return cmp.Or(g.Title, g.Class)
}
