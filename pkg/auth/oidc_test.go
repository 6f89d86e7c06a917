package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// testKeys take long to make; each is used by several tests.
var testKeys = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		keys[i], _ = rsa.GenerateKey(rand.Reader, minRSA)
	}
	return keys
})

// fakeIssuer is an issuer that publishes keys and counts who asks.
type fakeIssuer struct {
	server *httptest.Server
	asked  atomic.Int32 // for keys

	mu     sync.Mutex
	keys   []any
	broken bool
	says   string // another issuer than its own; "" for its own
	body   func(http.ResponseWriter)
}

func newFakeIssuer(t *testing.T, keys ...any) *fakeIssuer {
	t.Helper()
	f := &fakeIssuer{keys: keys}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.broken:
		http.Error(w, "broken", http.StatusBadGateway)
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		issuer := f.server.URL
		if f.says != "" {
			issuer = f.says
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "jwks_uri": f.server.URL + "/keys"})
	case r.URL.Path == "/elsewhere":
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": f.keys})
	case r.URL.Path == "/keys":
		f.asked.Add(1)
		if f.body != nil {
			f.body(w)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": f.keys})
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeIssuer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func public(key crypto.PublicKey, id, algorithm string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: algorithm, Use: "sig"}
}

func (f *fakeIssuer) config() Config {
	cfg := DefaultConfig()
	cfg.Mode = ModeOIDC
	cfg.OIDC.Issuer, cfg.OIDC.Audience = f.server.URL, "dlq"
	cfg.OIDC.Grants = []ClaimGrantConfig{
		{"ops", Operator, []string{"orders.*"}}, {"ops", Edit, []string{"orders.*"}}, {"boss", Admin, []string{"*"}},
	}
	return cfg
}

func (f *fakeIssuer) open(t *testing.T, at *clock) Authenticator {
	t.Helper()
	a, err := New(f.config(), zap.NewNop(), WithClock(at.now))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// claims are right; change makes them wrong.
func (f *fakeIssuer) claims(change ...func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": f.server.URL, "aud": []string{"other", "dlq"}, "sub": "4711", "preferred_username": "ana",
		"exp": noon.Add(time.Hour).Unix(), "iat": noon.Unix(), "groups": []string{"staff", "ops"},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if id != "" {
		options = options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + token
}

func TestOIDC_Accepts(t *testing.T) {
	t.Parallel()
	rsaKey := testKeys()[0]
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeIssuer(t, public(&rsaKey.PublicKey, "a", "RS256"), public(&ecKey.PublicKey, "e", ""),
		map[string]any{"kty": "OKP", "crv": "Ed448", "kid": "x", "x": "AA"}, map[string]any{"kty": "oct", "kid": "s", "k": "c2VjcmV0"})
	a := f.open(t, &clock{noon})
	for name, c := range map[string]struct {
		token string
		want  string
		may   bool
	}{
		"RS256":          {sign(t, jose.RS256, rsaKey, "a", f.claims()), "ana", true},
		"ES256":          {sign(t, jose.ES256, ecKey, "e", f.claims()), "ana", true},
		"WithoutKeyID":   {sign(t, jose.RS256, rsaKey, "", f.claims()), "ana", true},
		"NameFromSub":    {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { delete(c, "preferred_username") })), "4711", true},
		"OneAudience":    {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { c["aud"] = "dlq" })), "ana", true},
		"ExpiredALittle": {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { c["exp"] = noon.Add(-29 * time.Second).Unix() })), "ana", true},
		"EarlyALittle":   {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { c["nbf"] = noon.Add(29 * time.Second).Unix() })), "ana", true},
		"NoGroups":       {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { delete(c, "groups") })), "ana", false},
		"OneGroupAsText": {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { c["groups"] = "ops" })), "ana", true},
		"StrangeGroups":  {sign(t, jose.RS256, rsaKey, "a", f.claims(func(c map[string]any) { c["groups"] = map[string]any{"ops": true} })), "ana", false},
	} {
		p, err := as(t, a, c.token)
		if err != nil || p.Name != c.want || p.May(Operator, "orders.a") != c.may || p.May(Edit, "orders.a") != c.may || p.May(Operator, "x") {
			t.Errorf("%s: got %+v, %v, want %s, operator of orders.*: %t", name, p, err, c.want, c.may)
		}
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
}

func TestOIDC_Refuses(t *testing.T) {
	t.Parallel()
	key, strange := testKeys()[0], testKeys()[1]
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	enc := public(&key.PublicKey, "enc", "RS256")
	enc.Use = "enc"
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"), enc, public(&weak.PublicKey, "weak", "RS256"),
		map[string]any{"kty": "oct", "kid": "s", "k": base64.RawURLEncoding.EncodeToString(secret)})
	a := f.open(t, &clock{noon})
	right := sign(t, jose.RS256, key, "a", f.claims())
	with := func(name string, value any) string {
		return sign(t, jose.RS256, key, "a", f.claims(func(c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}))
	}
	parts := strings.Split(right, ".")
	none := "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	forged := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+f.server.URL+`","aud":"dlq","sub":"x","exp":99999999999}`)) + "." + parts[2]
	for name, token := range map[string]string{
		"WrongIssuer":             with("iss", "https://evil.example.com"),
		"NoIssuer":                with("iss", nil),
		"WrongAudience":           with("aud", []string{"other"}),
		"NoAudience":              with("aud", nil),
		"Expired":                 with("exp", noon.Add(-31*time.Second).Unix()),
		"NoExpiry":                with("exp", nil),
		"ExpiryIsText":            with("exp", "2099-01-01T00:00:00Z"),
		"NotYetValid":             with("nbf", noon.Add(31*time.Second).Unix()),
		"IssuedInTheFuture":       with("iat", noon.Add(31*time.Second).Unix()),
		"NoName":                  sign(t, jose.RS256, key, "a", f.claims(func(c map[string]any) { delete(c, "sub"); delete(c, "preferred_username") })),
		"NameOfNoPerson":          with("preferred_username", "auto"),
		"NameWithControls":        with("preferred_username", "a\nb"),
		"StrangeKey":              sign(t, jose.RS256, strange, "a", f.claims()),
		"StrangeKeyWithoutID":     sign(t, jose.RS256, strange, "", f.claims()),
		"UnknownKeyID":            sign(t, jose.RS256, strange, "zz", f.claims()),
		"KeyForEncryption":        sign(t, jose.RS256, key, "enc", f.claims()),
		"WeakKey":                 sign(t, jose.RS256, weak, "weak", f.claims()),
		"OtherAlgorithm":          sign(t, jose.PS256, key, "a", f.claims()),
		"SecretIsThePublicKey":    sign(t, jose.HS256, []byte(secret), "a", f.claims()),
		"SecretIsPublished":       sign(t, jose.HS256, []byte(secret), "s", f.claims()),
		"AlgorithmNone":           none,
		"AlgorithmNoneWithKey":    strings.Replace(none, "Bearer ", "Bearer ", 1) + parts[2],
		"ForgedClaims":            forged,
		"NoSignature":             parts[0] + "." + parts[1] + ".",
		"TwoParts":                parts[0] + "." + parts[1],
		"Garbage":                 "Bearer a.b.c",
		"Oversized":               "Bearer " + strings.Repeat("a", maxBearer+1),
		"OversizedClaims":         with("x", strings.Repeat("y", maxBearer)),
		"JSONInsteadOfCompact":    `Bearer {"payload":"` + parts[1] + `","signatures":[]}`,
		"ClaimsAreNoObject":       sign(t, jose.RS256, key, "a", []string{"x"}),
		"AStaticToken":            "Bearer dlqm_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"EmbeddedKeyDoesNotCount": embedded(t, strange, f.claims()),
	} {
		p, err := as(t, a, token)
		wantRefused(t, name, p, err)
		if err != nil && len(token) > 20 && strings.Contains(err.Error(), token[7:]) {
			t.Errorf("%s: the error holds the token", name)
		}
	}
	if p, err := as(t, a, right); err != nil || p.Name != "ana" {
		t.Errorf("the right token: got %+v, %v, want ana", p, err)
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once: unknown keys must not make us ask without end", n)
	}
}

// embedded signs with a key that stands in the token itself.
func embedded(t *testing.T, key *rsa.PrivateKey, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(claims)
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, _ := signed.CompactSerialize()
	return "Bearer " + token
}

func TestOIDC_RotatedKeyIsFetched(t *testing.T) {
	t.Parallel()
	before, after := testKeys()[0], testKeys()[1]
	f := newFakeIssuer(t, public(&before.PublicKey, "1", "RS256"))
	at := &clock{noon}
	a := f.open(t, at)
	old, rotated := sign(t, jose.RS256, before, "1", f.claims()), sign(t, jose.RS256, after, "2", f.claims())
	if _, err := as(t, a, old); err != nil {
		t.Fatal(err)
	}
	f.set(func() { f.keys = []any{public(&after.PublicKey, "2", "RS256")} })
	p, err := as(t, a, rotated)
	wantRefused(t, "too soon after the last question", p, err)
	at.at = at.at.Add(issuerPause)
	if _, err := as(t, a, rotated); err != nil {
		t.Errorf("after the pause: got %v, want the new key fetched", err)
	}
	p, err = as(t, a, old)
	wantRefused(t, "the withdrawn key", p, err)
	if n := f.asked.Load(); n != 2 {
		t.Errorf("the keys were fetched %d times, want twice", n)
	}
}

// An issuer that cannot be reached is nobody's fault who sends a token, and keys
// that are known go on counting for a day.
func TestOIDC_IssuerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "1", "RS256"))
	f.broken = true
	at := &clock{noon}
	a := f.open(t, at)
	token := sign(t, jose.RS256, key, "1", f.claims(func(c map[string]any) { c["exp"] = noon.Add(100 * time.Hour).Unix() }))
	want := func(when string, kind error) {
		t.Helper()
		if _, err := as(t, a, token); !errors.Is(err, kind) || kind == nil && err != nil || errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: got %v, want %v", when, err, kind)
		}
	}
	want("at first", entity.ErrUnavailable)
	f.set(func() { f.broken = false })
	want("too soon", entity.ErrUnavailable)
	at.at = at.at.Add(issuerPause)
	want("back", nil)
	f.set(func() { f.broken = true })
	at.at = at.at.Add(issuerFresh)
	want("gone again", nil)
	at.at = at.at.Add(keysStale)
	want("gone for a day", entity.ErrUnavailable)
	if _, err := as(t, a, "Bearer garbage"); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("garbage: got %v, want it refused whoever answers", err)
	}
	f.set(func() { f.broken = false })
	at.at = at.at.Add(issuerPause)
	want("back again", nil)
}

func TestOIDC_IssuerThatMisbehaves(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	set, _ := json.Marshal(map[string]any{"keys": []any{public(&key.PublicKey, "1", "RS256")}})
	for name, change := range map[string]func(*fakeIssuer){
		"SaysItIsAnother": func(f *fakeIssuer) { f.says = "https://evil.example.com" },
		"EndlessKeys": func(f *fakeIssuer) {
			f.body = func(w http.ResponseWriter) {
				_, _ = w.Write(append(bytes.Repeat([]byte(" "), maxDocument), set...))
			}
		},
		"NoKeys":  func(f *fakeIssuer) { f.keys = nil },
		"NotJSON": func(f *fakeIssuer) { f.body = func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) } },
		"Redirects": func(f *fakeIssuer) {
			f.body = func(w http.ResponseWriter) { w.Header().Set("Location", "/elsewhere"); w.WriteHeader(http.StatusFound) }
		},
	} {
		f := newFakeIssuer(t, public(&key.PublicKey, "1", "RS256"))
		change(f)
		if p, err := as(t, f.open(t, &clock{noon}), sign(t, jose.RS256, key, "1", f.claims())); !errors.Is(err, entity.ErrUnavailable) || p.Name != "" {
			t.Errorf("%s: got %+v, %v, want ErrUnavailable", name, p, err)
		}
	}
}

// A request does not wait longer than it lives for an issuer that is silent.
func TestOIDC_SilentIssuer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	f := &fakeIssuer{server: silent}
	a := f.open(t, &clock{noon})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", sign(t, jose.RS256, testKeys()[0], "1", f.claims()))
	if _, err := a.Authenticate(ctx, r); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func TestOIDC_CAFile(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := &fakeIssuer{keys: []any{public(&key.PublicKey, "1", "RS256")}}
	f.server = httptest.NewTLSServer(f)
	defer f.server.Close()
	cfg := f.config()
	token := sign(t, jose.RS256, key, "1", f.claims())
	for _, trusted := range []bool{false, true} {
		if trusted {
			cfg.OIDC.CAFile = filepath.Join(t.TempDir(), "ca.pem")
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
			if err := os.WriteFile(cfg.OIDC.CAFile, ca, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := New(cfg, zap.NewNop(), WithClock((&clock{noon}).now))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := as(t, a, token); (err == nil) != trusted || !trusted && !errors.Is(err, entity.ErrUnavailable) {
			t.Errorf("authority known %t: got %v", trusted, err)
		}
	}
	cfg.OIDC.CAFile = "/nowhere"
	if _, err := New(cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "auth.oidc.ca_file") {
		t.Errorf("missing authority: got %v, want an error with the key", err)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	claims := map[string]any{
		"groups": []any{"a", 1.0, "b"}, "one": "x", "https://e.com/roles": []any{"c"},
		"realm": map[string]any{"access": map[string]any{"roles": []any{"d"}}},
	}
	for path, want := range map[string]string{
		"groups": "a b", "one": "x", "https://e.com/roles": "c", "realm.access.roles": "d",
		"realm.access": "", "realm.none.roles": "", "one.x": "", "": "", "none": "",
	} {
		if got := strings.Join(textsAt(claims, path), " "); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
