// Package console is the web console: pages that are rendered on the server from
// the public API and nothing else, so that whatever can be done here can be done by
// a program, under the same rules. It knows the API as an http.Handler and its
// answers as JSON; no type of ours is behind it.
//
// Every page works as plain HTML. Scripts make it quicker: parts that are live
// fetch the page they stand on and take themselves out of it.
package console

import (
	"errors"
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
	pages    map[string]*pageTemplate
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

// WithAuthentication says that somebody has to say who they are: the API refuses who
// does not.
func WithAuthentication() Option { return func(c *Console) { c.needAuth = true } }

// New returns the console of an API. The API is called in the process, with the
// credentials of whoever looks at the page.
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

// Route is a page, or what one sends to: a method, a path whose variable segments
// are in braces, and what answers. Handlers read the segments by
// http.Request.PathValue.
type Route struct {
	Method  string
	Path    string
	Handler http.Handler
}

// handler answers a request for a page, or says why it cannot. Nothing has been
// written when it returns an error.
type handler func(w http.ResponseWriter, r *http.Request) error

const (
	// maxForm bounds what a form may send: an edited payload and a little more.
	maxForm = 4 << 20
	// maxDear is how many texts of megabytes are held against each other at once.
	// Whoever wants it too waits a moment.
	maxDear = 2
)

// page answers with a page for whoever is signed in.
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

// open answers whoever asks.
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

// readForm reads what a form sends before anything is done with it: what cannot be
// read must not pass for a form that was left empty.
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

// ofAnotherSite reports whether a page of somebody else had the browser ask. Old
// browsers, and those without TLS, do not tell.
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
