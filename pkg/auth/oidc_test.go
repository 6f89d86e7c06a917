package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// testKeys are slow to generate; several tests share them.
var testKeys = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		keys[i], _ = rsa.GenerateKey(rand.Reader, minRSA)
	}
	return keys
})

// fakeIssuer is an issuer that publishes keys and counts the requests for them. It also signs people in: it exchanges
// its single code, with the verifier of the sign-in that began last, for an ID token.
type fakeIssuer struct {
	server *httptest.Server
	asked  atomic.Int32 // number of requests for keys

	mu       sync.Mutex
	at       *clock
	keys     []any
	broken   bool
	body     func(http.ResponseWriter) // if set, writes the answer to a request for the keys
	document map[string]any            // members that replace members of the metadata
	change   func(map[string]any)      // changes the ID token's claims; nil: no change
	// answer writes the response of the token endpoint. When it returns false, the endpoint answers with the ID token.
	answer func(http.ResponseWriter, string) bool

	nonce, challenge string     // parameters of the sign-in address that was opened last
	sent             url.Values // form of the last request to the token endpoint
	user, password   string     // user and password in that request's Authorization header
}

func newFakeIssuer(t *testing.T, keys ...any) *fakeIssuer {
	t.Helper()
	f := &fakeIssuer{keys: keys, at: &clock{noon}}
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
		says := map[string]any{
			"issuer": f.server.URL, "jwks_uri": f.server.URL + "/keys",
			"authorization_endpoint": f.server.URL + "/authorize?tenant=1", "token_endpoint": f.server.URL + "/token",
		}
		maps.Copy(says, f.document)
		_ = json.NewEncoder(w).Encode(says)
	case r.URL.Path == "/token":
		f.exchange(w, r)
	case r.URL.Path == "/keys" || r.URL.Path == "/elsewhere":
		if f.asked.Add(1); f.body != nil && r.URL.Path == "/keys" {
			f.body(w)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": f.keys})
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeIssuer) exchange(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	f.sent = r.PostForm
	f.user, f.password, _ = r.BasicAuth()
	claims := f.claims(func(c map[string]any) { c["aud"], c["nonce"] = "console", f.nonce })
	if f.change != nil {
		f.change(claims)
	}
	token := strings.TrimPrefix(sign(jose.RS256, testKeys()[0], "1", claims), "Bearer ")
	if f.answer != nil && f.answer(w, token) {
		return
	}
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if r.PostForm.Get("code") != testCode || base64.RawURLEncoding.EncodeToString(sum[:]) != f.challenge {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": "invalid_grant", "error_description": "not the code: " + r.PostForm.Get("code")})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
}

func (f *fakeIssuer) set(change func(*fakeIssuer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
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

func (f *fakeIssuer) open(t *testing.T) Authenticator {
	t.Helper()
	return authenticator(t, f.config(), f.at)
}

// wantAsked checks how often the keys were requested.
func (f *fakeIssuer) wantAsked(t *testing.T, times int32) {
	t.Helper()
	if n := f.asked.Load(); n != times {
		t.Errorf("the keys were fetched %d times, want %d", n, times)
	}
}

// claims returns valid claims, changed by the functions.
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

// with returns valid claims in which one claim has another value, or is missing when value is nil.
func (f *fakeIssuer) with(name string, value any) map[string]any {
	return f.claims(func(c map[string]any) {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	})
}

// embedded is the id of a key that the token itself contains.
const embedded = "embedded"

func sign(algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	options := (&jose.SignerOptions{EmbedJWK: id == embedded}).WithType("JWT")
	if id != "" && id != embedded {
		options = options.WithHeader("kid", id)
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options))
	text, raw := claims.(json.RawMessage) // a json.RawMessage is signed byte for byte, so that a test can sign invalid claims
	if !raw {
		text = must(json.Marshal(claims))
	}
	return "Bearer " + must(must(signer.Sign(text)).CompactSerialize())
}

func TestOIDC_Accepts(t *testing.T) {
	t.Parallel()
	rsaKey := testKeys()[0]
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	f := newFakeIssuer(t, public(&rsaKey.PublicKey, "a", "RS256"), public(&ecKey.PublicKey, "e", ""),
		map[string]any{"kty": "OKP", "crv": "Ed448", "kid": "x", "x": "AA"}, map[string]any{"kty": "oct", "kid": "s", "k": "c2VjcmV0"})
	a := f.open(t)
	for name, c := range map[string]struct {
		token string
		want  string
		may   bool
	}{
		"RS256":          {sign(jose.RS256, rsaKey, "a", f.claims()), "ana", true},
		"ES256":          {sign(jose.ES256, ecKey, "e", f.claims()), "ana", true},
		"WithoutKeyID":   {sign(jose.RS256, rsaKey, "", f.claims()), "ana", true},
		"NameFromSub":    {sign(jose.RS256, rsaKey, "a", f.with("preferred_username", nil)), "4711", true},
		"OneAudience":    {sign(jose.RS256, rsaKey, "a", f.with("aud", "dlq")), "ana", true},
		"ExpiredALittle": {sign(jose.RS256, rsaKey, "a", f.with("exp", noon.Add(-29*time.Second).Unix())), "ana", true},
		"EarlyALittle":   {sign(jose.RS256, rsaKey, "a", f.with("nbf", noon.Add(29*time.Second).Unix())), "ana", true},
		"NoGroups":       {sign(jose.RS256, rsaKey, "a", f.with("groups", nil)), "ana", false},
		"OneGroupAsText": {sign(jose.RS256, rsaKey, "a", f.with("groups", "ops")), "ana", true},
		"StrangeGroups":  {sign(jose.RS256, rsaKey, "a", f.with("groups", map[string]any{"ops": true})), "ana", false},
	} {
		p, err := as(t, a, c.token)
		if err != nil || p.Name != c.want || p.May(Operator, "orders.a") != c.may || p.May(Edit, "orders.a") != c.may || p.May(Operator, "x") {
			t.Errorf("%s: got %+v, %v, want %s, operator of orders.*: %t", name, p, err, c.want, c.may)
		}
	}
	f.wantAsked(t, 1)
}

func TestOIDC_Refuses(t *testing.T) {
	t.Parallel()
	key, strange := testKeys()[0], testKeys()[1]
	weak := must(rsa.GenerateKey(rand.Reader, 1024))
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(&key.PublicKey))})
	enc := public(&key.PublicKey, "enc", "RS256")
	enc.Use = "enc"
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"), enc, public(&weak.PublicKey, "weak", "RS256"),
		map[string]any{"kty": "oct", "kid": "s", "k": base64.RawURLEncoding.EncodeToString(secret)})
	a := f.open(t)
	right := sign(jose.RS256, key, "a", f.claims())
	with := func(name string, value any) string { return sign(jose.RS256, key, "a", f.with(name, value)) }
	parts := strings.Split(right, ".")
	none := "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	forged := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+f.server.URL+`","aud":"dlq","sub":"x","exp":99999999999}`)) + "." + parts[2]
	for name, token := range map[string]string{
		"WrongIssuer":       with("iss", "https://evil.example.com"),
		"NoIssuer":          with("iss", nil),
		"WrongAudience":     with("aud", []string{"other"}),
		"NoAudience":        with("aud", nil),
		"Expired":           with("exp", noon.Add(-31*time.Second).Unix()),
		"NoExpiry":          with("exp", nil),
		"ExpiryIsText":      with("exp", "2099-01-01T00:00:00Z"),
		"NotYetValid":       with("nbf", noon.Add(31*time.Second).Unix()),
		"IssuedInTheFuture": with("iat", noon.Add(31*time.Second).Unix()),
		"NoName": sign(jose.RS256, key, "a", f.claims(func(c map[string]any) {
			delete(c, "sub")
			delete(c,
				"preferred_username")
		})),
		"NameOfNoPerson":          with("preferred_username", "auto"),
		"NameWithControls":        with("preferred_username", "a\nb"),
		"StrangeKey":              sign(jose.RS256, strange, "a", f.claims()),
		"StrangeKeyWithoutID":     sign(jose.RS256, strange, "", f.claims()),
		"UnknownKeyID":            sign(jose.RS256, strange, "zz", f.claims()),
		"KeyForEncryption":        sign(jose.RS256, key, "enc", f.claims()),
		"WeakKey":                 sign(jose.RS256, weak, "weak", f.claims()),
		"OtherAlgorithm":          sign(jose.PS256, key, "a", f.claims()),
		"SecretIsThePublicKey":    sign(jose.HS256, []byte(secret), "a", f.claims()),
		"SecretIsPublished":       sign(jose.HS256, []byte(secret), "s", f.claims()),
		"AlgorithmNone":           none,
		"AlgorithmNoneWithKey":    none + parts[2],
		"ForgedClaims":            forged,
		"NoSignature":             parts[0] + "." + parts[1] + ".",
		"TwoParts":                parts[0] + "." + parts[1],
		"Garbage":                 "Bearer a.b.c",
		"Oversized":               "Bearer " + strings.Repeat("a", maxBearer+1),
		"OversizedClaims":         with("x", strings.Repeat("y", maxBearer)),
		"JSONInsteadOfCompact":    `Bearer {"payload":"` + parts[1] + `","signatures":[]}`,
		"ClaimsAreNoObject":       sign(jose.RS256, key, "a", []string{"x"}),
		"AStaticToken":            "Bearer dlqm_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"EmbeddedKeyDoesNotCount": sign(jose.RS256, strange, embedded, f.claims()),
	} {
		wantRefused(t, name, a, token)
	}
	wantName(t, "the right token", a, "ana", right)
	f.wantAsked(t, 1) // the unknown key ids of the tokens above must cause no further request for keys
}

func TestOIDC_RotatedKeyIsFetched(t *testing.T) {
	t.Parallel()
	before, after := testKeys()[0], testKeys()[1]
	f := newFakeIssuer(t, public(&before.PublicKey, "1", "RS256"))
	a := f.open(t)
	old, rotated := sign(jose.RS256, before, "1", f.claims()), sign(jose.RS256, after, "2", f.claims())
	wantName(t, "before", a, "ana", old)
	f.set(func(f *fakeIssuer) { f.keys = []any{public(&after.PublicKey, "2", "RS256")} })
	wantRefused(t, "too soon after the last question", a, rotated)
	f.at.at = f.at.at.Add(issuerPause)
	wantName(t, "after the pause", a, "ana", rotated)
	wantRefused(t, "the withdrawn key", a, old)
	f.wantAsked(t, 2)
}

// While the issuer is unreachable and a signature cannot be checked, the token is not reported as invalid. Keys that
// were read before stay valid for a day.
func TestOIDC_IssuerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "1", "RS256"))
	f.broken = true
	a := f.open(t)
	token := sign(jose.RS256, key, "1", f.with("exp", noon.Add(100*time.Hour).Unix()))
	want := func(when string, kind error) {
		t.Helper()
		if _, err := as(t, a, token); !errors.Is(err, kind) || kind == nil && err != nil || errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: got %v, want %v", when, err, kind)
		}
	}
	turn := func(broken bool, later time.Duration) {
		f.set(func(f *fakeIssuer) { f.broken = broken })
		f.at.at = f.at.at.Add(later)
	}
	want("at first", entity.ErrUnavailable)
	turn(false, 0)
	want("too soon", entity.ErrUnavailable)
	turn(false, issuerPause)
	want("back", nil)
	turn(true, issuerFresh)
	want("gone again", nil)
	turn(true, keysStale)
	want("gone for a day", entity.ErrUnavailable)
	wantRefused(t, "garbage, whether or not the issuer answers", a, "Bearer garbage")
	turn(false, issuerPause)
	want("back again", nil)
}

func TestOIDC_IssuerThatMisbehaves(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	set, _ := json.Marshal(map[string]any{"keys": []any{public(&key.PublicKey, "1", "RS256")}})
	for name, change := range map[string]func(*fakeIssuer){
		"SaysItIsAnother": func(f *fakeIssuer) { f.document = map[string]any{"issuer": "https://evil.example.com"} },
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
		if p, err := as(t, f.open(t), sign(jose.RS256, key, "1", f.claims())); !errors.Is(err, entity.ErrUnavailable) || p.Name != "" {
			t.Errorf("%s: got %+v, %v, want ErrUnavailable", name, p, err)
		}
	}
}

// A request waits for a silent issuer no longer than its own context.
func TestOIDC_SilentIssuer(t *testing.T) {
	t.Parallel()
	f, _ := newSilentIssuer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", sign(jose.RS256, testKeys()[0], "1", f.claims()))
	if _, err := f.open(t).Authenticate(ctx, r); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// newSilentIssuer returns an issuer that never answers, and a channel that receives a value for each request.
func newSilentIssuer(t *testing.T) (*fakeIssuer, <-chan struct{}) {
	t.Helper()
	release, asked := make(chan struct{}), make(chan struct{}, 16)
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	return &fakeIssuer{server: silent, at: &clock{noon}}, asked
}

func TestOIDC_CAFile(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := &fakeIssuer{keys: []any{public(&key.PublicKey, "1", "RS256")}}
	f.server = httptest.NewTLSServer(f)
	defer f.server.Close()
	cfg := f.config()
	token := sign(jose.RS256, key, "1", f.claims())
	for _, trusted := range []bool{false, true} {
		if trusted {
			cfg.OIDC.CAFile = filepath.Join(t.TempDir(), "ca.pem")
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
			check.NoError(t, os.WriteFile(cfg.OIDC.CAFile, ca, 0o600))
		}
		if _, err := as(t, authenticator(t, cfg, &clock{noon}), token); (err == nil) != trusted || !trusted && !errors.Is(err, entity.ErrUnavailable) {
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
