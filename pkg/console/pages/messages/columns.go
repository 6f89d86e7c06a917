package messages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// table contains the data for the template messages-table.
type table struct {
	Caption  string
	Path     string // path of the message pages, live or archived
	Columns  []column
	Rows     []api.Message
	Select   bool   // rows have a checkbox
	Form     string // id of the form that sends the selected rows
	ClipAt   int    // characters of a cause that are shown; the middle of a longer cause is left out
	HideHead bool   // shows the caption only to screen readers
	Uniform  bool   // all rows have the same status
	Find     *highlighter
}

type column struct {
	Name, Label string
	Number      bool // aligned to the right
}

// The column of the id is always shown, because the link in it opens the message.
var columns = []column{
	{"status", "Status", false},
	{"class", "Class", false},
	{"error", "Error", false},
	{"topic", "Topic", false},
	{"key", "Key", false},
	{"retries", "Attempts", true},
	{"received", "Received", false},
	{"size", "Size", true},
	{"group", "Group", false},
	{"position", "Dead-letter position", false},
	{"consumer", "Consumer group", false},
	{"dialect", "Dialect", false},
	{"outcome", "Outcome", false},
}

const (
	usualColumns  = "status,class,error,topic,key,retries,received"
	columnsCookie = "dlq-columns"
)

// columnsOf parses names, ignores unknown names, and returns the columns in the order of the table.
func columnsOf(names string) []column {
	wanted := strings.Split(names, ",")
	var chosen []column
	for _, c := range columns {
		if slices.Contains(wanted, c.Name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// columnsFor returns the columns that the address names, else the columns in the browser's cookie, else the default
// columns.
func columnsFor(r *http.Request, named string) []column {
	if chosen := columnsOf(named); len(chosen) > 0 {
		return chosen
	}
	if cookie, err := r.Cookie(columnsCookie); err == nil {
		if chosen := columnsOf(strings.ReplaceAll(cookie.Value, ".", ",")); len(chosen) > 0 {
			return chosen
		}
	}
	return columnsOf(usualColumns)
}

type columnChoice struct {
	column
	Shown bool
}

func columnChoices(shown []column) []columnChoice {
	choices := make([]columnChoice, len(columns))
	for i, c := range columns {
		choices[i] = columnChoice{c, slices.Contains(shown, c)}
	}
	return choices
}

// ChooseColumns stores in the browser the columns that the form names.
func ChooseColumns(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	var names []string
	if !r.PostForm.Has("usual") {
		for _, chosen := range columnsOf(strings.Join(r.PostForm["column"], ",")) {
			names = append(names, chosen.Name)
		}
	}
	session.Remember(w, r, columnsCookie, strings.Join(names, "."))
	return view.Redirect(w, r, withoutColumns(link.Local(r.PostFormValue("return"))))
}

// withoutColumns removes from an address the parameter that would override the stored columns.
func withoutColumns(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return link.Messages
	}
	query := u.Query()
	query.Del("cols")
	return link.WithQuery(u.EscapedPath(), query)
}
