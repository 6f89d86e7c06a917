package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// mechanism returns nil when the protocol has no SASL.
func (c Config) mechanism() sasl.Mechanism {
	if !c.usesSASL() {
		return nil
	}
	return login{c.SASL}
}

// login is a sasl.Mechanism that reads its secrets when a connection starts.
type login struct {
	cfg SASLConfig
}

func (l login) Name() string { return l.cfg.Mechanism }

func (l login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	username, err := fileOr(l.cfg.UsernameFile, l.cfg.Username)
	if err != nil {
		return nil, nil, fmt.Errorf("read kafka user name: %w", err)
	}
	password, err := fileOr(l.cfg.PasswordFile, string(l.cfg.Password))
	if err != nil {
		return nil, nil, fmt.Errorf("read kafka password: %w", err)
	}
	switch l.cfg.Mechanism {
	case mechanismScramSHA256:
		return startScram(ctx, scram.SHA256, username, password)
	case mechanismScramSHA512:
		return startScram(ctx, scram.SHA512, username, password)
	default:
		return plain.Mechanism{Username: username, Password: password}.Start(ctx)
	}
}

func startScram(ctx context.Context, algorithm scram.Algorithm, username, password string) (sasl.StateMachine, []byte, error) {
	m, err := scram.Mechanism(algorithm, username, password)
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}

func fileOr(path, value string) (string, error) {
	if path == "" {
		return value, nil
	}
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}

// secure runs the TLS handshake on conn, which it closes when that fails.
func (t TLSConfig) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	cfg, err := t.load(address)
	if err != nil {
		conn.Close()
		return nil, err
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("tls handshake with %s: %w", address, err)
	}
	return secured, nil
}

func (t TLSConfig) load(address string) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // an operator's choice, off by default
	}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	if t.CAFile != "" {
		pool, err := readAuthorities(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka certificate authority: %w", err)
		}
		cfg.RootCAs = pool
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("no certificate in " + path)
	}
	return pool, nil
}
