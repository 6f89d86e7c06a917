package rest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/address"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
)

// Config holds the server's addresses, limits and timeouts.
type Config struct {
	Host string `mapstructure:"host"`
	Port int    `mapstructure:"port"`

	// MetricsPort is a port that serves only /metrics. With 0, Port serves /metrics together with the other routes.
	MetricsPort int `mapstructure:"metrics_port"`

	// Hosts are globs of the host names that the server accepts while auth.mode is none; addresses and localhost are
	// always accepted.
	Hosts []string `mapstructure:"hosts"`

	// TrustedProxies are addresses and networks whose X-Forwarded-For and X-Forwarded-Proto headers are trusted.
	TrustedProxies []string `mapstructure:"trusted_proxies"`

	// StartupTimeout is how long the program tries to reach its dependencies before it exits; until then the server
	// answers "not ready".
	StartupTimeout time.Duration `mapstructure:"startup_timeout"`

	// ReadHeaderTimeout and BodyTimeout limit the time in which a request must arrive. WriteTimeout limits the time in
	// which the client must read an answer (not an export), from its first byte. IdleTimeout closes idle connections.
	ReadHeaderTimeout time.Duration `mapstructure:"read_header_timeout"`
	BodyTimeout       time.Duration `mapstructure:"body_timeout"`
	WriteTimeout      time.Duration `mapstructure:"write_timeout"`
	IdleTimeout       time.Duration `mapstructure:"idle_timeout"`

	// RequestTimeout limits the time of each API request except exports and requests of kind work, such as retries.
	RequestTimeout time.Duration `mapstructure:"request_timeout"`

	// MinWriteRate is how many bytes of an answer a client must read per second. A client that falls behind this rate
	// by writeGrace is disconnected.
	MinWriteRate int64 `mapstructure:"min_write_rate"`

	// MaxPages is how many reads one process answers at a time. BufferBytes is how much memory the answers to these
	// reads may use together until they are written. One principal or, without authentication, one address gets at most
	// half of each limit.
	MaxPages    int   `mapstructure:"max_pages"`
	BufferBytes int64 `mapstructure:"buffer_bytes"`

	// MaxExports is how many exports one process sends at a time, at most half of them to one principal. ExportTimeout
	// limits the time of one export, because each export holds a connection to the store and a snapshot of its data.
	MaxExports    int           `mapstructure:"max_exports"`
	ExportTimeout time.Duration `mapstructure:"export_timeout"`

	// DrainTimeout is how long running requests may take once the program ends; exports and requests of kind work, such
	// as retries, are stopped after half of that time.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`

	// MaxBodyBytes limits a request's body, MaxHeaderBytes its headers.
	MaxBodyBytes   int64 `mapstructure:"max_body_bytes"`
	MaxHeaderBytes int   `mapstructure:"max_header_bytes"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Host:              "0.0.0.0",
		Port:              8080,
		StartupTimeout:    30 * time.Second,
		ReadHeaderTimeout: 10 * time.Second,
		BodyTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		RequestTimeout:    30 * time.Second,
		MinWriteRate:      4 << 10,
		MaxPages:          64,
		BufferBytes:       128 << 20,
		MaxExports:        4,
		ExportTimeout:     15 * time.Minute,
		DrainTimeout:      18 * time.Second,
		MaxBodyBytes:      1 << 20,
		MaxHeaderBytes:    64 << 10,
	}
}

// minBuffer lets one principal read one page of the largest size, which needs twice ListPageLimit: once for the page's
// bytes from the store, and once for the answer. A principal may use half of the memory, which doubles this.
const minBuffer = 4 * repository.ListPageLimit

// maxDrain leaves time for the other parts of the program to end, because the whole program must end within 25 seconds.
const maxDrain = 20 * time.Second

// Validate reports every setting that cannot work.
func (c Config) Validate() error {
	var problems []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	complain(c.Port < 0 || c.Port > 65535, "port: must be 0 to 65535, is %d", c.Port)
	complain(c.MetricsPort < 0 || c.MetricsPort > 65535, "metrics_port: must be 0 to 65535, is %d", c.MetricsPort)
	complain(c.MetricsPort != 0 && c.MetricsPort == c.Port, "metrics_port: is that of port, %d; 0 serves both there", c.Port)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"startup_timeout", c.StartupTimeout},
		{"read_header_timeout", c.ReadHeaderTimeout},
		{"body_timeout", c.BodyTimeout},
		{"write_timeout", c.WriteTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"request_timeout", c.RequestTimeout},
		{"export_timeout", c.ExportTimeout},
		{"drain_timeout", c.DrainTimeout},
	} {
		complain(d.value <= 0, "%s: must be positive, is %s", d.name, d.value)
	}
	complain(c.DrainTimeout > maxDrain, "drain_timeout: must be at most %s, is %s", maxDrain, c.DrainTimeout)
	complain(c.MinWriteRate <= 0, "min_write_rate: must be positive, is %d", c.MinWriteRate)
	complain(c.MaxPages <= 0, "max_pages: must be positive, is %d", c.MaxPages)
	complain(c.BufferBytes < minBuffer, "buffer_bytes: must be at least %d (two of the largest pages), is %d", int64(minBuffer), c.BufferBytes)
	complain(c.MaxExports <= 0, "max_exports: must be positive, is %d", c.MaxExports)
	complain(c.MaxBodyBytes <= 0, "max_body_bytes: must be positive, is %d", c.MaxBodyBytes)
	complain(c.MaxHeaderBytes <= 0, "max_header_bytes: must be positive, is %d", c.MaxHeaderBytes)
	_, badHosts := address.ParseHosts(c.Hosts)
	_, badProxies := address.ParseProxies(c.TrustedProxies)
	return errors.Join(append(problems, badHosts, badProxies)...)
}

// Address returns the address to listen on.
func (c Config) Address() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

func (c Config) bodies() request.Bodies {
	return request.Bodies{Timeout: c.BodyTimeout, MaxBytes: c.MaxBodyBytes}
}
