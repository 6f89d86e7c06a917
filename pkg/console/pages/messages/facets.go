package messages

import (
	"encoding/json"
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
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Facets is the page that shows which values occur in the messages that match a filter.
type Facets struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

const (
	maxFacets     = 5
	facetValues   = 20
	facetSample   = 3  // maximum number of messages whose payloads are read for suggestions
	maxSuggestion = 30 // maximum number of suggested paths
)

// facetFields are the fields of a message for which the API can count values. It can also count headers and payload
// fields.
var facetFields = []string{"topic", "status", "error_class", "consumer_group", "dialect", "group_id", "key"}

type facetAnswer struct {
	AsOf    time.Time  `json:"as_of"`
	Matched matchCount `json:"matched"`
	Counted int64      `json:"counted"`
	Exact   bool       `json:"exact"`
	Sum     *facetSum  `json:"sum"`
	Facets  []facet    `json:"facets"`
}

type facetSum struct {
	Path     string `json:"path"`
	Sum      string `json:"sum"`
	Messages int64  `json:"messages"`
}

type facet struct {
	By       string `json:"by"`
	Distinct struct {
		Values int64 `json:"values"`
		Exact  bool  `json:"exact"`
	} `json:"distinct"`
	Missing int64        `json:"missing"`
	Values  []facetValue `json:"values"`

	Without string // address of this page without this facet
}

type facetValue struct {
	Value    string         `json:"value"`
	Kind     string         `json:"kind"`
	Messages int64          `json:"messages"`
	Sum      *string        `json:"sum"`
	Filter   map[string]any `json:"filter"`

	Share string
	List  string // address of the messages with the value; "" when no filter selects them
	Retry string // address of the preview of a retry of these messages; "" when there is none
}

// Many says how many different values there are.
func (f facet) Many() string {
	if !f.Distinct.Exact {
		return "about " + format.Number(f.Distinct.Values) + " values"
	}
	return format.Plural(f.Distinct.Values, "value", "values")
}

// Rest returns the number of values that are not shown.
func (f facet) Rest() int64 { return f.Distinct.Values - int64(len(f.Values)) }

type facetsPage struct {
	Chips     []chip
	Kept      []hidden // hidden form fields that keep the conditions of the filter
	By        []string // values of the inputs for facets; an empty input follows while more facets are possible
	Sum       string
	Suggested []listLink // links that add a suggested facet to this page
	Answer    *facetAnswer
	List      string // address of the list with the same filter
	CSV       string
	Wrong     map[string]string
}

// Show shows the facets that the address names, and suggests more.
func (f *Facets) Show(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	if given.Get("format") == "csv" {
		return f.export(w, r)
	}
	if removeEmpty(given) {
		return view.Redirect(w, r, link.WithQuery(r.URL.Path, given))
	}
	q := readQuery(r, link.Messages, f.Now())
	q.sort, q.cols = "", ""
	p := facetsPage{Sum: given.Get("sum"), List: q.address()}
	p.By = append(slices.Clone(given["by"][:min(len(given["by"]), maxFacets)]), "")[:min(len(given["by"])+1, maxFacets)]
	status, problem, err := f.load(r, q, &p)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(q.own())) {
		for _, value := range q.own()[name] {
			p.Kept = append(p.Kept, hidden{name, value})
		}
	}
	list := &List{API: f.API}
	p.Chips = q.chips(list.groupTitle(r, q.filter.Get("group_id")))
	for i := range p.Chips { // the link that removes a condition leads to this page, not to the list
		p.Chips[i].Href = strings.Replace(p.Chips[i].Href, link.Messages, link.Facets, 1)
	}
	p.Wrong = problem.ByField()
	return f.Renderer.Render(w, r, status, "facets", view.Page{
		Title: "Facets", Nav: link.Messages, Data: p, Problem: problem.Without([]string{"by", "sum"}),
	})
}

// load requests the facets and the suggestions. When the API refuses the request, the page shows the problem.
func (f *Facets) load(r *http.Request, q listQuery, p *facetsPage) (int, *view.Problem, error) {
	asked, wrong := q.params()
	if wrong != nil {
		return http.StatusBadRequest, wrong, nil
	}
	given := r.URL.Query()
	own := q.own()
	own["by"] = given["by"]
	if p.Sum != "" {
		own.Set("sum", p.Sum)
	}
	paths, err := f.paths(r, asked)
	for _, by := range slices.Concat(paths, facetFields) {
		if err == nil && !slices.Contains(given["by"], by) && len(given["by"]) < maxFacets {
			more := maps.Clone(own)
			more["by"] = append(slices.Clone(given["by"]), by)
			p.Suggested = append(p.Suggested, listLink{Label: by, Href: link.WithQuery(link.Facets, more)})
		}
	}
	if err == nil && (given.Has("by") || p.Sum != "") {
		p.Answer = &facetAnswer{}
		asked["by"] = given["by"]
		if p.Sum != "" {
			asked.Set("sum", p.Sum)
		}
		asked.Set("limit", strconv.Itoa(facetValues))
		err = f.API.Get(r, api.Endpoint("messages", "facets"), asked, p.Answer)
	}
	if err != nil {
		p.Answer = nil
		return view.ProblemOf(err)
	}
	if p.Answer != nil {
		p.Answer.link(own)
	}
	own.Set("format", "csv")
	p.CSV = link.WithQuery(link.Facets, own)
	return http.StatusOK, nil, nil
}

// link sets the addresses to which the facets and their values link. The parameter own contains the parameters of the
// page's address.
func (a *facetAnswer) link(own url.Values) {
	for i := range a.Facets {
		facet := &a.Facets[i]
		less := maps.Clone(own)
		less["by"] = slices.DeleteFunc(slices.Clone(own["by"]), func(by string) bool { return by == facet.By })
		facet.Without = link.WithQuery(link.Facets, less)
		for n := range facet.Values {
			a.linkValue(&facet.Values[n])
		}
	}
}

func (a *facetAnswer) linkValue(v *facetValue) {
	v.Share = format.Percent(float64(v.Messages) / float64(max(1, a.Counted)))
	query, ok := queryOf(v.Filter)
	if !ok {
		return
	}
	v.List = link.WithQuery(link.Messages, query)
	if !slices.ContainsFunc(narrowing, query.Has) {
		return
	}
	query.Set("action", bulkActions[0])
	query.Set("counted", strconv.FormatInt(v.Messages, 10))
	if !a.Exact {
		query.Set("counted_of", strconv.FormatInt(a.Counted, 10))
	}
	v.Retry = link.WithQuery(link.NewRedrive, query)
}

// queryOf returns a filter of the API as a query; false when filter is empty, or when a query cannot contain all of
// its conditions, because pages ignore empty values.
func queryOf(filter map[string]any) (url.Values, bool) {
	query := url.Values{}
	for name, value := range filter {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			text, ok := one.(string)
			if !ok || text == "" || !slices.Contains(filterNames, name) {
				return nil, false
			}
			query.Add(name, text)
		}
	}
	return query, len(query) > 0
}

func (f *Facets) export(w http.ResponseWriter, r *http.Request) error {
	if request.FromOtherSite(r) {
		return &api.Error{Status: http.StatusForbidden, Message: "An export cannot be started by a page of another site."}
	}
	asked, wrong := readQuery(r, link.Messages, f.Now()).params()
	if wrong != nil {
		return &api.Error{Status: http.StatusBadRequest, Message: wrong.Message}
	}
	asked.Del("sort")
	for _, name := range []string{"by", "sum", "format"} {
		if values := r.URL.Query()[name]; len(values) > 0 {
			asked[name] = values
		}
	}
	asked.Set("limit", "1000")
	return f.API.Stream(w, r, api.Endpoint("messages", "facets"), asked)
}

// paths returns paths of scalars in the payloads of the latest facetSample messages that match, at most maxSuggestion.
// It leaves out long paths, and paths whose only values are api.Mask.
func (f *Facets) paths(r *http.Request, asked url.Values) ([]string, error) {
	query := maps.Clone(asked)
	query.Set("limit", strconv.Itoa(facetSample))
	var latest results
	if err := f.API.Get(r, api.Endpoint("messages"), query, &latest); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for i := range latest.Messages {
		var value any
		if json.Unmarshal(latest.Messages[i].JSONPayload(), &value) == nil {
			addPaths(found, "$", value)
		}
	}
	paths := slices.Sorted(maps.Keys(found))
	return paths[:min(len(paths), maxSuggestion)], nil
}

// addPaths adds the paths of scalars within a value, without long paths and without scalars that are api.Mask.
func addPaths(to map[string]bool, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if len(path)+len(name) < 100 {
				addPaths(to, path+step(name), member)
			}
		}
	case []any:
		for _, element := range v {
			addPaths(to, path+"[*]", element)
		}
	default:
		if v != api.Mask && path != "$" {
			to[path] = true
		}
	}
}

// step returns the step of a path that leads to a member.
func step(name string) string {
	plain := func(c rune) bool {
		return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	if name != "" && !strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return "." + name
	}
	return "['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name) + "']"
}
