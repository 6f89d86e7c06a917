package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

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

// columnsOf reads names, without unknown ones, in our order.
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

// columnsFor are the columns of the address, else of the browser, else the usual ones.
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

func (c *Console) chooseColumns(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	var names []string
	if !r.PostForm.Has("usual") {
		for _, chosen := range columnsOf(strings.Join(r.PostForm["column"], ",")) {
			names = append(names, chosen.Name)
		}
	}
	keepChoice(w, r, columnsCookie, strings.Join(names, "."))
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
