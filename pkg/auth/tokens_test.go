package auth

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func as(t *testing.T, a Authenticator, headers ...string) (Principal, error) {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return a.Authenticate(t.Context(), r)
}

func wantRefused(t *testing.T, what string, p Principal, err error) {
	t.Helper()
	if !errors.Is(err, ErrUnauthenticated) || p.Name != "" || len(p.Grants) != 0 {
		t.Errorf("%s: got %+v, %v, want nobody and ErrUnauthenticated", what, p, err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	token, hash := NewToken()
	old, oldHash := NewToken()
	stranger, _ := NewToken()
	grants := []GrantConfig{{Operator, []string{"orders.*"}}, {Unmask, []string{"*"}}}
	at := &clock{noon}
	a, err := New(Config{Mode: ModeToken, Tokens: []TokenConfig{
		{"old", oldHash, noon.Format(time.RFC3339), grants},
		{"ci", strings.ToUpper(hash), "2026-11-22T00:00:00+02:00", grants},
	}}, zap.NewNop(), WithClock(at.now))
	if err != nil {
		t.Fatal(err)
	}
	p, err := as(t, a, "Bearer "+token.Reveal())
	if err != nil || p.Name != "ci" || !p.May(Operator, "orders.a") || p.May(Operator, "payments.a") || !p.Everywhere(Unmask) {
		t.Errorf("got %+v, %v, want ci with its grants", p, err)
	}
	if p, err := as(t, a, "bearer  "+token.Reveal()); err != nil || p.Name != "ci" {
		t.Errorf("scheme in lower case: got %+v, %v, want ci", p, err)
	}
	for what, headers := range map[string][]string{
		"no header":        nil,
		"two headers":      {"Bearer " + token.Reveal(), "Bearer " + token.Reveal()},
		"other scheme":     {"Basic " + token.Reveal()},
		"no token":         {"Bearer "},
		"unknown":          {"Bearer " + stranger.Reveal()},
		"expired":          {"Bearer " + old.Reveal()},
		"its hash":         {"Bearer " + hash},
		"cut":              {"Bearer " + token.Reveal()[:47]},
		"longer":           {"Bearer " + token.Reveal() + "A"},
		"without prefix":   {"Bearer " + strings.TrimPrefix(token.Reveal(), tokenPrefix)},
		"oversized":        {"Bearer " + strings.Repeat("A", maxBearer+1)},
		"NUL":              {"Bearer dlqm_\x00"},
		"two tokens":       {"Bearer " + token.Reveal() + " " + token.Reveal()},
		"padded with text": {"Bearer x" + token.Reveal()},
	} {
		p, err := as(t, a, headers...)
		wantRefused(t, what, p, err)
		if err != nil && (strings.Contains(err.Error(), token.Reveal()) || strings.Contains(err.Error(), stranger.Reveal())) {
			t.Errorf("%s: the error %v holds a token", what, err)
		}
	}
	at.at = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	p, err = as(t, a, "Bearer "+token.Reveal())
	wantRefused(t, "at its expiry", p, err)
}

func TestNewToken(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		token, hash := NewToken()
		if !tokenShaped(token.Reveal()) || len(hash) != 64 || seen[token.Reveal()] || fmt.Sprint(token) != "***" {
			t.Fatalf("token %q (printed %s), hash %q: want a new one that is printed masked", token.Reveal(), token, hash)
		}
		seen[token.Reveal()] = true
	}
}

// entry is a token as a file lists it.
func entry(name, hash string) string {
	return "- name: " + name + "\n  sha256: " + hash + "\n  expires_at: 2027-01-01T00:00:00Z\n  grants: [{role: viewer, topics: [\"*\"]}]\n"
}

// Tokens rotate without a restart, and a mistake in the file locks nobody out.
func TestTokens_File(t *testing.T) {
	t.Parallel()
	first, firstHash := NewToken()
	second, secondHash := NewToken()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	at := &clock{noon}
	written := noon
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		written = written.Add(time.Second)
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
		at.at = at.at.Add(fileAge)
	}
	write(entry("first", firstHash))
	core, logs := observer.New(zap.InfoLevel)
	a, err := New(Config{Mode: ModeToken, TokensFile: path}, zap.New(core), WithClock(at.now))
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, firstCounts, secondCounts bool) {
		t.Helper()
		_, err1 := as(t, a, "Bearer "+first.Reveal())
		_, err2 := as(t, a, "Bearer "+second.Reveal())
		if (err1 == nil) != firstCounts || (err2 == nil) != secondCounts {
			t.Errorf("%s: first %v, second %v, want them to count: %t, %t", when, err1, err2, firstCounts, secondCounts)
		}
	}
	want("at start", true, false)
	write(entry("first", firstHash) + entry("second", secondHash))
	want("both", true, true)
	write(entry("second", secondHash))
	want("first withdrawn", false, true)
	for _, broken := range []string{"- {name: x}\n", "x: 1\n", "- {nmae: x}\n", "["} {
		write(broken)
		want("broken: "+broken, false, true)
		at.at = at.at.Add(fileAge)
		want("still broken", false, true)
	}
	if got := logs.FilterLevelExact(zap.ErrorLevel).Len(); got != 4 {
		t.Errorf("got %d errors in the log, want one for each broken file", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	at.at = at.at.Add(fileAge)
	want("gone", false, true)
	at.at = at.at.Add(fileAge)
	want("still gone", false, true)
	if got := logs.FilterLevelExact(zap.ErrorLevel).Len(); got != 5 {
		t.Errorf("got %d errors in the log, want one more for the file that is gone", got)
	}
	for _, nothing := range []string{"", "[]\n", "# none yet\n", "null\n"} {
		write(nothing)
		want("without any token: "+nothing, false, true)
	}
	if got := logs.FilterLevelExact(zap.ErrorLevel).Len(); got != 6 {
		t.Errorf("got %d errors in the log, want one more for the file that lists nothing", got)
	}
	write(entry("first", firstHash))
	want("right again", true, false)
}

// A file that could not be read once is read later, although nobody has changed it
// since: what it takes away must not count on.
func TestTokens_FileThatCannotBeReadForAWhile(t *testing.T) {
	t.Parallel()
	gone, goneHash := NewToken()
	stays, staysHash := NewToken()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	at := &clock{noon}
	write := func(text string, written time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
		at.at = at.at.Add(fileAge)
	}
	count := func(a Authenticator) (first, second bool) {
		_, err1 := as(t, a, "Bearer "+gone.Reveal())
		_, err2 := as(t, a, "Bearer "+stays.Reveal())
		return err1 == nil, err2 == nil
	}
	write(entry("gone", goneHash)+entry("stays", staysHash), noon)
	core, logs := observer.New(zap.ErrorLevel)
	a, err := New(Config{Mode: ModeToken, TokensFile: path}, zap.New(core), WithClock(at.now))
	if err != nil {
		t.Fatal(err)
	}
	left := entry("stays", staysHash)
	// The same size and the same time as the file that follows: to a look it is that.
	write(strings.Repeat("[", len(left)), noon.Add(time.Minute))
	if first, second := count(a); !first || !second {
		t.Errorf("while it cannot be read: %t, %t, want both to count as before", first, second)
	}
	write(left, noon.Add(time.Minute))
	if first, second := count(a); first || !second {
		t.Errorf("once it can be read: %t, %t, want only the second to count", first, second)
	}
	if logs.Len() != 1 {
		t.Errorf("got %d errors in the log, want 1", logs.Len())
	}
}

func TestTokens_FileThatIsWrongAtStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := New(Config{Mode: ModeToken, TokensFile: path}, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "auth.tokens_file") {
		t.Errorf("missing: got %v, want an error with the key", err)
	}
	for _, nothing := range []string{"", "[]"} {
		if err := os.WriteFile(path, []byte(nothing), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Mode: ModeToken, TokensFile: path}, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "lists no token") {
			t.Errorf("file %q: got %v, want an error that says it lists no token", nothing, err)
		}
	}
	if err := os.WriteFile(path, []byte("- {name: a, sha256: x, expires_at: y, grants: []}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Config{Mode: ModeToken, TokensFile: path}, zap.NewNop())
	for _, part := range []string{"auth.tokens_file", path, "tokens[0].sha256", "tokens[0].expires_at", "tokens[0].grants"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("wrong: got %v, want %s", err, part)
		}
	}
}

func TestNobody(t *testing.T) {
	t.Parallel()
	a, err := New(DefaultConfig(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	p, err := as(t, a)
	if err != nil || p.Name != Anonymous {
		t.Fatalf("got %+v, %v, want anonymous", p, err)
	}
	for _, role := range Roles() {
		if !p.Everywhere(role) {
			t.Errorf("anonymous has %s not everywhere, want every role", role)
		}
	}
}
