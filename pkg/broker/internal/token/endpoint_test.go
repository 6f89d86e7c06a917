package token

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const (
	theSecret    = "s3cret-of-the-client"
	theAssertion = "eyJhbGciOiJSUzI1NiJ9.assertion.c2ln"
	theToken     = "eyJhbGciOiJSUzI1NiJ9.token.c2ln"
)

// asked contains the form and the credentials of one request that the token endpoint received.
type asked struct {
	form               url.Values
	username, password string
}

// startEndpoint starts a token endpoint that sends the same answer to every request. It also returns the list of the
// requests that the endpoint received.
func startEndpoint(t *testing.T, status int, answer string) (*httptest.Server, *[]asked) {
	t.Helper()
	var all []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.NoError(t, r.ParseForm())
		a := asked{form: r.PostForm}
		a.username, a.password, _ = r.BasicAuth()
		all = append(all, a)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server, &all
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	check.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func newEndpoint(t *testing.T, cfg Config) *Source {
	t.Helper()
	s := FromEndpoint(cfg, func(string) (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }, nil)
	t.Cleanup(s.Close)
	return s
}

func TestEndpoint_ClientCredentials(t *testing.T) {
	t.Parallel()
	server, all := startEndpoint(t, http.StatusOK, `{"access_token":"`+theToken+`","token_type":"Bearer","expires_in":3600}`)
	s := newEndpoint(t, Config{
		TokenURL: server.URL + "/token", ClientID: "dlq manager", ClientSecretFile: file(t, theSecret+"\n"), Scopes: []string{"kafka", "read"},
		Parameters: []Pair{{Name: "audience", Value: "https://kafka"}, {Name: "resource", Value: "a"}, {Name: "resource", Value: "b"}},
	})
	want(t, s, theToken)
	got := (*all)[0]
	check.Equal(t, got.username, "dlq+manager", "user, form-encoded as in RFC 6749, section 2.3.1")
	check.Equal(t, got.password, theSecret, "password")
	check.Equal(t, got.form.Encode(), "audience=https%3A%2F%2Fkafka&grant_type=client_credentials&resource=a&resource=b&scope=kafka+read", "form")
	s.mu.Lock()
	defer s.mu.Unlock()
	left := time.Until(s.token.expires)
	check.True(t, left > 59*time.Minute && left <= time.Hour, "expires in %s, want an hour", left)
}

// Google's local authentication server sends the lifetime with a fraction. That server ignores the client's id and
// secret.
func TestEndpoint_LifetimeWithFraction(t *testing.T) {
	t.Parallel()
	for _, lifetime := range []string{"3599.978315", `"3599.5"`, "3599"} {
		server, _ := startEndpoint(t, http.StatusOK, `{"access_token": "`+theToken+`", "token_type": "Bearer", "expires_in": `+lifetime+`}`)
		s := newEndpoint(t, Config{TokenURL: server.URL, ClientID: "unused", ClientSecretFile: file(t, "unused")})
		want(t, s, theToken)
		s.mu.Lock()
		left := time.Until(s.token.expires)
		s.mu.Unlock()
		check.True(t, left > 59*time.Minute && left < time.Hour, "%s expires in %s, want an hour", lifetime, left)
	}
}

// Entra ID accepts a token of Kubernetes in place of the client's secret. The file with this token is read for each
// request.
func TestEndpoint_FederatedToken(t *testing.T) {
	t.Parallel()
	server, all := startEndpoint(t, http.StatusOK, `{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"`+theToken+`"}`)
	assertion := file(t, theAssertion+"\n")
	s := newEndpoint(t, Config{
		TokenURL: server.URL + "/tenant/oauth2/v2.0/token", ClientID: "11111111-2222", AssertionFile: assertion,
		Scopes: []string{"https://namespace.servicebus.windows.net/.default"}, Parameters: []Pair{{Name: "audience", Value: "kafka"}},
	})
	want(t, s, theToken)
	check.NoError(t, os.WriteFile(assertion, []byte("eyJ.second.c2ln"), 0o600))
	s.mu.Lock()
	s.token, s.renewAt = issued{}, time.Time{}
	s.mu.Unlock()
	want(t, s, theToken)
	for n, assertion := range []string{theAssertion, "eyJ.second.c2ln"} {
		got := (*all)[n]
		check.True(t, got.username == "" && got.password == "", "sent a password")
		check.Equal(t, got.form.Encode(), url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"11111111-2222"}, "scope": {"https://namespace.servicebus.windows.net/.default"},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion},
			"audience": {"kafka"},
		}.Encode(), "form")
	}
}

func TestEndpoint_ErrorHasHostAndStatusOnly(t *testing.T) {
	t.Parallel()
	quoted := theSecret + " " + theAssertion + " " + theToken
	for name, c := range map[string]struct {
		status int
		answer string
		want   string
	}{
		"Refused":      {401, `{"error":"invalid_client","error_description":"` + quoted + `"}`, "status 401 invalid_client"},
		"Quoted":       {400, `{"error":"` + quoted + `"}`, "status 400"},
		"Broken":       {500, quoted, "status 500"},
		"Redirect":     {307, quoted, "status 307: redirects are not followed"},
		"Page":         {200, "<html>" + quoted, "no token"},
		"NothingInIt":  {200, `{"access":"` + quoted + `"}`, "no token"},
		"Error":        {200, `{"error":"invalid_scope","error_uri":"` + quoted + `"}`, "status 200 invalid_scope"},
		"NotAToken":    {200, `{"access_token":"` + quoted + `"}`, "RFC 6750"},
		"NumberTooBig": {200, `{"access_token":"` + theToken + `","expires_in":"` + quoted + `"}`, "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var led atomic.Bool
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led.Store(true) }))
			defer other.Close()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", other.URL)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer server.Close()
			s := newEndpoint(t, Config{TokenURL: server.URL + "/" + theSecret, ClientID: "dlq", ClientSecretFile: file(t, theSecret)})
			_, err := s.Token(t.Context())
			check.Require(t, err != nil, "no error")
			check.True(t, strings.Contains(err.Error(), c.want), "got %q, want %q in it", err, c.want)
			check.True(t, strings.Contains(err.Error(), strings.TrimPrefix(server.URL, "http://")), "got %q, want the host in it", err)
			withoutSecret(t, err)
			check.True(t, !led.Load(), "the redirect was followed")
		})
	}
}

func withoutSecret(t *testing.T, err error) {
	t.Helper()
	for _, hidden := range []string{theSecret, theAssertion, theToken} {
		check.True(t, !strings.Contains(err.Error(), hidden), "the error has a secret: %q", err)
	}
}

func TestEndpoint_NobodyListens(t *testing.T) {
	t.Parallel()
	server, _ := startEndpoint(t, 200, "")
	server.Close()
	s := newEndpoint(t, Config{TokenURL: server.URL + "/" + theSecret, ClientID: "dlq", ClientSecretFile: file(t, theSecret)})
	_, err := s.Token(t.Context())
	check.Require(t, err != nil && strings.Contains(err.Error(), "connection refused"), "got %v", err)
	withoutSecret(t, err)
}

func TestEndpoint_UnknownAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"` + theToken + `"}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	cfg := Config{TokenURL: server.URL, ClientID: "dlq", ClientSecretFile: file(t, theSecret)}
	_, err := newEndpoint(t, cfg).Token(t.Context())
	check.True(t, err != nil && strings.Contains(err.Error(), "certificate signed by unknown authority"), "got %v", err)

	known := x509.NewCertPool()
	known.AddCert(server.Certificate())
	s := FromEndpoint(cfg, func(address string) (*tls.Config, error) {
		check.Equal(t, "https://"+address, server.URL, "address")
		return &tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12}, nil
	}, nil)
	defer s.Close()
	want(t, s, theToken)
}

func TestEndpoint_MissingSecretFile(t *testing.T) {
	t.Parallel()
	server, all := startEndpoint(t, 200, `{"access_token":"`+theToken+`"}`)
	path := filepath.Join(t.TempDir(), "secret")
	_, err := newEndpoint(t, Config{TokenURL: server.URL, ClientID: "dlq", ClientSecretFile: path}).Token(t.Context())
	check.Is(t, err, os.ErrNotExist, "token without the client's secret")
	check.Equal(t, len(*all), 0, "requests")
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	f := FromFile(Config{TokenFile: path})
	_, err := f.Token(t.Context())
	check.Is(t, err, os.ErrNotExist, "token without a file")
	for _, step := range []struct{ content, want string }{
		{theToken + "\n", theToken}, {"second", "second"}, {"", "second"}, {"not a token", "second"}, {" third\r\n", "third"},
	} {
		check.NoError(t, os.WriteFile(path, []byte(step.content), 0o600))
		got, err := f.Token(t.Context())
		check.NoError(t, err)
		check.Equal(t, got.Reveal(), step.want, "token of "+step.content)
	}
	check.NoError(t, os.Remove(path))
	check.Equal(t, check.Must(f.Token(t.Context()))(t).Reveal(), "third", "token of a file that is gone")
}
