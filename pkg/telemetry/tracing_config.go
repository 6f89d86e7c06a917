package telemetry

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// TracingConfig holds the settings of tracing.
type TracingConfig struct {
	// Endpoint is the URL of a collector that accepts OTLP over HTTP; "" turns tracing off. If the URL has no path,
	// spans are sent to the standard path /v1/traces.
	Endpoint string `mapstructure:"endpoint"`
	// SampleRatio is the share of traces that are recorded, from 0 to 1. If the sender of a request does not record its
	// trace, this program does not record it either.
	SampleRatio float64 `mapstructure:"sample_ratio"`
	// TrustParent makes the program record every trace that the sender of a request records, whatever SampleRatio is.
	TrustParent bool `mapstructure:"trust_parent"`
	// Queue is the number of spans that may wait for the collector; further spans are dropped. Every eight links to
	// other traces count as one more span, so a span with 16 links counts as three.
	Queue int `mapstructure:"queue"`
	// Timeout limits the time for one export, including its retries.
	Timeout time.Duration `mapstructure:"timeout"`
	// HeadersFile is the path of a file with headers for the collector, one "name: value" per line; lines that begin
	// with # are ignored. The file is read before every request to the collector. "" means no headers.
	HeadersFile string `mapstructure:"headers_file"`
	// CAFile is the path of a PEM file with the certificate authorities that may sign the collector's certificate. ""
	// means the authorities of the operating system.
	CAFile string `mapstructure:"ca_file"`
}

// maxTracingQueue is the maximum of Queue; in the worst case, so many spans use about 200 MB. tracingBatch is the
// maximum number of spans in one export.
const (
	maxTracingQueue = 1 << 16
	tracingBatch    = 512
)

// DefaultTracingConfig returns settings with tracing off.
func DefaultTracingConfig() TracingConfig {
	return TracingConfig{SampleRatio: 1, Queue: 2048, Timeout: 10 * time.Second}
}

// Validate reports every invalid setting.
func (c TracingConfig) Validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(!(c.SampleRatio >= 0 && c.SampleRatio <= 1), "tracing.sample_ratio must be 0 to 1, not %g", c.SampleRatio)
	complain(c.Queue < 1 || c.Queue > maxTracingQueue, "tracing.queue must be 1 to %d, not %d", maxTracingQueue, c.Queue)
	complain(c.Timeout < 100*time.Millisecond || c.Timeout > time.Minute,
		"tracing.timeout must be 100ms to 1m, not %s", c.Timeout)
	if c.Endpoint != "" {
		errs = append(errs, c.endpointProblem())
	}
	return errors.Join(errs...)
}

// endpointProblem returns why Endpoint is not valid; nil when it is. The error does not contain the URL, which may
// contain a password.
func (c TracingConfig) endpointProblem() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("tracing.endpoint must be a URL such as http://collector:4318")
	case u.User != nil:
		return errors.New("tracing.endpoint must not name a user: put an authorization header into tracing.headers_file")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("tracing.endpoint must have no query and no fragment")
	case c.HeadersFile != "" && u.Scheme != "https" && !loopback(u.Hostname()):
		return errors.New("tracing.endpoint must be https for tracing.headers_file, except on this machine: headers are secrets")
	case c.CAFile != "" && u.Scheme != "https":
		return errors.New("tracing.ca_file is for an https tracing.endpoint")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
