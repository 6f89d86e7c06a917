package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// Serve answers requests from listener, which it closes, until ctx ends. Then it drains: readiness turns 503, no
// connection is accepted, running requests may finish within the drain time, and those that take longer are cut off
// and logged. It returns nil after a drain. It also serves /metrics at Config.MetricsPort, if that is set.
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

// sendBuffer is the size in bytes of the kernel's send buffer of a connection. By default the kernel may keep megabytes
// for a client that does not read.
const sendBuffer = 256 << 10

func (s *Server) httpServer() *http.Server {
	errorLog, _ := zap.NewStdLogAt(s.logger, zap.WarnLevel) // NewStdLogAt fails only for unknown levels
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		// ReadTimeout stays unset, because net/http could otherwise no longer notice that a client disconnects.
		ErrorLog: errorLog,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(sendBuffer) // an error is ignored, because the size is only a hint
			}
			return ctx
		},
		// The router answers "OPTIONS *" like a request for any unknown route, instead of net/http.
		DisableGeneralOptionsHandler: true,
	}
}

func (s *Server) drain(server *http.Server) {
	s.phase.Store(draining)
	defer s.stopWork()
	stop := time.AfterFunc(s.cfg.DrainTimeout/2, s.stopWork)
	defer stop.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		s.logger.Warn("requests were cut off by the shutdown", zap.Duration("after", s.cfg.DrainTimeout))
		_ = server.Close() // an error is ignored, because the connections are closed even then
	}
}

// serveMetrics serves the metrics at Config.MetricsPort until stop is called. Without that setting it does nothing.
func (s *Server) serveMetrics(ctx context.Context) (stop func(), err error) {
	if s.cfg.MetricsPort == 0 {
		return func() {}, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(s.cfg.Host, strconv.Itoa(s.cfg.MetricsPort)))
	if err != nil {
		return nil, fmt.Errorf("listen on server.metrics_port: %w", err)
	}
	server := s.httpServer()
	server.Handler = s.metricsHandler()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // Serve returns when stop is called
	}()
	s.logger.Info("serving metrics at " + listener.Addr().String())
	return func() {
		_ = server.Close()
		<-served
	}, nil
}

func (s *Server) metricsHandler() http.Handler {
	return s.instrumentation.observe(s.instrumentation.recovered(s.newRouter([]route{s.metricsRoute()})))
}
