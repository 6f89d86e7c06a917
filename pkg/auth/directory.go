package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	found, err := discover(ctx, d.client, d.issuer)
	d.keys = found.Keys
	return err
}

// endpoints are what an issuer says of itself.
type endpoints struct {
	Keys          string `json:"jwks_uri"`
	Authorization string `json:"authorization_endpoint"` // for browsers
	Token         string `json:"token_endpoint"`
	// Methods are how clients with a secret may say who they are. An issuer that does
	// not say takes what the standard has as its default.
	Methods []string `json:"token_endpoint_auth_methods_supported"`
}

// discover asks the issuer. Where its keys are can be believed.
func discover(ctx context.Context, client *http.Client, issuer string) (endpoints, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return endpoints{}, fmt.Errorf("ask issuer %s: %w", issuer, err)
	}
	var found endpoints
	if err := provider.Claims(&found); err != nil {
		return endpoints{}, fmt.Errorf("ask issuer %s: %w", issuer, err)
	}
	if !believable(found.Keys) {
		return endpoints{}, fmt.Errorf("ask issuer %s: its keys are not at an https URL", issuer)
	}
	return found, nil
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
