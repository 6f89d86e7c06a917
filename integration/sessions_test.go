package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// asked sends one request and returns the parts of its answer. It does not follow redirects.
func (p *process) asked(method, path, body string, headers ...string) (status int, header http.Header, text string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	check.NoError(p.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	check.NoError(p.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	check.NoError(p.t, err)
	return res.StatusCode, res.Header, string(raw)
}

// signIn returns the cookie of a new session.
func (p *process) signIn(token string) string {
	p.t.Helper()
	status, header, _ := p.asked(http.MethodPost, "/sign-in", url.Values{"token": {token}}.Encode())
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status != http.StatusSeeOther || !strings.HasPrefix(cookie, "__Host-dlq-session=1:") {
		p.t.Fatalf("sign in: got %d and %q, want a session", status, cookie)
	}
	return cookie
}

// page reports whether a browser with this session cookie gets a page of the console.
func (p *process) page(cookie string) bool {
	p.t.Helper()
	status, _, _ := p.asked(http.MethodGet, "/topics", "", "Cookie", cookie)
	return status == http.StatusOK
}

// A sign-out at one replica ends the session at the other replica too, while the token stays valid.
func TestSignedOutAtOneReplicaIsSignedOutAtAll(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ana := people(map[string][]grant{"ana": {{"viewer", "*"}}})
	one, two := s.startReady("api", withTokens(t, ana)...), s.startReady("api", withTokens(t, ana)...)
	token := ana["ana"].token
	cookie := one.signIn(token)
	if !one.page(cookie) || !two.page(cookie) {
		t.Fatal("a session is not valid at both replicas")
	}
	if status, _, _ := one.asked(http.MethodPost, "/sign-out", "", "Cookie", cookie); status != http.StatusSeeOther {
		t.Fatalf("sign out: got %d, want 303", status)
	}
	if one.page(cookie) {
		t.Error("the session is still valid at the replica that ended it")
	}
	eventuallyAs(t, signedOut, "the session to end at the other replica", func() bool { return !two.page(cookie) })
	for _, p := range []*process{one, two} {
		if status, _, text := p.asked(http.MethodGet, "/api/v1/session", "", "Authorization", "Bearer "+token); status != http.StatusOK {
			t.Errorf("the token without a session: got %d %s, want 200", status, text)
		}
	}
	if !two.page(two.signIn(token)) {
		t.Error("a new session with the token is not valid")
	}
	two.kill()
	if three := s.startReady("api", withTokens(t, ana)...); three.page(cookie) {
		t.Error("the session is valid after a restart")
	}
}

// A cursor that one replica has made is valid at the other replica and after a restart; an altered cursor is refused.
func TestCursorsAreGoodAtAllReplicas(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for i := range 3 {
		if _, err := s.db.ExecContext(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ($1, 'boom')`, fmt.Sprint("orders-", i)); err != nil {
			t.Fatal(err)
		}
	}
	one, two := s.startReady("api"), s.startReady("api")
	var page struct {
		Next string `json:"next_cursor"`
	}
	status, _, text := one.asked(http.MethodGet, "/api/v1/messages?limit=1", "")
	if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK || page.Next == "" {
		t.Fatalf("got %d %s, want a cursor", status, text)
	}
	next := "/api/v1/messages?limit=1&cursor=" + page.Next
	want := func(what string, p *process, path string, want int) {
		t.Helper()
		status, _, text := p.asked(http.MethodGet, path, "")
		if status != want || want == http.StatusBadRequest && !strings.Contains(text, `"field":"cursor"`) {
			t.Errorf("%s: got %d %s, want %d", what, status, text, want)
		}
	}
	want("the other replica", two, next, http.StatusOK)
	one.kill()
	two.kill()
	three := s.startReady("api")
	want("after a restart", three, next, http.StatusOK)
	for i := range page.Next {
		changed := "A"
		if page.Next[i] == 'A' {
			changed = "B"
		}
		want(fmt.Sprint("changed at ", i), three, "/api/v1/messages?limit=1&cursor="+page.Next[:i]+changed+page.Next[i+1:], http.StatusBadRequest)
	}
}
