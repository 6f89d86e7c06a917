package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"
)

const (
	maxComplaint = 300      // bytes of a collector's complaint that are logged
	maxAnswer    = 64 << 10 // bytes of its answer that are read
	maxFile      = 1 << 20  // bytes of a file of headers or of authorities
)

// tracingClient sends requests to the collector, with the headers that a file has at
// that moment.
type tracingClient struct {
	headersFile string
	transport   http.RoundTripper

	mu   sync.Mutex
	said *partial // by the collector that took the last export
}

func newTracingClient(cfg TracingConfig) (*tracingClient, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        1,
		IdleConnTimeout:     90 * time.Second,
	}
	if cfg.CAFile != "" {
		pem, err := readBounded(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tracing.ca_file: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tracing.ca_file: %s holds no certificate", cfg.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	c := &tracingClient{headersFile: cfg.HeadersFile, transport: transport}
	_, err := c.headers()
	return c, err
}

// options name everything that the library would otherwise look for in variables of
// the environment.
func (c *tracingClient) options(cfg TracingConfig) []otlptracehttp.Option {
	endpoint, _ := url.Parse(cfg.Endpoint) // Validate has looked at it
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	return []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(endpoint.String()),
		otlptracehttp.WithHeaders(nil),
		otlptracehttp.WithTLSClientConfig(nil), // the client has its own
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithTimeout(cfg.Timeout),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithMaxResponseSize(maxAnswer),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: cfg.Timeout,
		}),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: c,
			// Where a redirect leads was not configured, and must not get the headers.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	}
}

// RoundTrip implements http.RoundTripper. The library tries again what fails here as
// long as there is time.
func (c *tracingClient) RoundTrip(r *http.Request) (*http.Response, error) {
	headers, err := c.headers()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, &passing{err, r.Context()}
	}
	var answered atomic.Bool
	r = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotFirstResponseByte: func() { answered.Store(true) }}))
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
	}
	answer, err := c.transport.RoundTrip(r)
	switch {
	case err == nil:
		return c.heard(answer), nil
	case answered.Load() && c.headersFile != "":
		err = errNoAnswer // for the error may quote it
	}
	return nil, &passing{err, r.Context()}
}

// errNoAnswer stands for an answer that cannot be read and may not be shown.
var errNoAnswer = errors.New("the collector's answer is none of HTTP")

// passing is an error that may be gone at the next try.
type passing struct {
	error
	ctx context.Context
}

// Unwrap returns the error itself.
func (p *passing) Unwrap() error { return p.error }

// Temporary is what the library asks before it tries again. A certificate that is not
// trusted stays so, and time that is up is up.
func (p *passing) Temporary() bool {
	var certificate *tls.CertificateVerificationError
	return p.ctx.Err() == nil && !errors.As(p.error, &certificate)
}

// heard takes out of an answer what the library may not see: what it makes errors of,
// when the answer may repeat the headers, in whichever form; where a redirect leads;
// and that only a part was taken, which it would report as a failure of all.
func (c *tracingClient) heard(answer *http.Response) *http.Response {
	taken := answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusMultipleChoices
	if taken {
		c.note(answer)
	}
	if taken || c.headersFile != "" {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // or the connection could not be used again
		_ = answer.Body.Close()
		answer.Body, answer.ContentLength = http.NoBody, 0
	}
	if c.headersFile != "" {
		answer.Status = strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode))
	}
	answer.Header = http.Header{"Retry-After": answer.Header["Retry-After"]}
	return answer
}

// note keeps what a collector says that took something. What cannot be read says nothing.
func (c *tracingClient) note(answer *http.Response) {
	if answer.Header.Get("Content-Type") != "application/x-protobuf" {
		return
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	var said collectorpb.ExportTraceServiceResponse
	if err != nil || proto.Unmarshal(raw, &said) != nil {
		return
	}
	p := &partial{rejected: said.GetPartialSuccess().GetRejectedSpans(), text: said.GetPartialSuccess().GetErrorMessage()}
	if p.rejected == 0 && p.text == "" {
		return
	}
	if c.headersFile != "" {
		p.text = "its words are not shown, which may repeat the headers"
	}
	p.text = bounded(p.text)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = p
}

// partially returns what the collector said since it was asked last, nil for nothing.
func (c *tracingClient) partially() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := c.said
	if c.said = nil; said == nil {
		return nil
	}
	return said
}

// headers reads the file. Its errors name lines and show none.
func (c *tracingClient) headers() (headers [][2]string, err error) {
	if c.headersFile == "" {
		return nil, nil
	}
	raw, err := readBounded(c.headersFile)
	if err != nil {
		return nil, fmt.Errorf("tracing.headers_file: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("tracing.headers_file: line %d of %s is no header such as name: value", number, c.headersFile)
		}
		headers = append(headers, [2]string{name, value})
	}
	return headers, nil
}

// readBounded reads a file that ought to be small.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return raw, err
}

// bounded is a text that may be logged: it may be what a collector answered.
func bounded(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxComplaint {
		cut := maxComplaint
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return text
}

// hushed is an exporter whose errors may be logged.
type hushed struct {
	sdktrace.SpanExporter
	client *tracingClient
}

// ExportSpans implements sdktrace.SpanExporter.
func (h *hushed) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := h.SpanExporter.ExportSpans(ctx, spans); err != nil {
		return errors.New(bounded(err.Error()))
	}
	return h.client.partially()
}

// Shutdown implements sdktrace.SpanExporter.
func (h *hushed) Shutdown(ctx context.Context) error {
	defer h.client.transport.(*http.Transport).CloseIdleConnections()
	return h.SpanExporter.Shutdown(ctx)
}
