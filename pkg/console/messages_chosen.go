package console

import (
	"net/http"
	"net/url"
	"slices"
)

var bulkActions = []string{"retry", "requeue", "dead", "delete"}

// chosenMessages leads from a list to the order about what was chosen there: the
// messages by their ids, or all that match the filter that the form was made with.
func (c *Console) chosenMessages(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	order := url.Values{"action": {given.Get("action")}}
	if !slices.Contains(bulkActions, given.Get("action")) {
		order.Set("action", bulkActions[0])
	}
	if given.Get("what") == "all" {
		for name, values := range messageFilter(given) {
			order[name] = values
		}
		return seeOther(w, r, withQuery("/redrives/new", order))
	}
	if len(given["ids"]) == 0 {
		return seeOther(w, r, withDone(ownPath(given.Get("back")), "nothing-chosen"))
	}
	order["ids"] = given["ids"]
	return seeOther(w, r, withQuery("/redrives/new", order))
}

// withDone adds the sentence of what was done to an address of this site.
func withDone(address, what string) string {
	u, err := url.Parse(address)
	if err != nil {
		return messagesPath
	}
	query := u.Query()
	query.Set("done", what)
	return withQuery(u.EscapedPath(), query)
}

// exportMessages passes on everything that matches, as a file.
func (c *Console) exportMessages(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	asked, wrong := questionOf(r, messagesPath, c.now()).api()
	if wrong != nil {
		return &apiError{Status: http.StatusBadRequest, Message: wrong.Message}
	}
	asked.Del("sort") // newest first, always
	for _, name := range []string{"format", "source", "limit"} {
		if given.Get(name) != "" {
			asked.Set(name, given.Get(name))
		}
	}
	return c.api.stream(w, r, endpoint("export"), asked)
}
