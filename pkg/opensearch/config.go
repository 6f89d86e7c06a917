package opensearch

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"time"
)

// Config says where OpenSearch is, and how to sign in. The files are read for every request, so their contents may
// change while the program runs.
type Config struct {
	URL          []string      `mapstructure:"url"` // nodes of one cluster, such as https://search:9200
	Username     string        `mapstructure:"username"`
	PasswordFile string        `mapstructure:"password_file"`
	TokenFile    string        `mapstructure:"token_file"` // a bearer token, in place of username and password
	CAFile       string        `mapstructure:"ca_file"`    // PEM file of the certificate authority; "": the system's
	IndexPrefix  string        `mapstructure:"index_prefix"`
	Timeout      time.Duration `mapstructure:"timeout"` // time limit of one request
}

// DefaultConfig has no address.
func DefaultConfig() Config { return Config{IndexPrefix: "dlq-manager", Timeout: 10 * time.Second} }

var validPrefix = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,99}$`)

// Validate reports every problem at once. It does not require an address.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("search.opensearch."+format, args...))
		}
	}
	for _, address := range c.URL {
		u, err := url.Parse(address)
		check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil,
			"url must have addresses such as https://search:9200, without a user, not %q", address)
	}
	check((c.Username == "") == (c.PasswordFile == ""), "username and password_file need each other")
	check(c.Username == "" || c.TokenFile == "", "username and token_file exclude each other")
	check(validPrefix.MatchString(c.IndexPrefix), "index_prefix must be 1 to 100 of a-z, 0-9, _ and -, not %q", c.IndexPrefix)
	check(c.Timeout >= 100*time.Millisecond && c.Timeout <= time.Minute, "timeout must be 100ms to 1m, not %s", c.Timeout)
	return errors.Join(errs...)
}

// roots returns the certificates of CAFile; nil means the certificates of the system.
func (c Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("search.opensearch.ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("search.opensearch.ca_file: %s has no certificate", c.CAFile)
	}
	return pool, nil
}
