package messages

import (
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

// Parameters of the API that select messages. A parameter in narrowing selects only some of the messages. Times and
// statuses are not in narrowing, because they may select all messages.
var (
	narrowing   = []string{"topic", "error_class", "consumer_group", "dialect", "group_id", "origin", "key", "key_base64", "header", "payload", "q"}
	filterNames = append([]string{"status", "created_after", "created_before", "retried_after", "retried_before"}, narrowing...)
	timeNames   = []string{"created_after", "created_before", "retried_after", "retried_before"}
)

// listQuery holds the parameters in the address of a list.
type listQuery struct {
	path   string     // path of the list
	filter url.Values // parameters by their names in the API, without empty values
	since  string     // largest age, such as 1h, counted back from opened
	sort   string
	cols   string // columns that the address names
	exact  bool   // the count must be exact, however long counting takes
	cursor string
	opened time.Time // when the first page was opened
}

// readQuery parses an address. The API validates it.
func readQuery(r *http.Request, path string, now time.Time) listQuery {
	given := r.URL.Query()
	q := listQuery{
		path: path, filter: readFilter(given), opened: now.UTC().Truncate(time.Millisecond),
		since: strings.TrimSpace(given.Get("since")), sort: given.Get("sort"), cols: given.Get("cols"),
		exact: given.Get("count") == "exact", cursor: given.Get("cursor"),
	}
	if opened, err := time.Parse(time.RFC3339Nano, given.Get("opened")); err == nil && q.cursor != "" {
		q.opened = opened
	}
	if q.filter.Has("created_after") {
		q.since = ""
	}
	return q
}

func readFilter(given url.Values) url.Values {
	filter := url.Values{}
	for _, name := range filterNames {
		for _, value := range given[name] {
			if value = normalized(name, value); value != "" {
				filter.Add(name, value)
			}
		}
	}
	if statuses := filter["status"]; len(statuses) > 0 {
		filter["status"] = strings.Split(strings.ToUpper(strings.Join(statuses, ",")), ",")
	}
	return filter
}

// normalized converts a time that a user has typed, in UTC, to RFC 3339. It trims spaces, except those of a key or a
// header.
func normalized(name, value string) string {
	if name != "key" && name != "header" {
		value = strings.TrimSpace(value)
	}
	if slices.Contains(timeNames, name) {
		return format.ReadTime(value)
	}
	return value
}

// params returns the query for the API, or the problem of the parameter since, which the API does not have.
func (q listQuery) params() (url.Values, *view.Problem) {
	asked := maps.Clone(q.filter)
	if q.since != "" {
		age, ok := ageOf(q.since)
		if !ok {
			reason := "must be a number and m, h or d, such as 15m, at most 3650d"
			return nil, view.NewProblem(http.StatusBadRequest, "since: "+reason, view.FieldProblem{Field: "since", Reason: reason})
		}
		asked.Set("created_after", api.Time(q.opened.Add(-age)))
	}
	if q.sort != "" {
		asked.Set("sort", q.sort)
	}
	return asked, nil
}

var units = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

func ageOf(text string) (time.Duration, bool) {
	unit := units[text[len(text)-1]]
	n, err := strconv.Atoi(text[:len(text)-1])
	const most = 3650 * 24 * time.Hour
	if err != nil || unit == 0 || n < 1 || n > int(most/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// frozen returns a filter for all messages that matched when the page was opened, including the newest message on the
// page.
func (q listQuery) frozen(newest time.Time) url.Values {
	all, wrong := q.params()
	if wrong != nil {
		return nil
	}
	until := q.opened
	if !newest.Before(until) {
		until = newest.Add(time.Millisecond)
	}
	if given, err := time.Parse(time.RFC3339, all.Get("created_before")); err != nil || given.After(until) {
		all.Set("created_before", api.Time(until))
	}
	if strings.HasSuffix(q.sort, "last_retry_at") && !all.Has("retried_after") {
		all.Set("retried_after", "1970-01-01T00:00:00Z") // the list omits messages that were never retried
	}
	all.Del("sort")
	return all
}

func (q listQuery) narrow() bool { return slices.ContainsFunc(narrowing, q.filter.Has) }

func (q listQuery) plain() bool { return len(q.filter) == 0 && q.since == "" && q.sort == "" }

// newestFirst reports whether a new message would be at the top of this page.
func (q listQuery) newestFirst() bool {
	return q.cursor == "" && (q.sort == "" || q.sort == "-created_at") && !q.filter.Has("created_before")
}

// own returns the parameters of the list's address without the cursor.
func (q listQuery) own() url.Values {
	own := link.Query("since", q.since, "sort", q.sort, "cols", q.cols)
	maps.Copy(own, q.filter)
	return own
}

// address returns the URL of the first page, with the query's parameters and changes to them: pairs of a name and a
// value, where an empty value removes the parameter.
func (q listQuery) address(changes ...string) string {
	own := q.own()
	for i := 0; i+1 < len(changes); i += 2 {
		own.Del(changes[i])
		if changes[i+1] != "" {
			own.Set(changes[i], changes[i+1])
		}
	}
	return link.WithQuery(q.path, own)
}

// without returns the address of the list's first page after one value of the named parameter was removed.
func (q listQuery) without(name, value string) string {
	own := q.own()
	own[name] = slices.DeleteFunc(slices.Clone(own[name]), func(v string) bool { return v == value })
	if len(own[name]) == 0 {
		own.Del(name)
	}
	return link.WithQuery(q.path, own)
}

func (q listQuery) older(cursor string) string {
	return q.address("cursor", cursor, "opened", api.Time(q.opened))
}

var bulkActions = []string{"retry", "requeue", "dead", "delete"}

// exportFormats are the actions that export the chosen messages.
var exportFormats = []string{"ndjson", "csv"}

// addressIDs is the largest number of ids that fit into an address that proxies accept.
const addressIDs = 100

// Chosen redirects to a new redrive or to the export of the chosen messages. The form names the ids of the chosen
// messages, or chooses all messages that match its filter. If the ids do not fit into an address, the form is stored as
// a draft.
func (l *List) Chosen(w http.ResponseWriter, r *http.Request) error {
	form := r.PostForm
	page, order, ids := link.NewRedrive, url.Values{}, "ids"
	switch action := form.Get("action"); {
	case slices.Contains(exportFormats, action):
		page, ids = link.Messages+"/export", "id"
		order.Set("format", action)
	case slices.Contains(bulkActions, action):
		order.Set("action", action)
	default:
		order.Set("action", bulkActions[0])
	}
	switch {
	case form.Get("what") == "all":
		for name, values := range readFilter(form) {
			order[name] = values
		}
	case len(form["ids"]) == 0:
		return view.RedirectDone(w, r, "nothing-chosen", link.Local(form.Get("back")))
	case len(form["ids"]) > addressIDs:
		return l.Renderer.ShowAgain(w, view.WithPage(r, link.WithQuery(page, order)), nil)
	default:
		order[ids] = form["ids"]
	}
	return view.Redirect(w, r, link.WithQuery(page, order))
}

// Export sends the messages that match, or the chosen messages, as a file.
func (l *List) Export(w http.ResponseWriter, r *http.Request) error {
	if request.FromOtherSite(r) { // another site must not use up the limited number of exports
		return &api.Error{Status: http.StatusForbidden, Message: "An export cannot be started by a page of another site."}
	}
	given := r.URL.Query()
	asked, wrong := readQuery(r, link.Messages, l.Now()).params()
	if wrong != nil {
		return &api.Error{Status: http.StatusBadRequest, Message: wrong.Message}
	}
	asked.Del("sort") // an export is always newest first
	if asked["id"] = given["id"]; given.Has("draft") {
		draft := view.DraftOf(r)
		if !draft.Sent() {
			return &api.Error{Status: http.StatusNotFound, Message: "The selection is not available any more: select the messages again."}
		}
		asked["id"] = draft.Form["ids"]
	}
	for _, name := range []string{"format", "source", "limit"} {
		if given.Get(name) != "" {
			asked.Set(name, given.Get(name))
		}
	}
	return l.API.Stream(w, r, api.Endpoint("export"), asked)
}
