package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	testCode   = "code-4711"
	testSecret = "s3cret-of-the-client"
	testReturn = "https://dlq.example.com/sign-in/callback"
)

func newCodeIssuer(t *testing.T) *fakeIssuer {
	t.Helper()
	return newFakeIssuer(t, public(&testKeys()[0].PublicKey, "1", "RS256"))
}

// withClient returns the configuration of a program that signs people in.
func (f *fakeIssuer) withClient() Config {
	cfg := f.config()
	cfg.OIDC.ClientID, cfg.OIDC.RedirectURL = "console", testReturn
	cfg.OIDC.Scopes = []string{"openid", "profile", "groups"}
	return cfg
}

func (f *fakeIssuer) signIn(t *testing.T, cfg Config) *SignIn {
	t.Helper()
	s, err := NewSignIn(cfg, zap.NewNop(), WithClock(f.at.now))
	check.NoError(t, err)
	return s
}

// begin begins a sign-in, and gives the issuer the nonce and the challenge of its URL.
func (f *fakeIssuer) begin(t *testing.T, s *SignIn) (query url.Values, nonce, verifier string) {
	t.Helper()
	address, nonce, verifier, err := s.Begin(t.Context(), "state-1")
	check.NoError(t, err)
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, f.server.URL+"/authorize?") {
		t.Fatalf("got the address %s, %v, want the issuer's", address, err)
	}
	f.nonce, f.challenge = u.Query().Get("nonce"), u.Query().Get("code_challenge")
	return u.Query(), nonce, verifier
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	f := newCodeIssuer(t)
	cfg := f.withClient()
	s := f.signIn(t, cfg)
	query, nonce, verifier := f.begin(t, s)
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "console", "redirect_uri": testReturn, "scope": "openid profile groups",
		"state": "state-1", "nonce": nonce, "code_challenge_method": "S256", "tenant": "1", "code_verifier": "",
	} {
		if got := query.Get(name); got != want {
			t.Errorf("the address has %s %q, want %q", name, got, want)
		}
	}
	if len(nonce) < 26 || len(verifier) < 43 || strings.Contains(query.Encode(), verifier) {
		t.Errorf("got the nonce %q and the verifier %q, want long ones, and the verifier kept", nonce, verifier)
	}
	_, other, second := f.begin(t, s)
	if other == nonce || second == verifier {
		t.Error("two sign-ins have the same nonce or verifier")
	}
	token, expires, err := s.Finish(t.Context(), testCode, second, other)
	if err != nil || !expires.Equal(noon.Add(time.Hour)) {
		t.Fatalf("Finish: got until %s, %v, want an hour", expires, err)
	}
	if f.sent.Get("client_id") != "console" || f.sent.Has("client_secret") || f.sent.Get("redirect_uri") != testReturn || f.password != "" {
		t.Errorf("the client without a secret sent %v", f.sent)
	}
	a, alone := authenticator(t, cfg, f.at), authenticator(t, f.config(), f.at)
	if p, err := as(t, a, "Bearer "+token); err != nil || p.Name != "ana" || !p.May(Operator, "orders.a") {
		t.Errorf("the API: got %+v, %v, want it to let the ID token in", p, err)
	}
	wantName(t, "a token for the API", a, "ana", sign(jose.RS256, testKeys()[0], "1", f.claims()))
	for _, audience := range []string{"console", ""} {
		wantRefused(t, "without a client, a token for "+audience, alone, sign(jose.RS256, testKeys()[0], "1", f.with("aud", audience)))
	}
	wantRefused(t, "a token for another audience", a, sign(jose.RS256, testKeys()[0], "1", f.with("aud", []string{"", "consoles"})))
}

func TestSignIn_ClientWithSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		methods []string
		header  bool
	}{
		"IssuerDoesNotSay": {nil, true},
		"Header":           {[]string{"client_secret_post", "client_secret_basic"}, true},
		"Form":             {[]string{"client_secret_post", "private_key_jwt"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCodeIssuer(t)
			if c.methods != nil {
				f.document = map[string]any{"token_endpoint_auth_methods_supported": c.methods}
			}
			cfg := f.withClient()
			cfg.OIDC.ClientSecretFile = filepath.Join(t.TempDir(), "secret")
			write := func(text string) {
				check.NoError(t, os.WriteFile(cfg.OIDC.ClientSecretFile, []byte(text+"\n"), 0o600))
			}
			write("of before")
			s := f.signIn(t, cfg)
			write(testSecret)
			_, nonce, verifier := f.begin(t, s)
			if _, _, err := s.Finish(t.Context(), testCode, verifier, nonce); err != nil {
				t.Fatal(err)
			}
			got := f.sent.Get("client_secret")
			if c.header {
				got = f.password
			}
			if got != testSecret || f.sent.Has("client_secret") == c.header || (f.user == "console") != c.header {
				t.Errorf("got the secret %q, form %v, user %q; want it once, in the header: %t", got, f.sent, f.user, c.header)
			}
		})
	}
}

func TestSignIn_Refuses(t *testing.T) {
	t.Parallel()
	say := func(status int, body string) func(http.ResponseWriter, string) bool {
		return func(w http.ResponseWriter, token string) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(strings.NewReplacer("TOKEN", token, "CODE", testCode, "SECRET", testSecret).Replace(body)))
			return true
		}
	}
	claim := func(name string, value any) func(*fakeIssuer) {
		return func(f *fakeIssuer) { f.change = func(c map[string]any) { c[name] = value } }
	}
	for name, c := range map[string]struct {
		change func(*fakeIssuer)
		code   string
		kind   error
		says   string
	}{
		"WrongCode": {nil, "other-code", ErrUnauthenticated, "400, invalid_grant"},
		"IssuerRefuses": {
			func(f *fakeIssuer) { f.answer = say(401, `{"error":"invalid_client"}`) }, testCode, ErrUnauthenticated,
			"401, invalid_client",
		},
		"IssuerEchoesAll": {
			func(f *fakeIssuer) { f.answer = say(400, `{"error":"CODE SECRET TOKEN"}`) }, testCode, ErrUnauthenticated,
			"400, an unknown error",
		},
		"IssuerEchoesAsText": {func(f *fakeIssuer) { f.answer = say(400, `CODE SECRET TOKEN`) }, testCode, ErrUnauthenticated, "400, an unknown error"},
		"IssuerIsBroken":     {func(f *fakeIssuer) { f.answer = say(502, `bad gateway SECRET`) }, testCode, entity.ErrUnavailable, "502"},
		"AnswerIsNoJSON":     {func(f *fakeIssuer) { f.answer = say(200, `<html>TOKEN`) }, testCode, entity.ErrUnavailable, "exchange"},
		"NoIDToken": {
			func(f *fakeIssuer) { f.answer = say(200, `{"access_token":"TOKEN"}`) }, testCode, ErrUnauthenticated,
			"no ID token",
		},
		"OtherNonce":       {claim("nonce", "another"), testCode, ErrUnauthenticated, "another sign-in"},
		"NoNonce":          {claim("nonce", nil), testCode, ErrUnauthenticated, "another sign-in"},
		"OtherAudience":    {claim("aud", "dlqs"), testCode, ErrUnauthenticated, "is for"},
		"AudienceIsTheAPI": {claim("aud", "dlq"), testCode, ErrUnauthenticated, "not for the client"},
		"OtherParty":       {claim("azp", "somebody"), testCode, ErrUnauthenticated, "another client"},
		"OtherIssuer":      {claim("iss", "https://evil.example.com"), testCode, ErrUnauthenticated, "the token is invalid"},
		"Expired":          {claim("exp", noon.Add(-time.Minute).Unix()), testCode, ErrUnauthenticated, "exp"},
		"NameOfNoPerson":   {claim("preferred_username", "auto"), testCode, ErrUnauthenticated, "reserved"},
		"TooLong":          {claim("x", strings.Repeat("y", maxBearer)), testCode, ErrUnauthenticated, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCodeIssuer(t)
			if c.change != nil {
				c.change(f)
			}
			cfg := f.withClient()
			cfg.OIDC.ClientSecretFile = filepath.Join(t.TempDir(), "secret")
			check.NoError(t, os.WriteFile(cfg.OIDC.ClientSecretFile, []byte(testSecret), 0o600))
			s := f.signIn(t, cfg)
			_, nonce, verifier := f.begin(t, s)
			token, _, err := s.Finish(t.Context(), c.code, verifier, nonce)
			if token != "" || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got a token of %d bytes, %v, want %v that says %q", len(token), err, c.kind, c.says)
			}
			for _, secret := range []string{c.code, testSecret, verifier, nonce, "eyJ"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error holds %q: %v", secret, err)
				}
			}
		})
	}
}

// The issuer checks the code against the verifier: without the verifier a stolen code is useless. Finish also refuses
// an empty nonce.
func TestSignIn_CodeWithoutItsVerifier(t *testing.T) {
	t.Parallel()
	f := newCodeIssuer(t)
	s := f.signIn(t, f.withClient())
	_, nonce, _ := f.begin(t, s)
	for _, verifier := range []string{"", "guessed"} {
		if token, _, err := s.Finish(t.Context(), testCode, verifier, nonce); token != "" || !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("verifier %q: got a token of %d bytes, %v, want it refused", verifier, len(token), err)
		}
	}
	_, _, verifier := f.begin(t, s)
	if token, _, err := s.Finish(t.Context(), testCode, verifier, ""); token != "" || !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("without a nonce: got a token of %d bytes, %v, want it refused", len(token), err)
	}
}

func TestSignIn_IssuerThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fakeIssuer){
		"Broken":                func(f *fakeIssuer) { f.broken = true },
		"SaysItIsAnother":       func(f *fakeIssuer) { f.document = map[string]any{"issuer": "https://evil.example.com"} },
		"SignsNobodyIn":         func(f *fakeIssuer) { f.document = map[string]any{"authorization_endpoint": ""} },
		"TokensWithoutTLS":      func(f *fakeIssuer) { f.document = map[string]any{"token_endpoint": "http://id.example.com/token"} },
		"AuthorizesWithScripts": func(f *fakeIssuer) { f.document = map[string]any{"authorization_endpoint": "javascript:alert(1)"} },
	} {
		f := newCodeIssuer(t)
		s := f.signIn(t, f.withClient())
		f.set(change)
		if address, _, _, err := s.Begin(t.Context(), "s"); address != "" || !errors.Is(err, entity.ErrUnavailable) {
			t.Errorf("%s: got %q, %v, want ErrUnavailable", name, address, err)
		}
		if token, _, err := s.Finish(t.Context(), testCode, "v", "n"); token != "" || !errors.Is(err, entity.ErrUnavailable) {
			t.Errorf("%s: Finish: got a token of %d bytes, %v, want ErrUnavailable", name, len(token), err)
		}
		f.set(func(f *fakeIssuer) { f.broken, f.document = false, nil })
		if _, _, _, err := s.Begin(t.Context(), "s"); !errors.Is(err, entity.ErrUnavailable) {
			t.Errorf("%s: a moment later: got %v, want the failure shared", name, err)
		}
		f.at.at = f.at.at.Add(issuerPause)
		if _, _, _, err := s.Begin(t.Context(), "s"); err != nil {
			t.Errorf("%s: after it is over: got %v, want it asked again", name, err)
		}
	}
}

// Requests wait for a silent issuer no longer than their own contexts.
func TestSignIn_SilentIssuer(t *testing.T) {
	t.Parallel()
	f, asked := newSilentIssuer(t)
	s := f.signIn(t, f.withClient())
	first, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, _, _, err := s.Begin(first, "s")
		over <- err
	}()
	<-asked
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, _, err := s.Begin(gone, "s"); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("while another waits: got %v, want ErrUnavailable", err)
	}
	cancel()
	if err := <-over; !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("in front: got %v, want ErrUnavailable", err)
	}
}

// Ten sign-ins that begin at the same time cause one request to a silent issuer.
func TestSignIn_SilentIssuerIsAskedOnceForAll(t *testing.T) {
	t.Parallel()
	f, asked := newSilentIssuer(t)
	cfg := f.withClient()
	cfg.OIDC.Timeout = 50 * time.Millisecond
	s := f.signIn(t, cfg)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, _, _, err := s.Begin(t.Context(), "s"); !errors.Is(err, entity.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		})
	}
	all.Wait()
	if n := len(asked); n != 1 {
		t.Errorf("the issuer was asked %d times, want once", n)
	}
}

func TestNewSignIn_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	f := newCodeIssuer(t)
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"OtherMode":     {func(c *Config) { c.Mode = ModeNone }, "client_id"},
		"NoClient":      {func(c *Config) { c.OIDC.ClientID = "" }, "client_id"},
		"MissingSecret": {func(c *Config) { c.OIDC.ClientSecretFile = "/nowhere" }, "auth.oidc.client_secret_file"},
		"WrongRedirect": {func(c *Config) { c.OIDC.RedirectURL = "" }, "auth.oidc.redirect_url"},
	} {
		cfg := f.withClient()
		c.change(&cfg)
		if s, err := NewSignIn(cfg, zap.NewNop()); s != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, %v, want an error with %s", name, s, err, c.says)
		}
		if cfg.SignsIn() != slices.Contains([]string{"MissingSecret", "WrongRedirect"}, name) {
			t.Errorf("%s: SignsIn says %t", name, cfg.SignsIn())
		}
	}
}
