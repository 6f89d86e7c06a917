package messages

import (
	"net/http"
	"net/url"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// savedView is a view that a principal saved.
type savedView struct {
	Name   string `json:"name"`
	Owner  string `json:"owner"`
	Shared bool   `json:"shared"`
	List   string `json:"list"`
	Query  string `json:"query"`

	Href    string
	Current bool
	Mine    bool // the viewer may delete the view
}

type savedViews struct {
	Views []savedView `json:"views"` // views of this list

	List, Query string // list and query of the view to save; Query is "" for a list without conditions
	Self        string // address of the list
}

// saved returns the saved views of the list at q.path; nil when they cannot be read, because the list can be shown
// without them.
func (l *List) saved(r *http.Request, q listQuery) *savedViews {
	var all savedViews
	if err := l.API.Get(r, api.Endpoint("views"), nil, &all); err != nil {
		return nil
	}
	own := q.own()
	own.Del("cols")
	shown := &savedViews{List: q.path[1:], Query: own.Encode(), Self: link.WithQuery(q.path, own)}
	viewer := session.ViewerOf(r)
	for _, v := range all.Views {
		query, err := url.ParseQuery(v.Query)
		if err != nil || v.List != shown.List {
			continue
		}
		v.Href = link.WithQuery(q.path, query)
		v.Current = v.Href == shown.Self
		v.Mine = viewer != nil && v.Owner == viewer.Name || viewer.Everywhere("admin")
		shown.Views = append(shown.Views, v)
	}
	return shown
}

// SaveView saves the filter of a list under a name.
func (l *List) SaveView(w http.ResponseWriter, r *http.Request) error {
	list, query := r.PostFormValue("list"), r.PostFormValue("query")
	body := map[string]any{"list": list, "query": query, "shared": r.PostFormValue("shared") != ""}
	if err := l.API.Send(r, http.MethodPut, api.Endpoint("views", request.Text(r, "name")), body, nil); err != nil {
		return err
	}
	return view.RedirectDone(w, r, "view-saved", link.Local("/"+list+"?"+query))
}

// DeleteView deletes the view with the name in the form.
func (l *List) DeleteView(w http.ResponseWriter, r *http.Request) error {
	path := link.To(api.Endpoint("views", r.PostFormValue("name")), "shared", r.PostFormValue("shared"))
	if err := l.API.Send(r, http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	return view.RedirectDone(w, r, "view-deleted", link.Local(r.PostFormValue("return")))
}
