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

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// clock is a time that tests set.
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

// wantName checks the principal of a token; wantRefused checks that the token is refused.
func wantName(t *testing.T, what string, a Authenticator, name string, headers ...string) {
	t.Helper()
	if p, err := as(t, a, headers...); err != nil || p.Name != name {
		t.Errorf("%s: got %+v, %v, want %s", what, p, err, name)
	}
}

func wantRefused(t *testing.T, what string, a Authenticator, headers ...string) {
	t.Helper()
	p, err := as(t, a, headers...)
	if !errors.Is(err, ErrUnauthenticated) || p.Name != "" || len(p.Grants) != 0 {
		t.Errorf("%s: got %+v, %v, want no principal and ErrUnauthenticated", what, p, err)
	}
	for _, h := range headers {
		if _, token, _ := strings.Cut(h, " "); err != nil && len(token) > 15 && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error %v holds the token", what, err)
		}
	}
}

func authenticator(t *testing.T, cfg Config, at *clock, change ...Option) Authenticator {
	t.Helper()
	a, err := New(cfg, zap.NewNop(), append(change, WithClock(at.now))...)
	check.NoError(t, err)
	return a
}

// must returns v and panics on an error, which only a mistake in the test can cause.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// aFile is a file that a test rewrites. Each write gives the file a later modification time, and advances the clock so
// that the file is read again.
type aFile struct {
	path    string
	at      *clock
	written time.Time
}

func newFile(t *testing.T, at *clock, text string) *aFile {
	t.Helper()
	f := &aFile{filepath.Join(t.TempDir(), "file"), at, noon}
	f.write(t, text)
	return f
}

func (f *aFile) write(t *testing.T, text string) {
	t.Helper()
	f.written = f.written.Add(time.Second)
	f.keepTime(t, text)
}

// keepTime rewrites the file without changing its modification time.
func (f *aFile) keepTime(t *testing.T, text string) {
	t.Helper()
	err := errors.Join(os.WriteFile(f.path, []byte(text), 0o600), os.Chtimes(f.path, f.written, f.written))
	check.NoError(t, err)
	f.at.at = f.at.at.Add(fileAge)
}

func (f *aFile) remove(t *testing.T) {
	t.Helper()
	check.NoError(t, os.Remove(f.path))
	f.at.at = f.at.at.Add(fileAge)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	token, hash := NewToken()
	old, oldHash := NewToken()
	stranger, _ := NewToken()
	grants := []GrantConfig{{Operator, []string{"orders.*"}}, {Unmask, []string{"*"}}}
	at := &clock{noon}
	a := authenticator(t, Config{Mode: ModeToken, Tokens: []TokenConfig{
		{"old", oldHash, noon.Format(time.RFC3339), grants},
		{"ci", strings.ToUpper(hash), "2026-11-22T00:00:00+02:00", grants},
	}}, at)
	p, err := as(t, a, "Bearer "+token.Reveal())
	if err != nil || p.Name != "ci" || !p.May(Operator, "orders.a") || p.May(Operator, "payments.a") || !p.Everywhere(Unmask) {
		t.Errorf("got %+v, %v, want ci with its grants", p, err)
	}
	wantName(t, "scheme in lower case", a, "ci", "bearer  "+token.Reveal())
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
		wantRefused(t, what, a, headers...)
	}
	at.at = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	wantRefused(t, "at its expiry", a, "Bearer "+token.Reveal())
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

// entry returns the YAML entry of a token.
func entry(name, hash string) string {
	return "- name: " + name + "\n  sha256: " + hash + "\n  expires_at: 2027-01-01T00:00:00Z\n  grants: [{role: viewer, topics: [\"*\"]}]\n"
}

// Tokens rotate without a restart, and a mistake in the file locks no user out.
func TestTokens_File(t *testing.T) {
	t.Parallel()
	first, firstHash := NewToken()
	second, secondHash := NewToken()
	at := &clock{noon}
	file := newFile(t, at, entry("first", firstHash))
	core, logs := observer.New(zap.ErrorLevel)
	a, err := New(Config{Mode: ModeToken, TokensFile: file.path}, zap.New(core), WithClock(at.now))
	check.NoError(t, err)
	want := func(when string, firstCounts, secondCounts bool, errors int) {
		t.Helper()
		for range 2 { // a mistake in the file is logged once, not at each request
			_, err1 := as(t, a, "Bearer "+first.Reveal())
			_, err2 := as(t, a, "Bearer "+second.Reveal())
			if (err1 == nil) != firstCounts || (err2 == nil) != secondCounts || logs.Len() != errors {
				t.Errorf("%s: first %v, second %v, %d errors in the log, want them to count: %t, %t, and %d", when, err1, err2, logs.Len(),
					firstCounts, secondCounts, errors)
			}
			at.at = at.at.Add(fileAge)
		}
	}
	want("at start", true, false, 0)
	file.write(t, entry("first", firstHash)+entry("second", secondHash))
	want("both", true, true, 0)
	file.write(t, entry("second", secondHash))
	want("first withdrawn", false, true, 0)
	for i, broken := range []string{"- {name: x}\n", "x: 1\n", "- {nmae: x}\n", "["} {
		file.write(t, broken)
		want("broken: "+broken, false, true, i+1)
	}
	file.remove(t)
	want("gone", false, true, 5)
	for _, nothing := range []string{"", "[]\n", "# none yet\n", "null\n"} {
		file.write(t, nothing)
		want("without any token: "+nothing, false, true, 6)
	}
	file.write(t, entry("first", firstHash))
	want("right again", true, false, 6)
	// A file that could not be parsed once is read again, although its time and size have not changed.
	file.write(t, strings.Repeat("[", len(entry("other", secondHash))))
	want("while it cannot be read", true, false, 7)
	file.keepTime(t, entry("other", secondHash))
	want("once it can be read", false, true, 7)
}

func TestTokens_FileThatIsWrongAtStart(t *testing.T) {
	t.Parallel()
	file := newFile(t, &clock{noon}, "")
	want := func(what string, parts ...string) {
		t.Helper()
		_, err := New(Config{Mode: ModeToken, TokensFile: file.path}, zap.NewNop())
		for _, part := range append(parts, "auth.tokens_file", file.path) {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %s", what, err, part)
			}
		}
	}
	want("empty", "lists no token")
	file.write(t, "[]")
	want("without any", "lists no token")
	file.write(t, "- {name: a, sha256: x, expires_at: y, grants: []}")
	want("wrong", "tokens[0].sha256", "tokens[0].expires_at", "tokens[0].grants")
	file.remove(t)
	want("missing")
}

func TestNobody(t *testing.T) {
	t.Parallel()
	p, err := as(t, authenticator(t, DefaultConfig(), &clock{noon}))
	if err != nil || p.Name != Anonymous {
		t.Fatalf("got %+v, %v, want anonymous", p, err)
	}
	for _, role := range Roles() {
		if !p.Everywhere(role) {
			t.Errorf("anonymous has %s not everywhere, want every role", role)
		}
	}
}
