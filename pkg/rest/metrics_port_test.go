package rest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// freeMetricsPort is one that nobody listens on at this moment.
func freeMetricsPort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is of "tcp"
}

// statusOf is the status of a GET over a real connection.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// On a port of their own the metrics are there alone, and not on the API's.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.cfg.Host, f.cfg.MetricsPort = "127.0.0.1", freeMetricsPort(t)
	f.undocumented().open()
	wantEnvelope(t, f.do("GET", "/metrics", ""), 404, codeNotFound)
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 404, "/api/v1/topics": 404, "/": 404} {
		w := httptest.NewRecorder()
		f.server.metricsHandler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("GET %s on the port of the metrics = %d, want %d", path, w.Code, want)
		}
	}
	base, stop, served := f.serve(t)
	if got := statusOf(t, base+"/readyz"); got != 200 {
		t.Errorf("/readyz on the port = %d, want 200", got)
	}
	if got := statusOf(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", f.cfg.MetricsPort)); got != 200 {
		t.Errorf("/metrics on its port = %d, want 200", got)
	}
	stop()
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("Serve returned %v, want nil", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Serve does not return")
	}
}
