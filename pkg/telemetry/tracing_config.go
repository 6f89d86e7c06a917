package telemetry

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// TracingConfig says where spans are sent, and how many of them.
type TracingConfig struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP; "" for no spans at
	// all. One without a path gets that of the protocol, /v1/traces.
	Endpoint string `mapstructure:"endpoint"`
	// SampleRatio is the share of traces that are recorded. A trace that came with a
	// request is not when its sender does not record it.
	SampleRatio float64 `mapstructure:"sample_ratio"`
	// TrustParent records every trace that its sender records, whatever SampleRatio.
	TrustParent bool `mapstructure:"trust_parent"`
	// Queue is how many spans may wait for the collector; further ones are dropped. One
	// with links counts as one more for every eight of them.
	Queue int `mapstructure:"queue"`
	// Timeout bounds one export with everything that is tried again of it.
	Timeout time.Duration `mapstructure:"timeout"`
	// HeadersFile holds headers that every export has, one "name: value" a line. It is
	// read for every export. "" for none.
	HeadersFile string `mapstructure:"headers_file"`
	// CAFile is a PEM file of the authorities that the collector's certificate may be
	// of; "" for those of the system.
	CAFile string `mapstructure:"ca_file"`
}

// The most spans that may wait, some two hundred megabytes at worst, and the most that
// are sent at once.
const (
	maxTracingQueue = 1 << 16
	tracingBatch    = 512
)

// DefaultTracingConfig sends nothing.
func DefaultTracingConfig() TracingConfig {
	return TracingConfig{SampleRatio: 1, Queue: 2048, Timeout: 10 * time.Second}
}

// Validate reports every setting that cannot work.
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

// endpointProblem does not show the URL: what is wrong with it may be a password.
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
		return errors.New("tracing.endpoint must be https for tracing.headers_file, but on this machine: headers are secrets")
	case c.CAFile != "" && u.Scheme != "https":
		return errors.New("tracing.ca_file is for an https tracing.endpoint")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
