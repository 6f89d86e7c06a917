// Package console is the web console: pages rendered on the server from the public API alone, so that a program can
// do whatever a page can, under the same rules. It knows the API as an http.Handler and its answers as JSON, and no
// type of ours.
//
// Every page works as plain HTML. Scripts make it quicker: live parts fetch their own page and take themselves out of
// it.
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
	signIn   SignIn        // nil: tokens are pasted
	sessions Sessions      // nil: no server remembers who signed out
	signIns  SignIns       // nil: unlimited
	needAuth bool          // somebody has to say who they are
	dear     chan struct{} // holds a value for each of what takes much memory now
}

// Option changes what a console shows.
type Option func(*Console)

// WithClock gives the clock that ages are told by.
func WithClock(now func() time.Time) Option { return func(c *Console) { c.now = now } }

// WithAuthentication says that people have to sign in: the API refuses requests without credentials.
func WithAuthentication() Option { return func(c *Console) { c.needAuth = true } }

// New returns the console of an API, which is called in the process with the credentials of each request.
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

// Route is a page or the target of a form. Variable segments of its path are in braces; handlers read them by
// PathValue.
type Route struct {
	Method  string
	Path    string
	Handler http.Handler
}

// handler answers a request for a page. When it returns an error, nothing has been written.
type handler func(w http.ResponseWriter, r *http.Request) error

const (
	// maxForm bounds what a form may send: an edited payload and a little more.
	maxForm = 4 << 20
	// maxDear is how many comparisons of texts of megabytes run at once; others wait.
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
			c.fail(w, seen, err) // with the way to the other pages
		}
		return nil
	})
}

// open answers without a session.
func (c *Console) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("X-Request-Id", w.Header().Get("X-Request-Id")) // calls of the API carry it on
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

// readForm reads a form before anything is done: one that cannot be read must not pass for an empty one.
func readForm(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && kind != "application/x-www-form-urlencoded" {
		return &apiError{Status: http.StatusBadRequest, Message: "This is not what a form of these pages sends. Nothing was done."}
	}
	var tooLarge *http.MaxBytesError
	switch err := r.ParseForm(); {
	case err == nil, errors.As(err, &tooLarge):
		return err
	default:
		return &apiError{Status: http.StatusBadRequest, Message: "The form cannot be read. Nothing was done."}
	}
}

// alone does what takes much memory, when few others do.
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

// ofAnotherSite reports whether another site made the browser ask. Old browsers and those without TLS do not say.
func ofAnotherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	default:
		return true
	}
}

// secure keeps whatever a page shows from becoming anything but text.
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
