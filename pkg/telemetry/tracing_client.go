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
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"
)

const (
	maxAnswer = 64 << 10 // bytes of a collector's answer that are read; the rest is ignored
	maxFile   = 1 << 20  // maximum bytes of each of the two files that TracingConfig names; a larger file is an error
)

// tracingClient sends requests to the collector, with the headers that headersFile contains at the time of the request.
// No text of an answer becomes part of an error, because the collector may repeat the headers in its answer.
type tracingClient struct {
	headersFile string
	transport   http.RoundTripper
	rejected    atomic.Int64 // number of rejected spans that rejectedSpans returns next
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

// options returns a value for every option of the OpenTelemetry library. Without these values, the library would read
// the options from environment variables.
func (c *tracingClient) options(cfg TracingConfig) []otlptracehttp.Option {
	endpoint, _ := url.Parse(cfg.Endpoint) // Validate has checked it
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	return []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(endpoint.String()),
		otlptracehttp.WithHeaders(nil),
		otlptracehttp.WithTLSClientConfig(nil), // the HTTP client below has its own TLS settings
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithTimeout(cfg.Timeout),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: cfg.Timeout,
		}),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: c}),
	}
}

// RoundTrip implements http.RoundTripper. It sends a request of the OpenTelemetry library to the collector; the library
// repeats a failed request until the timeout.
func (c *tracingClient) RoundTrip(r *http.Request) (*http.Response, error) {
	headers, err := c.headers()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, &temporaryError{err, r.Context()}
	}
	var answered atomic.Bool
	r = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotFirstResponseByte: func() { answered.Store(true) }}))
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
	}
	answer, err := c.transport.RoundTrip(r)
	switch {
	case err == nil:
		return c.statusOnly(answer), nil
	case answered.Load():
		err = errNotHTTP
	}
	return nil, &temporaryError{err, r.Context()}
}

var errNotHTTP = errors.New("the collector's answer is not HTTP")

// temporaryError is an error after which the library tries again, unless Temporary returns false.
type temporaryError struct {
	error
	ctx context.Context
}

// Unwrap returns the wrapped error.
func (e *temporaryError) Unwrap() error { return e.error }

// Temporary is called by the library, which tries again only when the result is true. The result is false when the
// request's context has ended, and for an untrusted certificate, because another try cannot change that.
func (e *temporaryError) Temporary() bool {
	var certificate *tls.CertificateVerificationError
	return e.ctx.Err() == nil && !errors.As(e.error, &certificate)
}

// statusOnly removes everything from an answer but its status and Retry-After, and keeps the number of rejected spans
// for rejectedSpans. Without the header Location, the client cannot follow a redirect.
func (c *tracingClient) statusOnly(answer *http.Response) *http.Response {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close()
	text := strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode)
	answer.Status = text
	if answer.StatusCode/100 == 2 {
		text = ""
		var taken collectorpb.ExportTraceServiceResponse
		if answer.Header.Get("Content-Type") == "application/x-protobuf" && proto.Unmarshal(body, &taken) == nil {
			c.rejected.Store(taken.GetPartialSuccess().GetRejectedSpans())
		}
	}
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	answer.Header = http.Header{"Retry-After": answer.Header["Retry-After"]}
	return answer
}

// rejectedSpans returns the number of spans that the collector rejected from the last export that it accepted, and
// resets this number.
func (c *tracingClient) rejectedSpans() int64 { return c.rejected.Swap(0) }

// headers reads headersFile. Its errors name lines by their numbers and do not quote them.
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

// readBounded reads a file. It returns an error for a file of more than maxFile bytes.
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
