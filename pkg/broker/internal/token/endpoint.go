package token

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// assertionType says that the client's assertion is a JWT (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// errorCodes are the codes of RFC 6749, section 5.2. Others may quote the request, so no error shows them.
var errorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
}

// endpoint requests tokens by client credentials.
type endpoint struct {
	cfg Config
	// secure returns the settings of TLS for a host.
	secure func(address string) (*tls.Config, error)
	// request is used by one call at a time. It remembers in which of two ways the endpoint accepts the secret.
	request *clientcredentials.Config
}

// FromEndpoint returns a Source of tokens that a token endpoint issues to a client. Secure returns the settings of TLS
// for an address; it is called for each request.
func FromEndpoint(cfg Config, secure func(address string) (*tls.Config, error), report func(error)) *Source {
	e := &endpoint{cfg: cfg, secure: secure, request: &clientcredentials.Config{
		ClientID: cfg.ClientID, TokenURL: cfg.TokenURL, Scopes: cfg.Scopes,
	}}
	return newSource(e.host(), e.fetch, report)
}

func (e *endpoint) host() string {
	u, err := url.Parse(e.cfg.TokenURL)
	if err != nil {
		return ""
	}
	return u.Host
}

func (e *endpoint) fetch(ctx context.Context) (issued, error) {
	if err := e.readCredentials(); err != nil {
		return issued{}, err
	}
	client, err := e.client()
	if err != nil {
		return issued{}, err
	}
	sent := time.Now()
	answer, err := e.request.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return issued{}, withoutSecrets(err)
	}
	token := issued{value: secret.Text(answer.AccessToken), expires: answer.Expiry}
	if token.expires.IsZero() {
		token.expires = sent.Add(unknownLifetime)
	}
	return token, nil
}

// readCredentials reads the file with the client's secret or assertion.
func (e *endpoint) readCredentials() error {
	if e.cfg.AssertionFile == "" {
		value, err := readText(e.cfg.ClientSecretFile)
		e.request.ClientSecret = value.Reveal()
		return err
	}
	value, err := readText(e.cfg.AssertionFile)
	e.request.AuthStyle = oauth2.AuthStyleInParams
	e.request.EndpointParams = url.Values{"client_assertion_type": {assertionType}, "client_assertion": {value.Reveal()}}
	return err
}

// client returns a client for one request. It follows no redirect, because the request has the client's secret.
func (e *endpoint) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if u, err := url.Parse(e.cfg.TokenURL); err == nil && u.Scheme == "https" {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		if transport.TLSClientConfig, err = e.secure(u.Hostname() + ":" + port); err != nil {
			return nil, err
		}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// withoutSecrets returns an error with the status or the cause of a failed request, but nothing of its URL, its body or
// the answer's body.
func withoutSecrets(err error) error {
	var answer *oauth2.RetrieveError
	var failed *url.Error
	switch {
	case errors.As(err, &answer):
		return refusal(answer)
	case errors.As(err, &failed) && failed.Timeout():
		return fmt.Errorf("no answer within %s", fetchTimeout)
	case errors.As(err, &failed):
		return errors.New(failed.Err.Error()) // a network error of its own kind would look like one of the broker
	default:
		return errors.New("answer has no token (RFC 6749)")
	}
}

func refusal(answer *oauth2.RetrieveError) error {
	status := answer.Response.StatusCode
	text := fmt.Sprintf("status %d", status)
	if slices.Contains(errorCodes, answer.ErrorCode) {
		text += " " + answer.ErrorCode
	}
	switch {
	case status >= 300 && status < 400:
		return errors.New(text + ": redirects are not followed")
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%s: %w", text, ErrRefused)
	}
	return errors.New(text)
}
