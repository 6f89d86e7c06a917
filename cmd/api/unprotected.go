package main

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// reminder is the interval of the log lines about an unprotected API in production.
const reminder = time.Hour

// newAuthDisabled returns the gauge on which the alert about an API without authentication is based.
func newAuthDisabled(mode string) prometheus.Gauge {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dlq_auth_disabled",
		Help: "1 while auth.mode is none: every client that reaches the port may do everything.",
	})
	if mode == auth.ModeNone {
		gauge.Set(1)
	}
	return gauge
}

// complainUnprotected logs an error at once and then every hour until ctx ends: the API runs in production without
// authentication, so every client may do anything. Outside production it logs one warning if other machines reach the
// API. With authentication it logs nothing.
func complainUnprotected(ctx context.Context, cfg program.Config, log *zap.Logger) {
	if cfg.Auth.Mode != auth.ModeNone {
		return
	}
	if ip, err := netip.ParseAddr(cfg.Server.Host); !cfg.Production() {
		if cfg.Server.Host != "localhost" && (err != nil || !ip.IsLoopback()) {
			log.Warn("auth.mode is none, and other machines reach the port: every client may read, send and delete every message; "+
				"set auth.mode, or server.host to 127.0.0.1", zap.String("address", cfg.Server.Address()))
		}
		return
	}
	ticker := time.NewTicker(reminder)
	defer ticker.Stop()
	for {
		log.Error("auth.mode is none in production: every client that reaches the port may read, send and delete every message",
			zap.String("auth_mode", cfg.Auth.Mode))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
