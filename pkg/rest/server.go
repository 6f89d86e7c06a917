package rest

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/address"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// The phases of a server, in their order. A server never returns to an earlier phase.
const (
	starting int32 = iota
	ready
	draining
)

// Server answers the HTTP requests of one program. It is safe for concurrent use.
type Server struct {
	cfg       Config
	stores    Stores   // zero: the server has no API, only probes
	db        Database // parts of the store that only PostgreSQL has; zero: the store has no database
	redriver  Redriver // nil: the server has no API, only probes
	dialects  Dialects
	masks     *payload.Masks
	derived   DerivedMasks
	fetcher   Fetcher      // nil: values that are not stored are not available
	inspector Inspector    // nil: the state of the Kafka cluster is unknown
	shares    ShareWatcher // nil: there is no Kafka
	topics    Topics       // nil: answers do not say which topics exist
	targets   Targets      // nil: targets of redirects are not checked
	origins   Origins
	signer    *auth.Signer
	facets    FacetEngine
	schemas   Schemas // nil: nothing is decoded
	replica   Replica // nil: the database has no replica

	notFound, notAllowed http.Handler // pages for browsers, for unknown paths and methods; nil: browsers get JSON

	logger *zap.Logger

	router          *mux.Router
	instrumentation *instrumentation
	authentication  *authentication
	policy          policy
	idempotency     idempotency
	limits          limits
	health          *health
	metrics         *metrics
	report          reporter
	tracer          tracer

	phase atomic.Int32
	now   func() time.Time // clock for displayed times and failed sign-ins; stores have clocks of their own

	// work ends after half of the drain time, or with the drain. Its end ends exports and requests of kind work; it
	// does not end when a client disconnects.
	work     context.Context
	stopWork context.CancelFunc
}

// Option configures a server.
type Option func(*Server)

// WithMasks sets which values are masked for callers without the grant unmask.
func WithMasks(m *payload.Masks) Option { return func(s *Server) { s.masks = m } }

// WithDerivedMasks sets which fields are masked because they were read from masked headers.
func WithDerivedMasks(d DerivedMasks) Option { return func(s *Server) { s.derived = d } }

// WithFetcher sets the Fetcher of the values that the store does not keep.
func WithFetcher(f Fetcher) Option { return func(s *Server) { s.fetcher = f } }

// WithInspector sets the Inspector, which describes the topics of the cluster.
func WithInspector(i Inspector) Option { return func(s *Server) { s.inspector = i } }

// WithShareGroups sets the ShareWatcher, which knows the share groups of the cluster.
func WithShareGroups(w ShareWatcher) Option { return func(s *Server) { s.shares = w } }

// WithTopics sets Topics, which knows which topics exist in the cluster.
func WithTopics(t Topics) Option { return func(s *Server) { s.topics = t } }

// WithSchemas sets how the server decodes and encodes the keys and values that have a schema in a registry. Without
// this option keys and values are shown and sent as bytes.
func WithSchemas(schemas Schemas) Option { return func(s *Server) { s.schemas = schemas } }

// WithReplica makes the answer to each change contain a mark of the replica, in the header DLQ-Read-After. It gives
// every read a repository.Reading with the mark that its request carries, so that a store may read from the replica.
// Without this option no read has a Reading.
func WithReplica(r Replica) Option { return func(s *Server) { s.replica = r } }

// WithTargets sets Targets, which checks to which topics a redirect may lead.
func WithTargets(t Targets) Option { return func(s *Server) { s.targets = t } }

// WithFacets sets the FacetEngine. A server with a Database needs it.
func WithFacets(e FacetEngine) Option { return func(s *Server) { s.facets = e } }

// WithSigner sets the signer of cursors. Without this option cursors are valid in this process only.
func WithSigner(signer *auth.Signer) Option { return func(s *Server) { s.signer = signer } }

// WithLiveness sets the function that /healthz calls. It returns an error when only a restart can help. It must not
// call a dependency.
func WithLiveness(f func() error) Option { return func(s *Server) { s.health.liveness = f } }

// WithDialects sets Dialects, which derives fields from headers and maps topics by rules. Without this option the
// server shows only stored fields, and has no rules.
func WithDialects(d Dialects) Option { return func(s *Server) { s.dialects = d } }

// WithOrigins sets Origins, which checks original topics. Without this option no origin is undeclared.
func WithOrigins(origins Origins) Option { return func(s *Server) { s.origins = origins } }

// WithAuth sets how requests are authenticated. mode is the setting auth.mode: the session route shows it, and only in
// mode none server.hosts applies. Without this option every request may do everything.
func WithAuth(a auth.Authenticator, mode string) Option {
	return func(s *Server) { s.authentication.authenticator, s.authentication.mode = a, mode }
}

// WithTracing makes the server create a span for every request to a route, except probes, documents and static files.
// The span continues the trace of the request. A nil provider creates no spans.
func WithTracing(p trace.TracerProvider) Option {
	return func(s *Server) { s.tracer.Tracer = traces.Tracer(p, "github.com/dlq-manager/dlq-manager/pkg/rest") }
}

// New returns a server of the whole API. Without a database, routes that need one answer 503. Until SetReady is called,
// all routes of the API except its document answer 503. The server registers its metrics with registry and serves all
// metrics of registry, so each server needs a registry of its own.
func New(cfg Config, stores Stores, redriver Redriver, checks []Check, registry *prometheus.Registry, logger *zap.Logger, options ...Option) *Server {
	s := newServer(cfg, checks, registry, logger)
	s.stores, s.redriver = stores, redriver
	if stores.Database != nil {
		s.db = *stores.Database
	}
	s.policy = policy{stores.Objects, s.db.Objects}
	s.idempotency = idempotency{keys: stores.Keys, bodies: cfg.bodies(), timeout: cfg.RequestTimeout, logger: logger}
	for _, option := range options {
		option(s)
	}
	s.router = s.newRouter(slices.Concat(s.probeRoutes(), documentRoutes(), s.apiRoutes()))
	return s
}

// NewProbes returns a server that has only /healthz, /readyz and /metrics, for programs without an API.
func NewProbes(cfg Config, checks []Check, registry *prometheus.Registry, logger *zap.Logger, options ...Option) *Server {
	s := newServer(cfg, checks, registry, logger)
	for _, option := range options {
		option(s)
	}
	s.router = s.newRouter(s.probeRoutes())
	return s
}

func newServer(cfg Config, checks []Check, registry *prometheus.Registry, logger *zap.Logger) *Server {
	s := &Server{
		cfg: cfg, metrics: newMetrics(registry), logger: logger, report: reporter{logger}, now: time.Now, limits: newLimits(cfg),
		dialects: noDialects{}, derived: noDerivedMasks{}, origins: allDeclared{},
	}
	s.health = newHealth(checks, func() bool { return s.phase.Load() == ready }, logger)
	// Config.Validate has already reported invalid entries, so errors are ignored here. An invalid entry is neither an
	// accepted host nor a trusted proxy.
	hosts, _ := address.ParseHosts(cfg.Hosts)
	proxies, _ := address.ParseProxies(cfg.TrustedProxies)
	s.instrumentation = &instrumentation{
		reporter: s.report, metrics: s.metrics, proxies: proxies, minWriteRate: cfg.MinWriteRate, writeTimeout: cfg.WriteTimeout,
	}
	s.authentication = &authentication{
		reporter: s.report, authenticator: auth.Nobody{}, mode: auth.ModeNone, timeout: cfg.RequestTimeout, hosts: hosts,
		crossSite: http.NewCrossOriginProtection(), attempts: newAttempts(func() time.Time { return s.now() }),
	}
	// NewSigner reads no file with this configuration, so it cannot fail.
	s.signer, _ = auth.NewSigner(auth.Config{}, logger)
	s.work, s.stopWork = context.WithCancel(context.Background())
	return s
}

// SetReady opens the API, unless the server already drains.
func (s *Server) SetReady() { s.phase.CompareAndSwap(starting, ready) }

// Handler returns the handler of all routes and mounted pages.
func (s *Server) Handler() http.Handler {
	a, o := s.authentication, s.instrumentation
	return o.observe(o.recovered(a.expectedHost(a.sameSite(s.router))))
}

// SignIns returns the limit of failed sign-ins, for mounted pages on which users sign in.
func (s *Server) SignIns() SignIns { return SignIns{s.authentication.attempts} }
