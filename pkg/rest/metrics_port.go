package rest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// serveMetrics listens on the port of the metrics, if there is one, until stop is called.
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
		_ = server.Serve(listener) // ends with stop
	}()
	s.logger.Info("serving metrics at " + listener.Addr().String())
	return func() {
		_ = server.Close()
		<-served
	}, nil
}

func (s *Server) metricsHandler() http.Handler {
	return s.observe(s.recovered(s.newRouter([]route{s.metricsRoute()})))
}
