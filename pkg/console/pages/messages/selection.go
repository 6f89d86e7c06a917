package messages

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

var bulkActions = []string{"retry", "requeue", "dead", "delete"}

// Chosen redirects to a new redrive of the chosen messages: by ids, or all that match the form's filter.
func Chosen(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	order := url.Values{"action": {given.Get("action")}}
	if !slices.Contains(bulkActions, given.Get("action")) {
		order.Set("action", bulkActions[0])
	}
	if given.Get("what") == "all" {
		for name, values := range readFilter(given) {
			order[name] = values
		}
		return view.Redirect(w, r, link.WithQuery(link.NewRedrive, order))
	}
	if len(given["ids"]) == 0 {
		return view.RedirectDone(w, r, "nothing-chosen", link.Local(given.Get("back")))
	}
	order["ids"] = given["ids"]
	return view.Redirect(w, r, link.WithQuery(link.NewRedrive, order))
}

// Export sends the messages that match as a file.
func (l *List) Export(w http.ResponseWriter, r *http.Request) error {
	if request.FromOtherSite(r) { // exports are limited to a few at a time
		return &api.Error{Status: http.StatusForbidden, Message: "An export cannot be started by a page of another site."}
	}
	given := r.URL.Query()
	asked, wrong := readQuery(r, link.Messages, l.Now()).params()
	if wrong != nil {
		return &api.Error{Status: http.StatusBadRequest, Message: wrong.Message}
	}
	asked.Del("sort") // an export is always newest first
	for _, name := range []string{"format", "source", "limit"} {
		if given.Get(name) != "" {
			asked.Set(name, given.Get(name))
		}
	}
	return l.API.Stream(w, r, api.Endpoint("export"), asked)
}
