package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
)

// maxComplaint is how much of a collector's complaint is logged.
const maxComplaint = 300

// tracingClient sends requests to the collector, with the headers that a file has at
// that moment.
type tracingClient struct {
	headersFile string
	transport   http.RoundTripper

	mu      sync.Mutex
	secrets []string // values of the headers sent last
}

func newTracingClient(cfg TracingConfig) (*tracingClient, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        1,
		IdleConnTimeout:     90 * time.Second,
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
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
		otlptracehttp.WithMaxResponseSize(64 << 10),
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

// RoundTrip implements http.RoundTripper.
func (c *tracingClient) RoundTrip(r *http.Request) (*http.Response, error) {
	headers, err := c.headers()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	var secrets []string
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
		secrets = append(secrets, h[1])
	}
	c.mu.Lock()
	c.secrets = secrets
	c.mu.Unlock()
	return c.transport.RoundTrip(r)
}

// headers reads the file. Its errors name lines and show none.
func (c *tracingClient) headers() (headers [][2]string, err error) {
	if c.headersFile == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(c.headersFile)
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

// hush takes out of an error what may not be logged, and bounds it: it may be what a
// collector answered, which may repeat what it was sent.
func (c *tracingClient) hush(err error) error {
	text := err.Error()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxComplaint {
		cut := maxComplaint
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return errors.New(text)
}

// hushed is an exporter whose errors may be logged.
type hushed struct {
	sdktrace.SpanExporter
	client *tracingClient
}

// ExportSpans implements sdktrace.SpanExporter.
func (h *hushed) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := h.SpanExporter.ExportSpans(ctx, spans); err != nil {
		return h.client.hush(err)
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (h *hushed) Shutdown(ctx context.Context) error {
	defer h.client.transport.(*http.Transport).CloseIdleConnections()
	return h.SpanExporter.Shutdown(ctx)
}
