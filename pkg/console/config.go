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
	// TraceURL is the address of a trace, in which {trace_id} is replaced by the trace's id. Empty: traces have no
	// links.
	TraceURL string `mapstructure:"trace_url"`
	// VersionHeaders names the headers that hold the version of the producer or the consumer.
	VersionHeaders []string `mapstructure:"version_headers"`

	// The fields below are copied from other settings.

	// ApplicationFrames are prefixes of the operators' own stack frames. If the list is empty, each frame that does not
	// belong to a known library counts as the operators' own.
	ApplicationFrames []string `mapstructure:"-"`
	// Name is the title of the pages.
	Name string `mapstructure:"-"`

	// Environment is shown next to the name, to tell two systems apart.
	Environment string `mapstructure:"-"`
}

// DefaultConfig enables the console without links to traces.
func DefaultConfig() Config {
	return Config{
		Enabled:        true,
		Name:           "dlq-manager",
		VersionHeaders: []string{"version", "app-version", "x-version", "service-version", "schema-version"},
	}
}

const traceID = "{trace_id}"

// Validate reports every invalid setting by its key.
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

// traceURL returns the address of a trace, or "".
func (c Config) traceURL(id string) string { return strings.ReplaceAll(c.TraceURL, traceID, id) }
