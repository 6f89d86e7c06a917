package console

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Config says what the console shows.
type Config struct {
	Enabled bool `mapstructure:"enabled"`
	// TraceURL is where a trace is found, with {trace_id} in place of its id. Empty: no links.
	TraceURL string `mapstructure:"trace_url"`
	// VersionHeaders name the headers that hold the version of a producer or a consumer.
	VersionHeaders []string `mapstructure:"version_headers"`

	// What follows is known from other settings, and shown.

	// ApplicationFrames are prefixes of the operators' own stack frames. Empty: all frames of no known framework.
	ApplicationFrames []string `mapstructure:"-"`
	// Name is the title of the pages.
	Name string `mapstructure:"-"`

	// Environment is shown next to the name, so that one system is not taken for another.
	Environment string `mapstructure:"-"`
}

// DefaultConfig shows everything, and knows no traces.
func DefaultConfig() Config {
	return Config{
		Enabled:        true,
		Name:           "dlq-manager",
		VersionHeaders: []string{"version", "app-version", "x-version", "service-version", "schema-version"},
	}
}

const traceID = "{trace_id}"

// Validate reports every setting that cannot work, by its key.
func (c Config) Validate() error {
	var errs []error
	if c.TraceURL != "" {
		u, err := url.Parse(strings.ReplaceAll(c.TraceURL, traceID, "0"))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.Contains(c.TraceURL, traceID) {
			errs = append(errs, fmt.Errorf("console.trace_url: must be an http or https address with %s in it, is %q", traceID, c.TraceURL))
		}
	}
	for i, name := range c.VersionHeaders {
		if name == "" {
			errs = append(errs, fmt.Errorf("console.version_headers[%d]: must not be empty", i))
		}
	}
	return errors.Join(errs...)
}
