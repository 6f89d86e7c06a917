package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// maxDocument bounds what is read of an issuer's answer, in bytes.
const maxDocument = 1 << 20

// directory finds an issuer's keys. It is used by one question at a time.
type directory struct {
	issuer string
	client *http.Client
	keys   string // URL of the key set; "" while not known
}

// newClient returns a client for the issuer alone. It follows no redirect: where
// keys are is what decides who is believed.
func newClient(cfg OIDCConfig) (*http.Client, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   cfg.Timeout,
		ResponseHeaderTimeout: cfg.Timeout,
		MaxIdleConns:          2,
		IdleConnTimeout:       keysFresh,
		ForceAttemptHTTP2:     true,
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("auth.oidc.ca_file: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("auth.oidc.ca_file: %s has no certificate", cfg.CAFile)
		}
	}
	return &http.Client{
		Transport:     bounded{transport},
		Timeout:       cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// fetch returns the keys. Where they are it asks once, and again when they are no
// longer there.
func (d *directory) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	if d.keys == "" {
		if err := d.discover(ctx); err != nil {
			return nil, err
		}
	}
	raw, err := d.get(ctx, d.keys)
	if err != nil {
		d.keys = ""
		return nil, err
	}
	return decodeKeys(raw)
}

func (d *directory) discover(ctx context.Context) error {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, d.client), d.issuer)
	if err != nil {
		return fmt.Errorf("ask issuer %s: %w", d.issuer, err)
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return fmt.Errorf("ask issuer %s: %w", d.issuer, err)
	}
	u, err := url.Parse(document.Keys)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && thisMachine(u.Hostname())) {
		return fmt.Errorf("ask issuer %s: its keys are not at an https URL", d.issuer)
	}
	d.keys = document.Keys
	return nil
}

func (d *directory) get(ctx context.Context, target string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	answer, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: the answer is %d", target, answer.StatusCode)
	}
	return io.ReadAll(answer.Body)
}

// bounded ends answers that are too long.
type bounded struct{ next http.RoundTripper }

// RoundTrip bounds the answer's body.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &boundedBody{answer.Body, maxDocument}
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

var errTooLong = errors.New("the answer is too long")

// Read fails once more has come than is allowed.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
