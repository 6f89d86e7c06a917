package token

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// assertionType says that the client's assertion is a JWT (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// errorCodes are the error codes of RFC 6749, section 5.2. Errors show no other code of a token endpoint, because it
// may quote the request and so a secret.
var errorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
}

// endpoint requests tokens by client credentials.
type endpoint struct {
	cfg Config
	// secure returns the TLS settings for connections to the endpoint.
	secure func(address string) (*tls.Config, error)
	// request is used by one call at a time. It remembers how the endpoint accepts the secret: in the header Authorization
	// or in the form.
	request *clientcredentials.Config
}

// FromEndpoint returns a Source of tokens that a token endpoint issues to a client. The function secure returns the TLS
// settings for an address; it is called for each request.
func FromEndpoint(cfg Config, secure func(address string) (*tls.Config, error), report func(error)) *Source {
	e := &endpoint{cfg: cfg, secure: secure, request: &clientcredentials.Config{
		ClientID: cfg.ClientID, TokenURL: cfg.TokenURL, Scopes: cfg.Scopes, EndpointParams: url.Values{},
	}}
	for _, p := range cfg.Parameters {
		e.request.EndpointParams.Add(p.Name, p.Value)
	}
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
	e.request.EndpointParams.Set("client_assertion_type", assertionType)
	e.request.EndpointParams.Set("client_assertion", value.Reveal())
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
		Transport:     wholeSeconds{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// wholeSeconds cuts the fraction off the lifetime in an answer. The library refuses a lifetime with a fraction, which
// Google's local authentication server sends.
type wholeSeconds struct{ next http.RoundTripper }

const maxAnswer = 1 << 20

var lifetimeWithFraction = regexp.MustCompile(`("expires_in"\s*:\s*"?[0-9]+)\.[0-9]+`)

// RoundTrip implements http.RoundTripper.
func (w wholeSeconds) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	body = lifetimeWithFraction.ReplaceAll(body, []byte("$1"))
	whole := *answer
	whole.Body, whole.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return &whole, nil
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
		return errors.New(failed.Err.Error()) // only its text, because a wrapped network error would count as an error of a Kafka broker
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
