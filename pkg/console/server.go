package console

import (
	"errors"
	"mime"
	"net/http"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// server prepares requests for the pages, and answers with the errors that pages return.
type server struct {
	api      api.Client
	renderer *view.Renderer
	logger   *zap.Logger
	sessions Sessions
	signIn   *signInPages
}

func (c *Console) server() *server {
	signIn := &signInPages{
		api: c.api, renderer: c.renderer, logger: c.logger, now: c.now,
		issuer: c.issuer, sessions: c.sessions, signIns: c.signIns, needAuth: c.needAuth,
	}
	return &server{c.api, c.renderer, c.logger, c.sessions, signIn}
}

// maxForm is the maximum size in bytes of a form; a larger form is refused. An edited payload of 1 MiB fits even when
// it is encoded.
const maxForm = 4 << 20

// page serves a handler with the viewer, whom the API identifies by the session or the Authorization header.
func (s *server) page(h view.Handler) http.Handler {
	return s.open(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.checkEnded(r); err != nil {
			return err
		}
		var viewer session.Viewer
		if err := s.api.Get(r, api.Endpoint("session"), nil, &viewer); err != nil {
			return err
		}
		r = session.WithViewer(r, &viewer)
		shown, err := s.renderer.WithDraft(r)
		if err == nil {
			r = shown
			err = h(w, r)
		}
		if err != nil && r.Context().Err() == nil {
			s.fail(w, r, err) // a viewer is known now, so the error page has the navigation
		}
		return nil
	})
}

// open serves a handler that needs no session.
func (s *server) open(h view.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = api.WithMarks(w, r.Clone(r.Context()))
		r.Header.Set("X-Request-Id", w.Header().Get("X-Request-Id")) // requests to the API get the request id of the page
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		secure(w.Header())
		err := readForm(r)
		if err == nil {
			err = h(w, r)
		}
		if err == nil || errors.Is(err, r.Context().Err()) && r.Context().Err() != nil {
			return
		}
		s.fail(w, r, err)
	})
}

// checkEnded refuses a request of a session that was ended on any replica, and of every session while this cannot be
// checked. A request with an Authorization header has no session, and is not refused.
func (s *server) checkEnded(r *http.Request) error {
	current := session.Of(r)
	if s.sessions == nil || current.Token == "" || len(r.Header.Values("Authorization")) > 0 {
		return nil
	}
	ended, err := s.sessions.Ended(r.Context(), current.ID)
	switch {
	case err != nil:
		s.logger.Warn("cannot check whether a session was ended",
			zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		return &api.Error{Status: http.StatusServiceUnavailable, Message: "Your session cannot be checked at the moment."}
	case ended:
		return &api.Error{Status: http.StatusUnauthorized, Message: "You have signed out."}
	}
	return nil
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, shown := view.Describe(err)
	if tokenRefused(err) {
		if session.Of(r).Token != "" && len(r.Header.Values("Authorization")) == 0 {
			session.Drop(w) // the API would refuse this token again, and count a failed sign-in each time
		}
		s.signIn.ask(w, r)
		return
	}
	if status == http.StatusInternalServerError {
		s.logger.Error("cannot render a page", zap.String("path", r.URL.Path),
			zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
	}
	var refused *api.Error
	if errors.As(err, &refused) && refused.RetryAfter != "" {
		w.Header().Set("Retry-After", refused.RetryAfter)
	}
	if shown.RequestID == "" {
		shown.RequestID = r.Header.Get("X-Request-Id")
	}
	if session.ViewerOf(r) != nil && view.IsForm(r) {
		err := s.renderer.ShowAgain(w, r, &shown)
		if err == nil {
			return
		}
		s.logger.Warn("cannot show a form again", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
	}
	if err := s.renderer.Render(w, r, status, "error", view.Page{Title: shown.Title, Data: shown}); err != nil {
		s.logger.Error("cannot render the error page", zap.Error(err))
		http.Error(w, shown.Message, status)
	}
}

// tokenRefused reports whether the API refuses the token, or refuses all tokens after too many invalid tokens.
func tokenRefused(err error) bool {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return false
	}
	return refused.Status == http.StatusUnauthorized || tooManyTokens(refused)
}

// readForm parses a form before any work is done, because an unreadable form must not be treated like an empty form.
func readForm(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && kind != "application/x-www-form-urlencoded" {
		return &api.Error{Status: http.StatusBadRequest, Message: "The request does not come from a form of this console. Nothing was done."}
	}
	var tooLarge *http.MaxBytesError
	switch err := r.ParseForm(); {
	case err == nil, errors.As(err, &tooLarge):
		return err
	default:
		return &api.Error{Status: http.StatusBadRequest, Message: "The form cannot be read. Nothing was done."}
	}
}

// secure sets headers that make the browser treat data on a page only as text, and keep the page out of caches and
// frames.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// setTheme stores the chosen colours in the browser.
func setTheme(w http.ResponseWriter, r *http.Request) error {
	theme := r.PostFormValue("theme")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	session.Remember(w, r, view.ThemeCookie, theme)
	return view.Redirect(w, r, link.Local(r.PostFormValue("return")))
}
