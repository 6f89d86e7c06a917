package console

import (
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/admin"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/groups"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/message"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/messages"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/overview"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/redrive"
)

// Route is a page or the target of a form. Variable segments of its path are in braces; handlers read them with
// PathValue.
type Route struct {
	Method  string
	Path    string
	Handler http.Handler
}

// Routes lists every page and every target of a form.
func (c *Console) Routes() []Route {
	s := c.server()
	client, renderer, now := c.api, c.renderer, c.now
	home, topics := &overview.Overview{API: client, Renderer: renderer, Now: now}, &overview.Topics{API: client, Renderer: renderer}
	topicPage := &overview.Topic{API: client, Renderer: renderer, Now: now}
	list := &messages.List{API: client, Renderer: renderer, Now: now}
	facets := &messages.Facets{API: client, Renderer: renderer, Now: now}
	errorGroups := &groups.Pages{API: client, Renderer: renderer, Now: now, VersionHeaders: c.cfg.VersionHeaders}
	redrives := &redrive.Pages{API: client, Renderer: renderer, Now: now}
	newRedrive := &redrive.Start{API: client, Renderer: renderer, Now: now}
	one := &message.Page{
		API: client, Renderer: renderer, Now: now, ApplicationFrames: c.cfg.ApplicationFrames, TraceURL: c.cfg.traceURL, NeedToken: c.needAuth,
	}
	schema := &message.Schema{API: client, Renderer: renderer}
	actions, edit := &message.Actions{Page: one}, message.NewEdit(client, renderer, now)
	audit, mapping := &admin.Audit{API: client, Renderer: renderer, Now: now}, &admin.Mapping{API: client, Renderer: renderer}
	redirects := &admin.Redirects{API: client, Renderer: renderer}
	quarantine := &admin.Quarantine{API: client, Renderer: renderer}

	return s.withPages([]Route{
		{http.MethodGet, link.SignIn, s.open(s.signIn.show)},
		{http.MethodPost, link.SignIn, s.open(s.signIn.takeToken)},
		{http.MethodGet, callbackPath, s.open(s.signIn.finish)},
		{http.MethodPost, link.SignOut, s.open(s.signIn.signOut)},

		{http.MethodGet, "/", s.page(home.Show)},
		{http.MethodGet, "/messages", s.page(list.Show(link.Messages))},
		// /messages/chosen comes before /messages/{id}, because the router takes the first route that matches.
		{http.MethodPost, "/messages/chosen", s.page(list.Chosen)},
		{http.MethodGet, "/messages/export", s.page(list.Export)},
		{http.MethodGet, link.Facets, s.page(facets.Show)},
		{http.MethodPost, "/messages/columns", s.page(messages.ChooseColumns)},
		{http.MethodPost, "/messages/views", s.page(list.SaveView)},
		{http.MethodPost, "/messages/views/delete", s.page(list.DeleteView)},
		{http.MethodGet, "/archive", s.page(list.Show(link.Archive))},
		{http.MethodGet, "/topics", s.page(topics.Show)},
		{http.MethodGet, "/topics/mapping", s.page(mapping.Show)},
		{http.MethodPost, "/topics/mapping", s.page(mapping.Replace)},
		{http.MethodGet, link.Redirects, s.page(redirects.Show)},
		{http.MethodPost, link.Redirects, s.page(redirects.Save)},
		{http.MethodPost, link.Redirects + "/remove", s.page(redirects.Remove)},
		{http.MethodGet, "/quarantine", s.page(quarantine.Show)},
		{http.MethodPost, "/quarantine/{id}/retry", s.page(quarantine.Act(http.MethodPost, "trying", "retry"))},
		{http.MethodPost, "/quarantine/{id}/delete", s.page(quarantine.Act(http.MethodDelete, "record-deleted"))},
		{http.MethodGet, "/audit", s.page(audit.Show)},
		{http.MethodGet, "/groups", s.page(errorGroups.List)},
		{http.MethodGet, "/groups/{id}", s.page(errorGroups.Show)},
		{http.MethodGet, "/groups/{id}/compare", s.page(groups.NewCompare(client, renderer).Show)},
		{http.MethodPost, "/groups/{id}/note", s.page(errorGroups.Annotate)},
		{http.MethodGet, "/redrives", s.page(redrives.List)},
		{http.MethodGet, "/redrives/new", s.page(newRedrive.Show)},
		{http.MethodPost, "/redrives/new", s.page(newRedrive.Start)},
		{http.MethodGet, "/redrives/{id}", s.page(redrives.Show)},
		{http.MethodPost, "/redrives/{id}/pause", s.page(redrives.Move("pause"))},
		{http.MethodPost, "/redrives/{id}/resume", s.page(redrives.Move("resume"))},
		{http.MethodPost, "/redrives/{id}/continue", s.page(redrives.Move("continue"))},
		{http.MethodPost, "/redrives/{id}/cancel", s.page(redrives.Move("cancel"))},
		{http.MethodPost, "/redrives/{id}/undo", s.page(redrives.Undo)},

		// matches /topics/ followed by any name that the routes above do not have
		{http.MethodGet, "/topics/{topic}", s.page(topicPage.Show)},
		{http.MethodGet, "/messages/{id}", s.page(one.Show(false))},
		{http.MethodGet, "/messages/{id}/payload", s.page(one.Download(false))},
		{http.MethodGet, "/messages/{id}/schema", s.page(schema.Show(false))},
		{http.MethodGet, "/messages/{id}/edit", s.page(edit.Show)},
		{http.MethodPost, "/messages/{id}/edit", s.page(edit.Send)},
		{http.MethodPost, "/messages/{id}/retry", s.page(actions.Act("retry", "retried"))},
		{http.MethodPost, "/messages/{id}/requeue", s.page(actions.Act("requeue", "requeued"))},
		{http.MethodPost, "/messages/{id}/dead", s.page(actions.Act("dead", "dead"))},
		{http.MethodPost, "/messages/{id}/delete", s.page(actions.Delete)},
		{http.MethodPost, "/messages/{id}/origin", s.page(actions.Act("origin", "origin"))},
		{http.MethodGet, "/archive/{id}", s.page(one.Show(true))},
		{http.MethodGet, "/archive/{id}/payload", s.page(one.Download(true))},
		{http.MethodGet, "/archive/{id}/schema", s.page(schema.Show(true))},
		{http.MethodPost, "/archive/{id}/restore", s.page(actions.Act("restore", "restored"))},

		{http.MethodPost, "/theme", s.open(setTheme)},
		{http.MethodGet, "/static/{version}/{file}", http.HandlerFunc(c.assets.Serve)},
	})
}

// Missing answers requests for an address that no route has, or that no route has for the request's method.
func (c *Console) Missing(status int) http.Handler {
	return c.server().page(func(http.ResponseWriter, *http.Request) error {
		return &api.Error{Status: status, Message: "There is no page at this address."}
	})
}

// withPages tells each form the address of the page that shows it. That is the form's own address if it has a GET
// route, otherwise the next shorter path that has one. In the second case a GET of the form's address redirects to the
// page.
func (s *server) withPages(routes []Route) []Route {
	pages := map[string]bool{}
	for _, route := range routes {
		pages[route.Path] = pages[route.Path] || route.Method == http.MethodGet
	}
	var all []Route
	for _, route := range routes {
		if route.Method != http.MethodPost {
			all = append(all, route)
			continue
		}
		page, form := route.Path, route.Handler
		for !pages[page] {
			page = path.Dir(page)
		}
		route.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			form.ServeHTTP(w, view.WithPage(r, filled(page, r)))
		})
		if all = append(all, route); page != route.Path {
			all = append(all, Route{http.MethodGet, route.Path, s.open(func(w http.ResponseWriter, r *http.Request) error {
				return view.Redirect(w, r, filled(page, r))
			})})
		}
	}
	return all
}

var segment = regexp.MustCompile(`\{[a-z]+\}`)

// filled returns the path of a route, in which segments of the request replace the variables.
func filled(pattern string, r *http.Request) string {
	return segment.ReplaceAllStringFunc(pattern, func(name string) string {
		return url.PathEscape(r.PathValue(strings.Trim(name, "{}")))
	})
}
