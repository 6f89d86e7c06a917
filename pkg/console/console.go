// Package console is the web console. Its pages are rendered on the server from the public API alone, so a program
// can do all that a page can do, under the same rules. It uses the API as an http.Handler, reads the answers as JSON,
// and imports no other package of the project.
//
// Every page works as plain HTML. Scripts make it faster: live parts request their own page and take their new
// content from it.
package console

import (
	"errors"
	"html/template"
	"mime"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Console renders the pages. It is safe for concurrent use.
type Console struct {
	cfg      Config
	api      client
	assets   *assets
	pages    map[string]*template.Template
	logger   *zap.Logger
	now      func() time.Time
	signIn   SignIn        // nil: only tokens can be used to sign in
	sessions Sessions      // nil: signing out is not remembered on the server
	signIns  SignIns       // nil: unlimited
	needAuth bool          // people must sign in
	dear     chan struct{} // semaphore of the jobs that need much memory
}

// Option configures a console.
type Option func(*Console)

// WithClock sets the clock that ages are computed with.
func WithClock(now func() time.Time) Option { return func(c *Console) { c.now = now } }

// WithAuthentication makes people sign in, because the API refuses requests without credentials.
func WithAuthentication() Option { return func(c *Console) { c.needAuth = true } }

// New returns the console of an API. It calls the API in the process, with the credentials of each request.
func New(cfg Config, api http.Handler, logger *zap.Logger, options ...Option) (*Console, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, api: client{api}, logger: logger, now: time.Now, dear: make(chan struct{}, maxDear)}
	for _, option := range options {
		option(c)
	}
	var err error
	if c.assets, err = embedded(); err != nil {
		return nil, err
	}
	if c.pages, err = c.parseTemplates(); err != nil {
		return nil, err
	}
	return c, nil
}

// Route is a page or the target of a form. Variable segments of its path are in braces; handlers read them with
// PathValue.
type Route struct {
	Method  string
	Path    string
	Handler http.Handler
}

// handler answers a request for a page. When it returns an error, it has written nothing.
type handler func(w http.ResponseWriter, r *http.Request) error

const (
	// maxForm limits the bytes of a form: an edited payload of 1 MiB and its encoding.
	maxForm = 4 << 20
	// maxDear limits how many comparisons of large texts run at once; the others wait.
	maxDear = 2
)

func (c *Console) page(h handler) http.Handler {
	return c.open(func(w http.ResponseWriter, r *http.Request) error {
		if err := c.withoutEnded(r); err != nil {
			return err
		}
		seen, err := c.withViewer(r)
		if err != nil {
			return err
		}
		if err := h(w, seen); err != nil && r.Context().Err() == nil {
			c.fail(w, seen, err) // render the error with the navigation
		}
		return nil
	})
}

// open serves a handler that needs no session.
func (c *Console) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("X-Request-Id", w.Header().Get("X-Request-Id")) // calls of the API carry the same id
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		secure(w.Header())
		err := readForm(r)
		if err == nil {
			err = h(w, r)
		}
		if err == nil || errors.Is(err, r.Context().Err()) && r.Context().Err() != nil {
			return
		}
		c.fail(w, r, err)
	})
}

// readForm parses a form before any work is done: an unreadable form must not be taken for an empty one.
func readForm(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && kind != "application/x-www-form-urlencoded" {
		return &apiError{Status: http.StatusBadRequest, Message: "The request does not come from a form of this console. Nothing was done."}
	}
	var tooLarge *http.MaxBytesError
	switch err := r.ParseForm(); {
	case err == nil, errors.As(err, &tooLarge):
		return err
	default:
		return &apiError{Status: http.StatusBadRequest, Message: "The form cannot be read. Nothing was done."}
	}
}

// alone runs do, which needs much memory, and limits how many such jobs run at once.
func (c *Console) alone(r *http.Request, do func()) error {
	select {
	case c.dear <- struct{}{}:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	defer func() { <-c.dear }()
	do()
	return nil
}

// ofAnotherSite reports whether another site caused the request. Old browsers, and pages without TLS, do not say.
func ofAnotherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	default:
		return true
	}
}

// secure sets headers that keep the browser from treating anything shown as more than text.
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
