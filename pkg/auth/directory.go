package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// maxDocument is the maximum size of an issuer's answer in bytes; a longer answer is an error.
const maxDocument = 1 << 20

// newClient returns a client for requests to the issuer. It follows no redirect, because only keys from the configured
// issuer may decide which tokens are accepted.
func newClient(cfg OIDCConfig) (*http.Client, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   cfg.Timeout,
		ResponseHeaderTimeout: cfg.Timeout,
		MaxIdleConns:          2,
		IdleConnTimeout:       issuerFresh,
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

func fetchKeys(ctx context.Context, client *http.Client, issuer string) ([]jose.JSONWebKey, error) {
	found, err := discover(ctx, client, issuer)
	if err != nil {
		return nil, err
	}
	raw, err := get(ctx, client, found.Keys)
	if err != nil {
		return nil, err
	}
	return decodeKeys(raw)
}

func discoverSignIn(ctx context.Context, client *http.Client, issuer string) (endpoints, error) {
	found, err := discover(ctx, client, issuer)
	if err == nil && (!believable(found.Authorization) || !believable(found.Token)) {
		err = fmt.Errorf("ask issuer %s: its sign-in endpoints are not https URLs", issuer)
	}
	return found, err
}

type endpoints struct {
	Keys          string `json:"jwks_uri"`
	Authorization string `json:"authorization_endpoint"` // URL to which browsers are sent
	Token         string `json:"token_endpoint"`
	// Methods are the authentication methods for clients with a secret; empty means the standard's default.
	Methods []string `json:"token_endpoint_auth_methods_supported"`
}

// discover reads the metadata of the issuer. It checks that answers from the URL of the issuer's keys can be trusted.
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

func get(ctx context.Context, client *http.Client, target string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: the answer is %d", target, answer.StatusCode)
	}
	return io.ReadAll(answer.Body)
}

// bounded is a transport that limits the size of answers.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxDocument)
	return answer, nil
}

// decodeKeys parses a JWKS and skips keys that it cannot parse or that are not public. A set without a key that can be
// used is an error.
func decodeKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New("the key set is not JSON")
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) == nil && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key that can be used")
	}
	return keys, nil
}
