package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// SignIn signs people in at the issuer by the authorization code flow with PKCE. It keeps no state of a sign-in, so
// another replica may finish it. It is safe for concurrent use. Its errors contain no code, token or secret.
type SignIn struct {
	cfg       OIDCConfig
	issuer    *issuer
	endpoints *issuerCache[endpoints]
}

// SignsIn reports whether people can sign in at an issuer: in mode oidc, with a client id.
func (c Config) SignsIn() bool { return c.Mode == ModeOIDC && c.OIDC.ClientID != "" }

// NewSignIn returns a SignIn, for a configuration whose SignsIn is true. It reads files at once and opens no
// connection.
func NewSignIn(cfg Config, log *zap.Logger, change ...Option) (*SignIn, error) {
	o := optionsOf(change)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.SignsIn() {
		return nil, errors.New("auth.oidc.client_id: sign-in needs it, and mode oidc")
	}
	i, err := newIssuer(cfg.OIDC, nil, log, o.now)
	if err != nil {
		return nil, err
	}
	s := &SignIn{cfg: cfg.OIDC, issuer: i, endpoints: &issuerCache[endpoints]{
		ask:     func(ctx context.Context) (endpoints, error) { return discoverSignIn(ctx, i.client, cfg.OIDC.Issuer) },
		timeout: cfg.OIDC.Timeout, stale: issuerFresh, log: log, now: o.now,
	}}
	if _, err := s.secret(); err != nil { // a missing secret must be reported when the program starts
		return nil, err
	}
	return s, nil
}

// Begin returns the URL to send the browser to, and the nonce and verifier that Finish needs when the browser returns
// with a code and the state; the caller stores both for that browser only. It returns within the issuer's timeout. The
// error is of kind entity.ErrUnavailable; while the issuer is unavailable the error is cached for some seconds.
func (s *SignIn) Begin(ctx context.Context, state string) (address, nonce, verifier string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return "", "", "", fmt.Errorf("begin a sign-in: %w", err)
	}
	nonce, verifier = rand.Text(), oauth2.GenerateVerifier()
	address = client.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	return address, nonce, verifier, nil
}

// Finish exchanges a code for the ID token, which the authenticator of the same configuration accepts until expires.
// The error is ErrUnauthenticated, or of kind entity.ErrUnavailable. It returns within twice the issuer's timeout.
func (s *SignIn) Finish(ctx context.Context, code, verifier, nonce string) (token string, expires time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.Timeout)
	defer cancel()
	token, err = s.exchange(ctx, code, verifier)
	if err == nil {
		expires, err = s.inspect(ctx, token, nonce)
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("finish a sign-in: %w", err)
	}
	return token, expires, nil
}

// inspect accepts the tokens that the authenticator accepts, if they were made for this client and this sign-in.
func (s *SignIn) inspect(ctx context.Context, token, nonce string) (expires time.Time, err error) {
	if len(token) > maxBearer {
		return expires, refuse("an ID token of %d bytes is too long", len(token))
	}
	claims, err := s.issuer.check(ctx, token)
	if err != nil {
		return expires, err
	}
	if _, err := s.issuer.principal(claims); err != nil {
		return expires, err
	}
	said, _ := claims["nonce"].(string)
	party, named := claims["azp"]
	switch {
	case nonce == "" || subtle.ConstantTimeCompare([]byte(said), []byte(nonce)) != 1:
		return expires, refuse("the ID token belongs to another sign-in")
	case !slices.Contains(textsAt(claims, "aud"), s.cfg.ClientID):
		return expires, refuse("the ID token is for %q, not for the client", textsAt(claims, "aud"))
	case named && party != s.cfg.ClientID:
		return expires, refuse("the ID token was made for another client")
	}
	expires, _ = numericDate(claims["exp"]) // the claim is valid, since check has verified it
	return expires, nil
}

func (s *SignIn) exchange(ctx context.Context, code, verifier string) (string, error) {
	client, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, s.issuer.client)
	answer, err := client.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", exchangeError(err)
	}
	token, _ := answer.Extra("id_token").(string)
	if token == "" {
		return "", refuse("the issuer's answer has no ID token")
	}
	return token, nil
}

// errorCode matches an issuer's error names. Other text is not put into errors, because an issuer may repeat what was
// sent to it.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// exchangeError distinguishes an issuer that refuses the code from an issuer that does not answer, or answers 429 or
// 5xx.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return fmt.Errorf("exchange the code: %w: %w", err, entity.ErrUnavailable)
	}
	name := refused.ErrorCode
	if !errorCode.MatchString(name) {
		name = "an unknown error"
	}
	status := refused.Response.StatusCode
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		return fmt.Errorf("exchange the code: the issuer answers %d, %s: %w", status, name, entity.ErrUnavailable)
	}
	return refuse("exchange the code: the issuer answers %d, %s", status, name)
}

func (s *SignIn) client(ctx context.Context) (*oauth2.Config, error) {
	at, err := s.endpoints.get(ctx, func(endpoints) bool { return true })
	if err != nil {
		return nil, err
	}
	password, err := s.secret()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, entity.ErrUnavailable)
	}
	return &oauth2.Config{
		ClientID: s.cfg.ClientID, ClientSecret: password.Reveal(),
		RedirectURL: s.cfg.RedirectURL, Scopes: s.cfg.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: at.Authorization, TokenURL: at.Token, AuthStyle: styleOf(at.Methods, password)},
	}, nil
}

// secret reads the file each time, so that a new secret is used without a restart.
func (s *SignIn) secret() (secret.Text, error) {
	if s.cfg.ClientSecretFile == "" {
		return "", nil
	}
	text, err := secret.FromFile(s.cfg.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("auth.oidc.client_secret_file: %w", err)
	}
	return text, nil
}

// styleOf chooses how the client authenticates. It does not try several ways, because a code can be used only once.
func styleOf(methods []string, password secret.Text) oauth2.AuthStyle {
	if password == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}
