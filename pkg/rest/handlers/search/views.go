package search

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Limits of views. A principal owns at most maxViews of them, including those that the principal shares.
const (
	maxViews     = 100
	maxViewName  = 60
	maxViewQuery = 4000
)

var viewLists = []string{"messages", "archive"}

// Views saves filters of lists.
type Views struct {
	Database ViewDatabase
	Masking  wire.Masking
	Bodies   request.Bodies
}

// ViewDatabase stores the saved views.
type ViewDatabase interface {
	Views(ctx context.Context, owner string) ([]entity.View, error)
	SaveView(ctx context.Context, v entity.View, cause entity.AuditInfo) (entity.View, error)
	DeleteView(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// List sends the principal's own views and all shared views. It leaves out shared views of other principals that
// contain a masked value, because a value may become masked after its view was shared.
func (h Views) List(w http.ResponseWriter, r *http.Request) error {
	views, err := h.Database.Views(r.Context(), access.Principal(r).Name)
	if err != nil {
		return err
	}
	views = slices.DeleteFunc(views, func(v entity.View) bool {
		return v.Owner != access.Principal(r).Name && request.ShowsMasked(v.Query, h.Masking)
	})
	respond.JSON(w, http.StatusOK, wire.Views{Views: wire.Each(views, wire.NewSavedView)})
	return nil
}

// Put saves a view. It changes nothing when the view already has that list and query.
func (h Views) Put(w http.ResponseWriter, r *http.Request) error {
	var list, query request.Option[string]
	var shared bool
	var version request.Option[int64]
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{"list": &list, "query": &query, "shared": &shared, "version": &version})
	if err != nil {
		return err
	}
	if !list.Given {
		list.Value = viewLists[0]
	}
	v := entity.View{Name: r.PathValue("name"), Owner: cause.Actor, Shared: shared, List: list.Value, Query: query.Value}
	if err := h.check(v); err != nil {
		return err
	}
	old, views, err := h.find(r, v.Name, v.Shared)
	if err != nil {
		return err
	}
	switch {
	case version.Given && version.Value != old.Version:
		return &entity.ViewConflictError{Name: v.Name}
	case old.Version > 0 && old.List == v.List && old.Query == v.Query:
		respond.JSON(w, http.StatusOK, wire.NewSavedView(old))
		return nil
	case old.Version > 0:
		v.ID, v.Version = old.ID, old.Version
	case countOwned(views, cause.Actor) >= maxViews:
		return respond.Refused(entity.ErrConflict, "there are too many views: delete one first",
			respond.Detail{Field: "name", Reason: "a principal has at most 100 views"})
	default:
		v.ID = entity.NewID()
	}
	saved, err := h.Database.SaveView(r.Context(), v, cause)
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.NewSavedView(saved))
	return nil
}

// Delete deletes a view.
func (h Views) Delete(w http.ResponseWriter, r *http.Request) error {
	shared, err := request.Bool(r.URL.Query(), "shared")
	if err != nil {
		return err
	}
	cause, err := request.QueryCause(r)
	if err != nil {
		return err
	}
	v, _, err := h.find(r, r.PathValue("name"), shared)
	if err != nil {
		return err
	}
	if v.Version == 0 {
		return &entity.ViewNotFoundError{Name: respond.Clip(r.PathValue("name"))}
	}
	if err := h.Database.DeleteView(r.Context(), v.ID, cause); err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.Deleted{Success: true, Message: "view " + v.Name + " deleted"})
	return nil
}

// find returns the principal's own view of that name or, with shared, the shared view of that name; the zero View when
// there is none. It also returns all views that the principal sees. It refuses a shared view of another owner, unless
// the principal is admin on all topics.
func (h Views) find(r *http.Request, name string, shared bool) (entity.View, []entity.View, error) {
	p := access.Principal(r)
	views, err := h.Database.Views(r.Context(), p.Name)
	if err != nil {
		return entity.View{}, nil, err
	}
	i := slices.IndexFunc(views, func(v entity.View) bool { return v.Name == name && v.Shared == shared })
	if i < 0 {
		return entity.View{}, views, nil
	}
	if views[i].Owner != p.Name && !p.Everywhere(auth.Admin) {
		return entity.View{}, nil, access.Forbidden(auth.Admin, "all topics, because the view belongs to "+respond.Clip(views[i].Owner))
	}
	return views[i], views, nil
}

func countOwned(views []entity.View, owner string) (n int) {
	for _, v := range views {
		if v.Owner == owner {
			n++
		}
	}
	return n
}

// age matches the console's parameter since, a duration before the time at which the console opens the view.
var age = regexp.MustCompile(`^[1-9][0-9]{0,3}[mhd]$`)

// check refuses a view whose name, list or query is invalid. A shared view must not contain a masked value, because
// other principals would see the value.
func (h Views) check(v entity.View) error {
	var p request.Problems
	p.Refuse(v.Name == "" || !request.PossibleText(v.Name, maxViewName) || strings.ContainsFunc(v.Name, unicode.IsControl), "name",
		"must have 1 to %d characters, and no control characters", maxViewName)
	p.Refuse(!slices.Contains(viewLists, v.List), "list", "%s", request.OneOf(viewLists))
	query, err := url.ParseQuery(v.Query)
	if p.Refuse(err != nil || len(query) == 0 || len(v.Query) > maxViewQuery || strings.Contains(v.Query, " "), "query",
		"must be name=value pairs joined by &, percent-encoded, of at most %d bytes", maxViewQuery) {
		return p.Err()
	}
	known := append(request.FilterParameters(), "sort", "since")
	for name := range query {
		p.Refuse(!slices.Contains(known, name), "query", "has an unknown parameter: %s", respond.Clip(name))
	}
	_, err = request.Word(query, "sort", sortNames)
	p.Add(err)
	p.Refuse(query.Has("since") && !age.MatchString(query.Get("since")), "since", "must be a number and m, h or d, such as 15m")
	request.ReadFilter(query, &p)
	p.Refuse(len(p) == 0 && v.Shared && request.ShowsMasked(v.Query, h.Masking), "query",
		"has a masked value, which a shared view must not show")
	return p.Err()
}
