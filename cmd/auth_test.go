package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// newToken runs "token new" and returns the token, and its entry for the configuration.
func newToken(t *testing.T, name string) (token, entry string) {
	t.Helper()
	got := run(t, "api", nil, "token", "new", "--name", name, "--role", "viewer", "--topics", "orders.*")
	lines := strings.SplitN(got.stdout, "\n", 4)
	if got.code != 0 || got.stderr != "" || len(lines) != 4 {
		t.Fatalf("token new: got %+v, want a token and its entry", got)
	}
	return lines[1], lines[3]
}

// session returns the API's answer to GET /api/v1/session with a token, or the error of the request.
func session(t *testing.T, base, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/session", nil)
	check.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return fmt.Sprint(answer.StatusCode, " ", string(body))
}

// The API accepts a token that the command printed; while the API runs, another token can replace the first one; and
// the log contains neither token.
func TestTokensRotateWithoutRestart(t *testing.T) {
	t.Parallel()
	first, firstEntry := newToken(t, "ana")
	second, secondEntry := newToken(t, "bob")
	list := filepath.Join(t.TempDir(), "tokens.yaml")
	check.NoError(t, os.WriteFile(list, []byte(firstEntry), 0o600))
	port := freePort(t)
	p := start(t, "api", nil, "--config", file(t, fmt.Sprintf(
		"server: {host: 127.0.0.1, port: %d}\nlog: {level: debug}\nauth: {mode: token, tokens_file: %q}\n", port, list)))
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	p.waitForAnswer(base+"/readyz", http.StatusOK, "ready")
	p.waitForAnswer(base+"/api/v1/session", http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED")
	p.waitForAnswer(base+"/metrics", http.StatusOK, "dlq_auth_disabled 0")
	if got := session(t, base, first); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"name":"ana","mode":"token"`) {
		t.Errorf("ana: got %s, want 200", got)
	}
	if got := session(t, base, second); !strings.HasPrefix(got, "401 ") {
		t.Errorf("bob too early: got %s, want 401", got)
	}
	check.NoError(t, os.WriteFile(list, []byte(secondEntry+"# changed\n"), 0o600))
	p.wait("bob let in", func() bool { return strings.HasPrefix(session(t, base, second), "200 ") })
	// The answer is 429 when this address has sent too many invalid tokens before.
	if got := session(t, base, first); !strings.HasPrefix(got, "401 ") && !strings.HasPrefix(got, "429 ") {
		t.Errorf("ana afterwards: got %s, want her refused", got)
	}
	p.wantCleanEnd()
	for _, token := range []string{first, second} {
		if strings.Contains(p.log.String(), token) {
			t.Error("a token is in the log")
		}
	}
}

// Without an auth section, as in the example configuration of the documentation, the API does not refuse to start in
// production, but logs an error about the missing authentication. Outside production it logs none.
func TestProductionWithoutAuthenticationIsAnErrorLine(t *testing.T) {
	t.Parallel()
	got := run(t, "api", nil, "--config", file(t, "app: {environment: production}\n"+unreachableDatabase))
	// the program refuses to start only because its database cannot be reached; the missing authentication is only logged
	wantRefusal(t, got, "api", "127.0.0.1:1/nowhere")
	found := false
	for line := range strings.Lines(got.stderr + got.stdout) {
		found = found || strings.Contains(line, `"level":"error"`) && strings.Contains(line, "auth.mode is none in production")
	}
	if !found {
		t.Errorf("got %q, want an error line about auth.mode", got.stderr)
	}
	port := freePort(t)
	p := start(t, "api", nil, "--config", file(t, fmt.Sprintf("server: {host: 127.0.0.1, port: %d}\n", port)))
	p.waitForAnswer(fmt.Sprintf("http://127.0.0.1:%d/metrics", port), http.StatusOK, "dlq_auth_disabled 1")
	p.wantCleanEnd()
	if strings.Contains(p.log.String(), "auth.mode is none") {
		t.Error("reported outside production")
	}
}

// When the configuration contains a token in place of the hash of a token, the error does not contain the token.
func TestTokenInPlaceOfItsHashIsNotPrinted(t *testing.T) {
	t.Parallel()
	token, _ := newToken(t, "ana")
	got := run(t, "api", nil, "--config", file(t, "auth: {mode: token, tokens: [{name: ana, sha256: "+token+", expires_at: \"2099-01-01T00:00:00Z\", grants: [{role: viewer, topics: [\"*\"]}]}]}\n"))
	wantRefusal(t, got, "api", "auth.tokens[0].sha256")
	if strings.Contains(got.stderr+got.stdout, token) {
		t.Error("the token is printed")
	}
}
