package integration_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const (
	tokenClient   = "dlq-manager"
	tokenSecret   = "cormorant" // a word that occurs in no other text
	tokenAudience = "kafka"

	// brokerSession is how long a broker accepts requests after a sign-in.
	brokerSession = 3 * time.Second
)

// tokenServer is an OpenID provider. It issues tokens over TLS to one client, and publishes the keys with which Kafka
// checks them.
type tokenServer struct {
	t           *testing.T
	tokens      *httptest.Server
	keys        *httptest.Server
	signer      jose.Signer
	lifetime    time.Duration
	secret, ca  string // paths of the files that contain the client's secret and the certificate authority
	certificate []byte

	mu     sync.Mutex
	answer http.HandlerFunc // answers requests for a token, if it is not nil; otherwise the provider issues tokens
	issued []string
}

func newTokenServer(t *testing.T, lifetime time.Duration) *tokenServer {
	t.Helper()
	key := check.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	dir := t.TempDir()
	s := &tokenServer{t: t, lifetime: lifetime, secret: filepath.Join(dir, "secret"), ca: filepath.Join(dir, "ca.pem")}
	s.signer = check.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, (&jose.SignerOptions{}).WithType("JWT")))(t)
	published := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "RS256", Use: "sig"}}}
	s.keys = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(published)
	}))
	t.Cleanup(s.keys.Close)
	s.tokens = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.tokens.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.tokens.StartTLS()
	t.Cleanup(s.tokens.Close)
	s.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.tokens.Certificate().Raw})
	s.write(s.ca, s.certificate)
	s.write(s.secret, []byte(tokenSecret+"\n"))
	return s
}

func (s *tokenServer) write(path string, content []byte) {
	s.t.Helper()
	check.NoError(s.t, os.WriteFile(path+".new", content, 0o600))
	check.NoError(s.t, os.Rename(path+".new", path))
}

func (s *tokenServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	user, password, _ := r.BasicAuth()
	form := r.PostFormValue
	if user != tokenClient || password != tokenSecret || form("grant_type") != "client_credentials" || form("scope") != "kafka" || form("audience") == "" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"`+password+`"}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": s.issue(form("audience")), "token_type": "Bearer", "expires_in": int(s.lifetime.Seconds()),
	})
}

// issue signs a token.
func (s *tokenServer) issue(audience string) string {
	now := time.Now()
	token, err := jwt.Signed(s.signer).Claims(jwt.Claims{
		Issuer: s.keys.URL, Subject: tokenClient, Audience: jwt.Audience{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(s.lifetime)),
	}).Serialize()
	if err != nil {
		s.t.Errorf("sign a token: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued = append(s.issued, token)
	return token
}

// instead makes the token endpoint answer with the given function and issue no tokens. With nil, the endpoint issues
// tokens again.
func (s *tokenServer) instead(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *tokenServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.issued)
}

// kafka starts a Kafka with a second listener. Clients of this listener sign in with tokens of this server, and must
// sign in again after brokerSession.
func (s *tokenServer) kafka() (*stack.Stack, *proxy.Proxy) {
	s.t.Helper()
	p := newProxy(s.t, proxy.KafkaRequests)
	const listener, bearer = "listener.name.proxied.", "org.apache.kafka.common.security.oauthbearer."
	own := ownStack(s.t, stack.Options{
		Kafka: true, KafkaAdvertise: p.Addr(),
		KafkaOptions: []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + s.keys.URL},
		KafkaSettings: map[string]string{
			"listener.security.protocol.map":                            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:SASL_PLAINTEXT",
			listener + "sasl.enabled.mechanisms":                        "OAUTHBEARER",
			listener + "sasl.oauthbearer.jwks.endpoint.url":             s.keys.URL,
			listener + "sasl.oauthbearer.expected.audience":             tokenAudience,
			listener + "sasl.oauthbearer.expected.issuer":               s.keys.URL,
			listener + "oauthbearer.sasl.jaas.config":                   bearer + "OAuthBearerLoginModule required;",
			listener + "oauthbearer.sasl.server.callback.handler.class": bearer + "OAuthBearerValidatorCallbackHandler",
			listener + "oauthbearer.connections.max.reauth.ms":          fmt.Sprint(brokerSession.Milliseconds()),
			listener + "sasl.oauthbearer.clock.skew.seconds":            "0",
			"group.coordinator.rebalance.protocols":                     "classic,consumer,share",
		},
	})
	p.To(own.KafkaBehind())
	return own, p
}

// environ returns the settings that make a program sign in to Kafka with tokens of this server.
func (s *tokenServer) environ(p *proxy.Proxy) []string {
	return []string{
		kafkaBy(p), "DLQ_KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT", "DLQ_KAFKA_SASL_MECHANISM=OAUTHBEARER",
		"DLQ_KAFKA_SASL_OAUTH_TOKEN_URL=" + s.tokens.URL + "/token", "DLQ_KAFKA_SASL_OAUTH_CLIENT_ID=" + tokenClient,
		"DLQ_KAFKA_SASL_OAUTH_CLIENT_SECRET_FILE=" + s.secret, "DLQ_KAFKA_SASL_OAUTH_CA_FILE=" + s.ca, "DLQ_KAFKA_SASL_OAUTH_SCOPES=kafka",
		"DLQ_KAFKA_SASL_OAUTH_PARAMETERS=[{name: audience, value: " + tokenAudience + "}]",
		`DLQ_KAFKA_SASL_OAUTH_EXTENSIONS=[{name: logicalCluster, value: lkc-abc12}, {name: identityPoolId, value: pool-x}]`,
	}
}

// wantHidden fails the test if a text is empty, or contains the client's secret, or the claims or the signature of a
// token that was issued.
func (s *tokenServer) wantHidden(what, text string) {
	s.t.Helper()
	check.True(s.t, text != "", "%s is empty", what)
	s.mu.Lock()
	defer s.mu.Unlock()
	check.True(s.t, !strings.Contains(text, tokenSecret), "%s has the client's secret", what)
	for _, token := range s.issued {
		parts := strings.Split(token, ".")
		check.True(s.t, !strings.Contains(text, parts[1]) && !strings.Contains(text, parts[2]), "%s has a token", what)
	}
}
