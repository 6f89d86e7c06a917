package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// serve runs the server on a free port. stop begins the drain. The channel served receives the result of Serve.
func (f *fixture) serve(t *testing.T) (url string, stop context.CancelFunc, served chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Require(t, err == nil, "listen: %v", err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	served = make(chan error, 1)
	go func() { served <- f.server.Serve(ctx, listener) }()
	return "http://" + listener.Addr().String(), stop, served
}

type answered struct {
	status int
	body   string
	err    error
}

// post sends a POST request over a real connection. key is its Idempotency-Key; "" for none.
func post(t *testing.T, url, key string) answered {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		return answered{err: err}
	}
	request.Header.Set("X-Request-Id", testID)
	if key != "" {
		request.Header.Set(keyHeader, key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answered{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, string(body), err}
}

// drained starts a drain of the server while a request is in progress, and returns the answer to this request. The
// request closes began, or sends to it, when its work has started.
func (f *fixture) drained(t *testing.T, path string, began <-chan struct{}) answered {
	t.Helper()
	url, stop, served := f.open().serve(t)
	answer := make(chan answered, 1)
	go func() { answer <- post(t, url+path, "k") }()
	receive(t, began, "the request")
	stop()
	got := receive(t, answer, "the answer")
	if err := receive(t, served, "the end"); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	return got
}

// receive returns the next value of the channel; it fails the test when none arrives in time.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

func TestServe_RunningRequestsFinish(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	f := newFixture()
	f.redriver = &stub{do: func(context.Context) (entity.Redrive, error) {
		close(began)
		<-finish
		return entity.Redrive{ID: redrive}, nil
	}}
	url, stop, served := f.open().serve(t)
	answer := make(chan answered, 1)
	go func() { answer <- post(t, url+"/api/v1/dlq/t/retry-all", "") }()
	receive(t, began, "the request")
	stop()
	if !refuses(strings.TrimPrefix(url, "http://")) {
		t.Error("new connections are accepted while draining")
	}
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{}}`)
	close(finish)
	if got := receive(t, answer, "the answer"); got.status != 200 || got.err != nil {
		t.Errorf("running request = %+v, want 200", got)
	}
	if err := receive(t, served, "the end"); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

// refuses reports whether the address soon accepts no connections any more. It tries again for a while, because the
// listener may close a little later.
func refuses(address string) bool {
	for range 10_000 {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return true
		}
		_ = connection.Close()
	}
	return false
}

// When a redrive would last longer than the drain, the wait for it ends early enough to answer with its results so far.
func TestServe_DrainInterruptsLongWork(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	f := newFixture()
	f.cfg.DrainTimeout = 4 * time.Second
	f.redriver = &stub{do: func(ctx context.Context) (entity.Redrive, error) {
		close(began)
		<-ctx.Done()
		return entity.Redrive{}, &entity.InterruptedError{Redrive: entity.Redrive{ID: redrive}, Err: ctx.Err()}
	}}
	want := answered{503, errorJSON(respond.CodeUnavailable, respond.UnavailableText, interruptedJSON(0, 0, 0, 0, 0, 0, 0)), nil}
	if got := f.drained(t, "/api/v1/dlq/t/retry-all", began); got != want {
		t.Errorf("interrupted request = %+v, want %+v", got, want)
	}
}

func TestServe_EndsThoughARequestHangs(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	f := newFixture()
	f.cfg.DrainTimeout = 20 * time.Millisecond
	f.redriver = &stub{do: func(context.Context) (entity.Redrive, error) {
		close(began)
		<-release
		return entity.Redrive{}, nil
	}}
	if got := f.drained(t, "/api/v1/dlq/t/retry-all", began); got.err == nil {
		t.Errorf("hanging request = %+v, want a broken connection", got)
	}
	close(release)
}

func TestServe_BrokenListener(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	_ = listener.Close()
	if err := newFixture().open().server.Serve(t.Context(), listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve = %v, want net.ErrClosed", err)
	}
}

// The cancelled reads of a client that disconnected are not errors.
func TestClientGone(t *testing.T) {
	t.Parallel()
	f := newFixture()
	logs := f.logs(zap.InfoLevel)
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := f.open().send(httptest.NewRequest("GET", "/api/v1/dlq/orders.dlq.v1", nil).WithContext(gone))
	if w.Code != respond.StatusClientGone || w.Body.Len() != 0 || logs.Len() != 0 {
		t.Errorf("answer = %d %s, logged %v, want no body and nothing above debug", w.Code, w.Body, logs.All())
	}
	wantMetric(t, f, `dlq_http_requests_total{code="499",method="GET",route="/api/v1/dlq/{topic}"} 1`)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	made := regexp.MustCompile(`^req_[0-9a-f]{12}$`)
	for sent, kept := range map[string]bool{
		"a": true, "A.b_c-9": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a\n": false, "あ": false, "a/b": false, `"`: false,
	} {
		w := f.do("GET", "/nowhere", "", "X-Request-Id", sent)
		got := wantEnvelope(t, w, 404).RequestID
		if kept && got != sent || !kept && !made.MatchString(got) {
			t.Errorf("X-Request-Id %q became %q, want kept: %t", sent, got, kept)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	for _, target := range []string{"/api/v1/dlq/secret-name", oneA, "/api/v1/dlq/messages/x", "/some/where"} {
		f.do("GET", target, "")
	}
	f.do("BREW", "/some/where/else", "")
	f.do("DELETE", "/healthz", "")
	wantMetric(t, f,
		`dlq_http_requests_total{code="200",method="GET",route="/api/v1/dlq/{topic}"} 1`,
		`dlq_http_requests_total{code="200",method="GET",route="/api/v1/dlq/messages/{id}"} 1`,
		`dlq_http_requests_total{code="400",method="GET",route="/api/v1/dlq/messages/{id}"} 1`,
		`dlq_http_requests_total{code="404",method="GET",route="unmatched"} 1`,
		`dlq_http_requests_total{code="404",method="other",route="unmatched"} 1`,
		`dlq_http_requests_total{code="405",method="DELETE",route="unmatched"} 1`,
		`dlq_http_request_duration_seconds_count{method="GET",route="/api/v1/dlq/messages/{id}"} 2`,
		`dlq_http_requests_in_flight 1`, // the one request in progress is the request for the metrics
	)
	wantWithout(t, f.do("GET", "/metrics", ""), "secret-name", "BREW", "/some/where") // clients chose these names
}

func wantMetric(t *testing.T, f *fixture, lines ...string) {
	t.Helper()
	for i := range lines {
		lines[i] += "\n"
	}
	wantStatus(t, f.do("GET", "/metrics", ""), 200, lines...)
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	logs := f.logs(zap.DebugLevel)
	f.open()
	for _, c := range []struct{ method, target, level string }{
		{"GET", oneA, "debug"},
		{"POST", retryA, "info"},
		{"DELETE", oneA, "info"},
		{"POST", "/nowhere", "debug"},
	} {
		f.do(c.method, c.target, "")
		entries := logs.FilterMessage("request").All()
		logs.TakeAll()
		if len(entries) != 1 || entries[0].Level.String() != c.level || entries[0].ContextMap()["request_id"] != testID {
			t.Errorf("%s %s logged %v, want one line at %s", c.method, c.target, entries, c.level)
		}
	}
}

func TestProbesAlone(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.server = NewProbes(f.cfg, []Check{{Name: "kafka", Probe: (&dependency{}).probe, Required: true}}, prometheus.NewRegistry(), zap.NewNop())
	wantAnswer(t, f.do("GET", "/readyz", ""), 503, `{"status":"not_ready","checks":{"kafka":"ok"}}`)
	f.server.SetReady()
	wantAnswer(t, f.do("GET", "/readyz", ""), 200, `{"status":"ready","checks":{"kafka":"ok"}}`)
	wantEnvelope(t, f.do("GET", "/api/v1/dlq/orders", ""), 404)
}

// Over a real connection, the answer to HEAD has no body, an oversized body is refused, and "OPTIONS *" is answered
// like any unknown route.
func TestServe_Wire(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	url, _, _ := f.serve(t)
	for _, c := range []struct {
		request string
		status  string
		body    bool
	}{
		{"HEAD /api/v1/dlq/messages/" + idA.String() + " HTTP/1.1\r\n", "HTTP/1.1 200 OK", false},
		{"HEAD /nowhere HTTP/1.1\r\n", "HTTP/1.1 404 Not Found", false},
		{"OPTIONS * HTTP/1.1\r\n", "HTTP/1.1 404 Not Found", true},
		{"GET /api/v1//dlq/x HTTP/1.1\r\n", "HTTP/1.1 404 Not Found", true},
		{"GET /api/v1/dlq/a%2Fb HTTP/1.1\r\n", "HTTP/1.1 200 OK", true},
		{
			"POST /api/v1/dlq/t/retry-all HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat(" ", 2000000),
			"HTTP/1.1 413 Request Entity Too Large", true,
		},
	} {
		head, body := exchangeRaw(t, strings.TrimPrefix(url, "http://"), c.request)
		if !strings.HasPrefix(head, c.status+"\r\n") || (body != "") != c.body {
			t.Errorf("%.60q: answer %.100q with body %.100q, want %s, body: %t", c.request, head, body, c.status, c.body)
		}
	}
}

// A body that does not arrive must not block a request for ever.
func TestServe_SlowBody(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.cfg.BodyTimeout = 20 * time.Millisecond
	url, _, _ := f.open().serve(t)
	head, body := exchangeRaw(t, strings.TrimPrefix(url, "http://"),
		"POST /api/v1/dlq/t/retry-all HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
	if !strings.HasPrefix(head, "HTTP/1.1 400 ") || !strings.Contains(body, "could not be read") {
		t.Errorf("answer to half a body = %.100q %s, want 400", head, body)
	}
}

func exchangeRaw(t *testing.T, address, request string) (head, body string) {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	check.Require(t, err == nil, "dial: %v", err)
	defer connection.Close()
	first, rest, hasBody := strings.Cut(request, "\r\n\r\n")
	if !hasBody {
		first = strings.TrimSuffix(first, "\r\n")
	}
	go func() { // in a goroutine, because the server may answer before it has read everything
		_, _ = fmt.Fprintf(connection, "%s\r\nHost: x\r\nConnection: close\r\n\r\n%s", first, rest)
	}()
	answer, _ := io.ReadAll(connection) // the server may reset the connection after its answer, so the error is ignored
	head, body, _ = strings.Cut(string(answer), "\r\n\r\n")
	return head, body
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil || DefaultConfig().Address() != "0.0.0.0:8080" {
		t.Errorf("default: %v, address %s, want it valid, and 0.0.0.0:8080", err, DefaultConfig().Address())
	}
	bad := Config{Port: -1, DrainTimeout: time.Minute}
	if problems := strings.Split(bad.Validate().Error(), "\n"); len(problems) != 15 {
		t.Errorf("Validate reports %d problems, want all 15: %q", len(problems), problems)
	}
}
