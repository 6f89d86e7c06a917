package rest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// freeMetricsPort returns a port without a listener.
func freeMetricsPort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is of "tcp"
}

// statusOf returns the status of a GET over a real connection.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	res, err := http.Get(url)
	check.NoError(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// With server.metrics_port, that port serves only the metrics, and the port of the API does not serve them.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	f := newFixture().undocumented()
	f.cfg.Host, f.cfg.MetricsPort = "127.0.0.1", freeMetricsPort(t)
	wantEnvelope(t, f.open().do("GET", "/metrics", ""), 404)
	base, stop, served := f.serve(t)
	own := fmt.Sprintf("http://127.0.0.1:%d", f.cfg.MetricsPort)
	if got := statusOf(t, base+"/readyz"); got != 200 {
		t.Errorf("/readyz on the port = %d, want 200", got)
	}
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 404, "/api/v1/topics": 404, "/": 404} {
		if got := statusOf(t, own+path); got != want {
			t.Errorf("GET %s on the port of the metrics = %d, want %d", path, got, want)
		}
	}
	stop()
	if err := receive(t, served, "the end"); err != nil {
		t.Errorf("Serve returned %v, want nil", err)
	}
}
