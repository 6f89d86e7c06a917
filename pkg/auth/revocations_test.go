package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// sharedStore is what the replicas of a test share.
type sharedStore struct {
	mu    sync.Mutex
	ended map[Digest]time.Time
	asked int
	down  bool
}

func (s *sharedStore) EndSessions(_ context.Context, digests []Digest, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return entity.ErrUnavailable
	}
	for _, d := range digests {
		s.ended[d] = until
	}
	return nil
}

func (s *sharedStore) EndedSessions(_ context.Context, digests []Digest) (found []Digest, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.down {
		return nil, entity.ErrUnavailable
	}
	for _, d := range digests {
		if _, ended := s.ended[d]; ended {
			found = append(found, d)
		}
	}
	return found, nil
}

// replica is a process with its own memory of what it asked.
func replica(t *testing.T, cfg Config, store EndedStore, at *clock) (Authenticator, *Sessions) {
	t.Helper()
	revoked, err := NewRevocations(cfg, store, zap.NewNop(), WithClock(at.now))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, zap.NewNop(), WithClock(at.now), WithRevocations(revoked))
	if err != nil {
		t.Fatal(err)
	}
	return a, NewSessions(a, revoked)
}

func wantEnded(t *testing.T, what string, s *Sessions, id string, want bool) {
	t.Helper()
	if got, err := s.Ended(t.Context(), id); err != nil || got != want {
		t.Errorf("%s: ended is %t, %v, want %t", what, got, err, want)
	}
}

// Who signs out at one replica is signed out at all of them a moment later; the token
// of a list goes on, for curl and for another session.
func TestSessions_EndEverywhere(t *testing.T) {
	t.Parallel()
	token, hash := NewToken()
	cfg := Config{Mode: ModeToken, Tokens: []TokenConfig{{"ci", hash, "2027-01-01T00:00:00Z", []GrantConfig{{Viewer, []string{"*"}}}}}}
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	_, one := replica(t, cfg, store, at)
	a, two := replica(t, cfg, store, at)
	wantEnded(t, "before", two, "session-1", false)
	if err := one.End(t.Context(), "session-1", token.Reveal()); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, "where it was ended", one, "session-1", true)
	at.at = at.at.Add(revocationAge)
	wantEnded(t, "elsewhere", two, "session-1", true)
	wantEnded(t, "another session", two, "session-2", false)
	if p, err := as(t, a, "Bearer "+token.Reveal()); err != nil || p.Name != "ci" {
		t.Errorf("the token: got %+v, %v, want it to count", p, err)
	}
	if until := store.ended[sha256.Sum256([]byte("session-1"))]; !until.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) || len(store.ended) != 1 {
		t.Errorf("kept %v, want the session alone, until the token ends", store.ended)
	}
	stranger, _ := NewToken()
	if err := one.End(t.Context(), "session-3", stranger.Reveal()); err != nil || len(store.ended) != 1 {
		t.Errorf("with a token that does not count: %v and %d kept, want nothing more", err, len(store.ended))
	}
}

// What an issuer signed ends with the session that it was made for, however its
// signature is written.
func TestSessions_EndTheirIDToken(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"))
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	a, one := replica(t, f.config(), store, at)
	b, _ := replica(t, f.config(), store, at)
	header := sign(t, jose.RS256, key, "a", f.claims())
	token := strings.TrimPrefix(header, "Bearer ")
	for _, r := range []Authenticator{a, b} {
		if _, err := as(t, r, header); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.End(t.Context(), "session-1", token); err != nil {
		t.Fatal(err)
	}
	at.at = at.at.Add(revocationAge)
	for _, r := range []Authenticator{a, b} {
		p, err := as(t, r, header)
		wantRefused(t, "after signing out", p, err)
	}
	if _, kept := store.ended[sha256.Sum256([]byte(token))]; !kept {
		t.Error("the SHA-256 of the token is not kept")
	}
	other := otherSpelling(t, token)
	if p, err := as(t, a, "Bearer "+other); err == nil {
		t.Errorf("the same token in other letters: got %+v, want it refused", p)
	}
	if p, err := as(t, a, sign(t, jose.RS256, key, "a", f.claims(func(c map[string]any) { c["sid"] = "2" }))); err != nil {
		t.Errorf("another token of the same person: got %+v, %v, want it to count", p, err)
	}
}

// otherSpelling is a token whose signature has other letters and the same bytes: the
// last letter of 256 bytes in base64 has four bits to spare.
func otherSpelling(t *testing.T, token string) string {
	t.Helper()
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		other := token[:len(token)-1] + string(last)
		if other != token && slices.Equal(signatureOf(t, other), signatureOf(t, token)) {
			return other
		}
	}
	t.Fatal("the signature has one spelling")
	return ""
}

func signatureOf(t *testing.T, token string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// While the store cannot be asked, nobody is let in on a guess.
func TestSessions_StoreThatIsAway(t *testing.T) {
	t.Parallel()
	token, hash := NewToken()
	cfg := Config{Mode: ModeToken, Tokens: []TokenConfig{{"ci", hash, "2027-01-01T00:00:00Z", []GrantConfig{{Viewer, []string{"*"}}}}}}
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	_, s := replica(t, cfg, store, at)
	wantEnded(t, "while it is there", s, "a", false)
	store.down = true
	wantEnded(t, "what was asked a moment ago", s, "a", false)
	at.at = at.at.Add(revocationAge)
	if _, err := s.Ended(t.Context(), "a"); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("later: got %v, want ErrUnavailable", err)
	}
	if err := s.End(t.Context(), "a", token.Reveal()); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("signing out: got %v, want ErrUnavailable", err)
	}
}

func TestRevocations_RememberABoundedNumber(t *testing.T) {
	t.Parallel()
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	r, err := NewRevocations(Config{}, store, zap.NewNop(), WithClock(at.now))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2*maxRemembered + 5 {
		if _, err := r.ended(t.Context(), sha256.Sum256(fmt.Append(nil, i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.remembered); n > maxRemembered {
		t.Errorf("%d answers are remembered, want at most %d", n, maxRemembered)
	}
	asked := store.asked
	last := sha256.Sum256(fmt.Append(nil, 2*maxRemembered+4))
	if _, err := r.ended(t.Context(), last, last); err != nil || store.asked != asked {
		t.Errorf("the store was asked again at once: %d times, %v", store.asked-asked, err)
	}
}

func TestRevokedFile(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"))
	path := filepath.Join(t.TempDir(), "revoked")
	at := &clock{noon}
	written := noon
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		written, at.at = written.Add(time.Second), at.at.Add(fileAge)
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
	}
	write()
	token, hash := NewToken()
	static := Config{Mode: ModeToken, RevokedFile: path, Tokens: []TokenConfig{{"ci", hash, "2027-01-01T00:00:00Z", []GrantConfig{{Viewer, []string{"*"}}}}}}
	byList, sessions := replica(t, static, nil, at)
	cfg := f.config()
	cfg.RevokedFile = path
	byIssuer, _ := replica(t, cfg, nil, at)
	signed := sign(t, jose.RS256, key, "a", f.claims(func(c map[string]any) { c["jti"] = "id-1" }))
	session, raw := sha256.Sum256([]byte("session-1")), sha256.Sum256([]byte(strings.TrimPrefix(signed, "Bearer ")))
	for _, c := range []struct {
		name                        string
		lines                       []string
		listed, issued, sessionOver bool
	}{
		{"nothing", nil, true, true, false},
		{"a token of the list", []string{"", strings.ToUpper(hash), "other"}, false, true, false},
		{"a jti", []string{" id-1 "}, true, false, false},
		{"a part of a jti", []string{"id-"}, true, true, false},
		{"a token of the issuer", []string{hex.EncodeToString(raw[:])}, true, false, false},
		{"a session", []string{hex.EncodeToString(session[:])}, true, true, true},
		{"nothing any more", []string{""}, true, true, false},
	} {
		write(c.lines...)
		if _, err := as(t, byList, "Bearer "+token.Reveal()); (err == nil) != c.listed {
			t.Errorf("%s: the token of the list: %v, want it to count: %t", c.name, err, c.listed)
		}
		if _, err := as(t, byIssuer, signed); (err == nil) != c.issued {
			t.Errorf("%s: the token of the issuer: %v, want it to count: %t", c.name, err, c.issued)
		}
		wantEnded(t, c.name, sessions, "session-1", c.sessionOver)
	}
	write(hash)
	if _, err := as(t, byList, "Bearer "+token.Reveal()); err == nil {
		t.Error("a token that is listed counts")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	at.at = at.at.Add(fileAge)
	if _, err := as(t, byList, "Bearer "+token.Reveal()); err == nil {
		t.Error("once the file is gone, what it listed counts again")
	}
	if _, err := NewRevocations(static, nil, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "auth.revoked_file") {
		t.Errorf("without the file: got %v, want the setting named", err)
	}
}

// An issuer that lets people choose claims must not let them choose whose token it is:
// some readers take names in other letters, or the second of two, for the same.
func TestOIDC_RefusesAmbiguousClaims(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"))
	a := f.open(t, &clock{noon})
	body := func(extra string) rawJSON {
		return rawJSON(fmt.Sprintf(`{"iss":%q,"aud":"dlq","sub":"4711","exp":%d%s}`, f.server.URL, noon.Add(time.Hour).Unix(), extra))
	}
	if _, err := as(t, a, sign(t, jose.RS256, key, "a", body(`,"Audience":"x","isss":1,"aud2":{"aud":1,"AUD":2}`))); err != nil {
		t.Errorf("harmless claims: %v, want them to count", err)
	}
	for name, claims := range map[string]rawJSON{
		"AUD beside aud":    body(`,"AUD":"evil"`),
		"Iss beside iss":    body(`,"Iss":"http://evil"`),
		"Exp beside exp":    body(`,"EXP":1`),
		"long s in sub":     body(`,"ſub":"0"`),
		"aud twice":         body(`,"aud":"dlq"`),
		"escaped aud":       body(`,"\u0061ud":"dlq"`),
		"groups twice":      body(`,"groups":["staff"],"groups":["boss"]`),
		"AUD alone":         rawJSON(fmt.Sprintf(`{"iss":%q,"AUD":"dlq","sub":"4711","exp":%d}`, f.server.URL, noon.Add(time.Hour).Unix())),
		"ours after theirs": rawJSON(fmt.Sprintf(`{"iss":"http://evil","Iss":%q,"aud":"dlq","sub":"4711","exp":%d}`, f.server.URL, noon.Add(time.Hour).Unix())),
	} {
		p, err := as(t, a, sign(t, jose.RS256, key, "a", claims))
		wantRefused(t, name, p, err)
	}
}

// rawJSON is signed as it is written.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }
