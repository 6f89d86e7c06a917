package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// certificates are the TLS files, read for each connection. While a file is missing or incomplete, or key and
// certificate do not match because only one was replaced, the last valid files are used.
type certificates struct {
	cfg TLSConfig

	mu          sync.Mutex
	authorities *x509.CertPool   // nil: never read
	pair        *tls.Certificate // nil: never read
}

// secure runs the TLS handshake on conn, and closes conn when it fails.
func (c *certificates) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	cfg, err := c.load(address)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("tls handshake with %s: %w", address, err)
	}
	return &answering{Conn: secured}, nil
}

// answering is a connection whose errors say, until the first bytes arrive, that the broker may have refused the client
// certificate. In TLS 1.3 the handshake of a client ends before the broker examines the certificate, and the broker's
// reason is lost when the client has sent its first request by then.
type answering struct {
	net.Conn
	answered atomic.Bool
}

func (c *answering) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, c.explain(err)
}

func (c *answering) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

func (c *answering) explain(err error) error {
	if c.answered.Load() || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return fmt.Errorf("tls: the broker closed the connection after the handshake, perhaps because of the client certificate: %w", err)
}

func (c *certificates) load(address string) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.cfg.ServerName,
		InsecureSkipVerify: c.cfg.InsecureSkipVerify, //nolint:gosec // an operator's choice, off by default
	}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.CAFile != "" {
		if err := orLast(&c.authorities, func() (*x509.CertPool, error) { return readAuthorities(c.cfg.CAFile) }); err != nil {
			return nil, fmt.Errorf("read kafka certificate authority: %w", err)
		}
		cfg.RootCAs = c.authorities
	}
	if c.cfg.CertFile != "" {
		if err := orLast(&c.pair, func() (*tls.Certificate, error) { return readPair(c.cfg.CertFile, c.cfg.KeyFile) }); err != nil {
			return nil, fmt.Errorf("read kafka client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{*c.pair}
	}
	return cfg, nil
}

// orLast calls the function read and stores its result in the parameter last; after a failure the previous result stays
// valid. It returns an error only when there is no result yet.
func orLast[T any](last **T, read func() (*T, error)) error {
	now, err := read()
	if err == nil {
		*last = now
	}
	if *last == nil {
		return err
	}
	return nil
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	return &pair, err
}

// readAuthorities refuses a file that ends within a certificate, because the certificate that is cut off may be needed.
func readAuthorities(path string) (*x509.CertPool, error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool, found := x509.NewCertPool(), false
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		pool.AddCert(authority)
		found = true
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, errors.New(path + " ends within a certificate")
	}
	if !found {
		return nil, errors.New("no certificate in " + path)
	}
	return pool, nil
}
