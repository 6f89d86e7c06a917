package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// column is one of those that a list of messages may have.
type column struct {
	Name, Label string
	Number      bool // is read from its right end
}

// The id is always there: a row is opened by it.
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

// columnsOf reads names. Those that nobody knows are left out; the order is ours.
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

// columnsFor are those that the address names, else those that the browser keeps,
// else the usual ones.
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

// keepColumns keeps a choice in the browser, where none is the usual one.
func keepColumns(w http.ResponseWriter, r *http.Request, names []string) {
	cookie := &http.Cookie{
		Name: columnsCookie, Path: "/", MaxAge: -1,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	}
	var known []string
	for _, c := range columnsOf(strings.Join(names, ",")) {
		known = append(known, c.Name)
	}
	if len(known) > 0 {
		cookie.Value, cookie.MaxAge = strings.Join(known, "."), 365*24*60*60
	}
	http.SetCookie(w, cookie)
}

// columnChoice is a column, and whether it is shown.
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

// chooseColumns keeps the columns of a form and goes back to the list.
func (c *Console) chooseColumns(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	names := r.PostForm["column"]
	if r.PostForm.Has("usual") {
		names = nil
	}
	keepColumns(w, r, names)
	return seeOther(w, r, withoutColumns(ownPath(r.PostFormValue("return"))))
}

// withoutColumns takes out of an address what would win over the choice.
func withoutColumns(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return messagesPath
	}
	query := u.Query()
	query.Del("cols")
	return withQuery(u.EscapedPath(), query)
}
