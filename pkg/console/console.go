// Package console is the web console. Its pages are rendered on the server from the public API alone, so a program
// can do all that a page can do, under the same rules. It uses the API as an http.Handler, reads the answers as JSON,
// and imports no package of the project outside its folder.
//
// Every page works as plain HTML. Scripts make pages faster: to update a part of a page, a script requests the page
// again and takes only that part from the answer.
package console

import (
	"embed"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

//go:embed templates
var templates embed.FS

// static holds the files of the pages. Its folder vendor contains the libraries that `make assets` downloads; without
// them the pages are plain HTML.
//
//go:embed static
var static embed.FS

// embedded loads and compresses the files once; all consoles of the process share them.
var embedded = sync.OnceValues(func() (*view.Assets, error) { return view.LoadAssets(static) })

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	cfg      Config
	api      api.Client
	assets   *view.Assets
	renderer *view.Renderer
	logger   *zap.Logger
	now      func() time.Time
	issuer   SignIn   // nil: only tokens can be used to sign in
	sessions Sessions // nil: the servers do not remember which sessions were ended
	signIns  SignIns  // nil: the number of failed sign-ins is not limited
	drafts   Drafts
	needAuth bool // people must sign in
}

// Option configures a console.
type Option func(*Console)

// WithClock sets the clock of the console, for ages, periods and sign-ins.
func WithClock(now func() time.Time) Option { return func(c *Console) { c.now = now } }

// WithAuthentication makes people sign in. It is needed when the API refuses requests without credentials.
func WithAuthentication() Option { return func(c *Console) { c.needAuth = true } }

// WithSignIn makes people sign in, and lets them sign in at the issuer. Without this option they need a token.
func WithSignIn(issuer SignIn) Option {
	return func(c *Console) { c.issuer, c.needAuth = issuer, true }
}

// WithSessions makes signing out end a session on every replica, not only in the browser.
func WithSessions(s Sessions) Option { return func(c *Console) { c.sessions = s } }

// WithSignIns limits failed sign-ins at the issuer. Failed sign-ins with a pasted token are limited by the API itself.
func WithSignIns(l SignIns) Option { return func(c *Console) { c.signIns = l } }

// Drafts stores forms that will be shown again, so that every replica can show them.
type Drafts = view.Drafts

// DraftLife is how long Drafts keeps a draft.
const DraftLife = view.DraftLife

// WithDrafts sets where drafts are stored. Without this option drafts are stored in memory, for a program without other
// replicas.
func WithDrafts(d Drafts) Option { return func(c *Console) { c.drafts = d } }

// New returns the console of an API. It calls the API within the process, with the credentials of each request.
func New(cfg Config, handler http.Handler, logger *zap.Logger, options ...Option) (*Console, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, api: api.Client{Handler: handler}, logger: logger, now: time.Now, drafts: &view.MemoryDrafts{}}
	for _, option := range options {
		option(c)
	}
	var err error
	if c.assets, err = embedded(); err != nil {
		return nil, err
	}
	site := view.Site{Name: cfg.Name, Environment: cfg.Environment, Offers: view.Offers{Needed: c.needAuth, Issuer: c.issuer != nil}}
	if c.renderer, err = view.NewRenderer(templates, site, c.assets, c.drafts, c.now); err != nil {
		return nil, err
	}
	return c, nil
}
