package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// adapt makes an http.Handler of a route: it waits for the start, bounds the request's time and writes the error.
func (s *Server) adapt(rt route) http.Handler {
	handle := s.limited(rt, s.guardedBy(rt))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r).route = rt.path
		if rt.kind != probe {
			r = s.traced(r)
		}
		if rt.kind != probe && s.phase.Load() == starting {
			s.fail(w, r, fmt.Errorf("the program is starting: %w", entity.ErrUnavailable))
			return
		}
		if err := wellFormedQuery(r); err != nil && rt.kind != probe {
			s.fail(w, r, err)
			return
		}
		if rt.needs.about != open {
			var err error
			if r, err = s.authenticated(r); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		ctx, cancel := s.scope(r, rt.kind)
		defer cancel()
		err := s.carryOut(rt, handle, w, r.WithContext(ctx))
		switch {
		case err == nil:
		case errors.Is(err, errClientGone), (rt.kind == read || rt.kind == stream) && r.Context().Err() != nil:
			s.clientGone(w, r, err)
		default:
			s.fail(w, r, err)
		}
	})
}

// scope returns the context of a request's work. A change continues when its client disconnects, so that a published
// record is always recorded.
func (s *Server) scope(r *http.Request, k kind) (context.Context, context.CancelFunc) {
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
	s.fail(w, r, refused(entity.ErrNotFound, "route not found"))
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allowed := strings.Join(s.allowedMethods(r), ", ")
	w.Header().Set("Allow", allowed)
	s.fail(w, r, refused(errMethod, "method not allowed: "+clip(r.Method)+"; allowed here: "+allowed))
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
