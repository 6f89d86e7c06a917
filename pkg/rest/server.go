// Package rest is the HTTP API: it turns requests into calls of a store and a redriver, and their results into JSON.
// It makes no decisions about messages: states, claims and publishing belong to the packages of its interfaces.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// The phases of a server, in order; it never returns to an earlier one.
const (
	starting int32 = iota
	ready
	draining
)

// Server answers requests. It is safe for concurrent use.
type Server struct {
	cfg       Config
	store     Store    // nil: probes only
	db        Database // nil: the store has no database
	redriver  Redriver // nil: probes only
	dialects  Dialects
	masks     Masks
	derived   DerivedMasks
	fetcher   Fetcher   // nil: values that are not stored are not available
	inspector Inspector // nil: the cluster is unknown
	origins   Origins
	liveness  func() error
	health    *health
	metrics   *metrics
	gatherer  prometheus.Gatherer
	logger    *zap.Logger
	tracer    trace.Tracer // nil: no spans
	router    *mux.Router

	authenticator auth.Authenticator
	authMode      string
	crossSite     *http.CrossOriginProtection
	signer        *auth.Signer
	attempts      *attempts
	hosts         hosts
	proxies       proxies
	limits        limits
	phase         atomic.Int32
	now           func() time.Time // for displayed times; stores have clocks of their own

	// work is the context of retries: it outlives the client's connection, and ends in the second half of the drain.
	work     context.Context
	stopWork context.CancelFunc
}

// Option configures a server.
type Option func(*Server)

// WithMasks sets which values are masked for callers without the grant unmask.
func WithMasks(m Masks) Option { return func(s *Server) { s.masks = m } }

// WithDerivedMasks sets which fields are masked in addition, because they were read from masked headers.
func WithDerivedMasks(d DerivedMasks) Option { return func(s *Server) { s.derived = d } }

// WithFetcher sets the source of values that the store does not keep.
func WithFetcher(f Fetcher) Option { return func(s *Server) { s.fetcher = f } }

// WithInspector sets the source of the cluster's topics.
func WithInspector(i Inspector) Option { return func(s *Server) { s.inspector = i } }

// WithSigner sets the signer of cursors. Without it cursors are valid in this process only.
func WithSigner(signer *auth.Signer) Option { return func(s *Server) { s.signer = signer } }

// WithLiveness sets the function for /healthz that returns an error when only a restart can help. It must not call a
// dependency.
func WithLiveness(f func() error) Option { return func(s *Server) { s.liveness = f } }

// New returns a server of the whole API; routes that need a Database answer 503 without one. Until SetReady only probes
// and metrics answer. Metrics are registered with registry and served from it, so one registry carries one server.
func New(cfg Config, store Store, redriver Redriver, checks []Check, registry *prometheus.Registry, logger *zap.Logger, options ...Option) *Server {
	s := newServer(cfg, checks, registry, logger)
	s.store, s.redriver = store, redriver
	s.db, _ = store.(Database)
	for _, option := range options {
		option(s)
	}
	s.router = s.newRouter(slices.Concat(s.probeRoutes(), documentRoutes(), s.apiRoutes()))
	return s
}

// NewProbes returns a server of /healthz, /readyz and /metrics alone, for programs without an API.
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
		cfg: cfg, health: newHealth(checks, logger), metrics: newMetrics(registry), gatherer: registry,
		logger: logger, now: time.Now, limits: newLimits(cfg), dialects: noDialects{}, masks: noMasks{},
		derived: noMasks{}, origins: allDeclared{}, liveness: func() error { return nil },
		authenticator: auth.Nobody{}, authMode: auth.ModeNone, crossSite: http.NewCrossOriginProtection(),
	}
	// Validate has already reported entries that cannot be read; without valid entries nothing is trusted.
	s.hosts, _ = parseHosts(cfg.Hosts)
	s.proxies, _ = parseProxies(cfg.TrustedProxies)
	// It reads no file, so it cannot fail.
	s.signer, _ = auth.NewSigner(auth.Config{}, logger)
	s.attempts = newAttempts(func() time.Time { return s.now() })
	s.work, s.stopWork = context.WithCancel(context.Background())
	return s
}

// SetReady opens the API, unless the server already drains.
func (s *Server) SetReady() { s.phase.CompareAndSwap(starting, ready) }

// Handler returns everything that the server answers.
func (s *Server) Handler() http.Handler {
	return s.observe(s.recovered(s.expectedHost(s.sameSite(s.router))))
}

// Serve answers requests from listener, which it closes, until ctx ends. Then it drains: readiness turns 503, no
// connection is accepted, running requests finish within the drain time, and later ones are cut off and logged. It
// returns nil after a drain. It also serves /metrics at Config.MetricsPort, if that is set.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	stopMetrics, err := s.serveMetrics(ctx)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer stopMetrics()
	server := s.httpServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		s.stopWork()
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
		s.drain(server)
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	}
}

// sendBuffer is the kernel's send buffer of a connection, in bytes; the default can be megabytes for a client that
// does not read.
const sendBuffer = 256 << 10

func (s *Server) httpServer() *http.Server {
	errorLog, _ := zap.NewStdLogAt(s.logger, zap.WarnLevel) // fails for unknown levels only
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		// ReadTimeout stays unset: it would also end the detection of clients that disconnect.
		ErrorLog: errorLog,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(sendBuffer) // a hint
			}
			return ctx
		},
		// The server answers "OPTIONS *" like any other unknown route.
		DisableGeneralOptionsHandler: true,
	}
}

func (s *Server) drain(server *http.Server) {
	s.phase.Store(draining)
	defer s.stopWork()
	patience := time.AfterFunc(s.cfg.DrainTimeout/2, s.stopWork)
	defer patience.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		s.logger.Warn("requests were cut off by the shutdown", zap.Duration("after", s.cfg.DrainTimeout))
		_ = server.Close() // the connections are closed either way
	}
}
