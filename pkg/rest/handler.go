package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// newRouter returns a router that matches the path as it was sent, without cleaning or redirects, because a topic in a
// path may be any text.
func (s *Server) newRouter(routes []route) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, rt := range routes {
		router.Handle(rt.path, s.adapt(rt)).Methods(methods(rt.method)...)
	}
	router.NotFoundHandler = s.authentication.known(s.routeNotFound)
	router.MethodNotAllowedHandler = s.authentication.known(s.methodNotAllowed)
	return router
}

// adapt makes an http.Handler of a route. It refuses requests until the program has started, except probes; it
// authenticates the request, limits its time, and answers errors.
func (s *Server) adapt(rt route) http.Handler {
	handle := readAgain(rt, s.limits.limited(rt, s.authentication.clientOf, s.guardedBy(rt)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r).route = rt.path
		setPathValues(r)
		if rt.kind != probe {
			r = s.tracer.traced(r)
		}
		if rt.kind != probe && s.phase.Load() == starting {
			s.report.fail(w, r, fmt.Errorf("the program is starting: %w", entity.ErrUnavailable))
			return
		}
		if err := request.WellFormedQuery(r); err != nil && rt.kind != probe {
			s.report.fail(w, r, err)
			return
		}
		if rt.permission.scope != open {
			var err error
			if r, err = s.authentication.authenticated(r); err != nil {
				s.report.fail(w, r, err)
				return
			}
		}
		ctx, cancel := s.workContext(r, rt.kind)
		defer cancel()
		ctx, err := s.withReplica(ctx, rt, r)
		if err == nil {
			err = carryOut(rt, handle, w, r.WithContext(ctx))
		}
		switch {
		case err == nil:
		case errors.Is(err, respond.ErrClientGone), (rt.kind == read || rt.kind == stream) && r.Context().Err() != nil:
			s.report.clientGone(w, r, err)
		default:
			s.report.fail(w, r, err)
		}
	})
}

// workContext returns the context of a request's work. A change continues when its client disconnects, so that a
// published record is always recorded.
func (s *Server) workContext(r *http.Request, k kind) (context.Context, context.CancelFunc) {
	switch k {
	case probe, read:
		return context.WithTimeout(r.Context(), s.cfg.RequestTimeout)
	case change:
		return context.WithTimeout(context.WithoutCancel(r.Context()), s.cfg.RequestTimeout)
	case stream:
		ctx, cancel := context.WithCancel(r.Context())
		stop := context.AfterFunc(s.work, cancel)
		return ctx, func() { stop(); cancel() }
	default:
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		stop := context.AfterFunc(s.work, cancel)
		return ctx, func() { stop(); cancel() }
	}
}

func (s *Server) routeNotFound(w http.ResponseWriter, r *http.Request) {
	if s.notFound != nil && wantsPage(r) {
		s.notFound.ServeHTTP(w, r)
		return
	}
	s.report.fail(w, r, respond.Refused(entity.ErrNotFound, "route not found"))
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allowed := strings.Join(s.allowedMethods(r), ", ")
	w.Header().Set("Allow", allowed)
	if s.notAllowed != nil && wantsPage(r) {
		s.notAllowed.ServeHTTP(w, r)
		return
	}
	s.report.fail(w, r, respond.Refused(respond.ErrMethod, "method not allowed: "+respond.Clip(r.Method)+"; allowed here: "+allowed))
}

// wantsPage reports whether a browser asks for a page, not for an answer of the API.
func wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, apiPrefix) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (s *Server) allowedMethods(r *http.Request) []string {
	var allowed []string
	for _, method := range knownMethods {
		other := r.Clone(r.Context())
		other.Method = method
		var match mux.RouteMatch
		if s.router.Match(other, &match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// guardedBy adds the permission checks of a route to its handler. An object that the caller may not see is reported as
// missing. When an answer is stored under the request's Idempotency-Key, it is sent without a look at the object, which
// may no longer exist.
func (s *Server) guardedBy(rt route) handler {
	if rt.feature != everyStore && s.stores.Database == nil {
		return func(_ http.ResponseWriter, r *http.Request) error {
			if err := access.Require(access.Principal(r).Anywhere(rt.permission.role), rt.permission.role, access.AnyTopic); err != nil {
				return err
			}
			return &repository.NeedsDatabaseError{Feature: string(rt.feature)}
		}
	}
	permitted := func(w http.ResponseWriter, r *http.Request) error {
		if err := s.policy.permit(rt.permission, r); err != nil {
			return err
		}
		return rt.handle(w, r)
	}
	if !rt.keyed() {
		return permitted
	}
	keyed := s.idempotency.keyed(permitted)
	return func(w http.ResponseWriter, r *http.Request) error {
		if !access.Principal(r).Anywhere(rt.permission.role) {
			return permitted(w, r) // refuses the request before a key is stored for it
		}
		return keyed(w, r)
	}
}

// setPathValues decodes the variable segments of the path, which handlers read by http.Request.PathValue.
func setPathValues(r *http.Request) {
	for name, value := range mux.Vars(r) {
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
		r.SetPathValue(name, value)
	}
}

// methods adds HEAD to GET; net/http omits the body of the answer.
func methods(method string) []string {
	if method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{method}
}

// knownMethods are the methods of all routes, in the order of an Allow header.
var knownMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Mount adds the handler h of a page at a path. The variable segments of the path are in braces; h reads them by
// http.Request.PathValue. The server counts and logs the requests of h, and refuses changes from other sites, as it
// does for the API; h itself authorizes them. All reads of the API that h makes with a request's context count as one
// answer, until h returns. Mount must not be called once the server serves.
func (s *Server) Mount(method, path string, h http.Handler) {
	s.router.Handle(path, s.mounted(path, h)).Methods(methods(method)...)
}

// MountMissing sets the pages that browsers get, instead of JSON, for a path without a route and for a method that a
// path does not have, except below /api/.
func (s *Server) MountMissing(notFound, notAllowed http.Handler) {
	s.notFound, s.notAllowed = s.mounted("", notFound), s.mounted("", notAllowed)
}

func (s *Server) mounted(path string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r).route = path
		if path != "" && !strings.HasPrefix(path, staticPath) {
			r = s.tracer.traced(r)
		}
		setPathValues(r)
		if r.Body != nil && r.Body != http.NoBody {
			control := http.NewResponseController(w)
			// SetReadDeadline fails only in tests, which have no connection.
			_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout))
			body := &promptBody{r.Body, control}
			defer body.arrived()
			r.Body = body
		}
		answer := &account{limits: s.limits}
		defer answer.close()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, answer)))
	})
}

// promptBody is the body of a request that must arrive before a deadline. It clears the deadline when it has been read
// to its end, because net/http could otherwise no longer notice that the client disconnects.
type promptBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *promptBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil {
		b.arrived()
	}
	return n, err
}

func (b *promptBody) arrived() { _ = b.control.SetReadDeadline(time.Time{}) }
