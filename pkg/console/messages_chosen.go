package console

import (
	"net/http"
	"net/url"
	"slices"
)

var bulkActions = []string{"retry", "requeue", "dead", "delete"}

// chosenMessages redirects to a new redrive of the chosen messages: by ids, or all that match the form's filter.
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
		return seeDone(w, r, "nothing-chosen", ownPath(given.Get("back")))
	}
	order["ids"] = given["ids"]
	return seeOther(w, r, withQuery("/redrives/new", order))
}

func (c *Console) exportMessages(w http.ResponseWriter, r *http.Request) error {
	if ofAnotherSite(r) { // exports are limited to a few at a time
		return &apiError{Status: http.StatusForbidden, Message: "An export cannot be started by a page of another site."}
	}
	given := r.URL.Query()
	asked, wrong := questionOf(r, messagesPath, c.now()).api()
	if wrong != nil {
		return &apiError{Status: http.StatusBadRequest, Message: wrong.Message}
	}
	asked.Del("sort") // an export is always newest first
	for _, name := range []string{"format", "source", "limit"} {
		if given.Get(name) != "" {
			asked.Set(name, given.Get(name))
		}
	}
	return c.api.stream(w, r, endpoint("export"), asked)
}
