package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// An unprotected API in production logs an error at start and every hour; an API outside production, or with
// authentication, logs none.
func TestUnprotectedProductionIsComplainedAbout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment, mode string
		want              int // number of log lines in two and a half hours
	}{
		{"production", auth.ModeNone, 3},
		{"dev", auth.ModeNone, 0},
		{"production", auth.ModeToken, 0},
		{"production", auth.ModeOIDC, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.ErrorLevel)
			cfg := program.DefaultConfig()
			cfg.App.Environment, cfg.Auth.Mode = c.environment, c.mode
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() { complainUnprotected(ctx, cfg, zap.New(core)); close(ended) }()
			synctest.Wait()
			if first := logs.Len(); first != min(c.want, 1) {
				t.Errorf("%s, %s: %d complaints at the start, want %d", c.environment, c.mode, first, min(c.want, 1))
			}
			<-time.After(150 * time.Minute)
			cancel()
			<-ended
			if logs.Len() != c.want {
				t.Errorf("%s, %s: %d complaints, want %d", c.environment, c.mode, logs.Len(), c.want)
			}
		})
	}
}

// Outside production, an API without authentication warns once if it listens for other machines.
func TestUnprotectedNetworkIsWarnedAbout(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]int{"0.0.0.0": 1, "": 1, "::": 1, "192.0.2.1": 1, "dlq.example.com": 1, "127.0.0.1": 0, "127.1.2.3": 0, "::1": 0, "localhost": 0} {
		for mode, want := range map[string]int{auth.ModeNone: want, auth.ModeToken: 0} {
			core, logs := observer.New(zap.WarnLevel)
			cfg := program.DefaultConfig()
			cfg.App.Environment, cfg.Auth.Mode, cfg.Server.Host = "dev", mode, host
			complainUnprotected(t.Context(), cfg, zap.New(core))
			if logs.Len() != want {
				t.Errorf("%q, %s: %d warnings, want %d", host, mode, logs.Len(), want)
			}
		}
	}
}

func TestAuthDisabledGauge(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]float64{auth.ModeNone: 1, auth.ModeToken: 0, auth.ModeOIDC: 0} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(newAuthDisabled(mode))
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "dlq_auth_disabled" || families[0].GetMetric()[0].GetGauge().GetValue() != want {
			t.Errorf("%s: got %v, %v, want dlq_auth_disabled %v", mode, families, err, want)
		}
	}
}
