package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// sharedStore is the store that the replicas of a test share.
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

// replica returns a process with its own cache of answers.
func replica(t *testing.T, cfg Config, store EndedStore, at *clock) (Authenticator, *Sessions) {
	t.Helper()
	revoked, err := NewRevocations(cfg, store, zap.NewNop(), WithClock(at.now))
	check.NoError(t, err)
	a := authenticator(t, cfg, at, WithRevocations(revoked))
	return a, NewSessions(a, revoked)
}

// oneToken returns the token of the principal ci, and its configuration; the token expires at the end of 2026.
func oneToken() (token string, cfg Config) {
	text, hash := NewToken()
	return text.Reveal(), Config{Mode: ModeToken, Tokens: []TokenConfig{{"ci", hash, "2027-01-01T00:00:00Z", []GrantConfig{{
		Viewer,
		[]string{"*"},
	}}}}}
}

func wantEnded(t *testing.T, what string, s *Sessions, id string, want bool) {
	t.Helper()
	if got, err := s.Ended(t.Context(), id); err != nil || got != want {
		t.Errorf("%s: ended is %t, %v, want %t", what, got, err, want)
	}
}

// Signing out at one replica takes effect at all replicas a moment later. A configured token stays valid, for curl and
// for other sessions of a browser.
func TestSessions_EndEverywhere(t *testing.T) {
	t.Parallel()
	token, cfg := oneToken()
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	_, one := replica(t, cfg, store, at)
	a, two := replica(t, cfg, store, at)
	wantEnded(t, "before", two, "session-1", false)
	check.NoError(t, one.End(t.Context(), "session-1", token))
	wantEnded(t, "where it was ended", one, "session-1", true)
	at.at = at.at.Add(revocationAge)
	wantEnded(t, "elsewhere", two, "session-1", true)
	wantEnded(t, "another session", two, "session-2", false)
	wantName(t, "the token", a, "ci", "Bearer "+token)
	if until := store.ended[sha256.Sum256([]byte("session-1"))]; !until.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) || len(store.ended) != 1 {
		t.Errorf("kept %v, want the session alone, until the token ends", store.ended)
	}
	stranger, _ := NewToken()
	if err := one.End(t.Context(), "session-3", stranger.Reveal()); err != nil || len(store.ended) != 1 {
		t.Errorf("with a token that does not count: %v and %d kept, want nothing more", err, len(store.ended))
	}
}

// A token of an issuer ends with its session, however its signature is encoded.
func TestSessions_EndTheirIDToken(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"))
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	a, one := replica(t, f.config(), store, at)
	b, _ := replica(t, f.config(), store, at)
	header := sign(jose.RS256, key, "a", f.claims())
	token := strings.TrimPrefix(header, "Bearer ")
	wantName(t, "before, where it is ended", a, "ana", header)
	wantName(t, "before, elsewhere", b, "ana", header)
	check.NoError(t, one.End(t.Context(), "session-1", token))
	at.at = at.at.Add(revocationAge)
	wantRefused(t, "after signing out, where it was ended", a, header)
	wantRefused(t, "after signing out, elsewhere", b, header)
	if _, kept := store.ended[sha256.Sum256([]byte(token))]; !kept {
		t.Error("the SHA-256 of the token is not kept")
	}
	wantRefused(t, "the same token in other letters", a, "Bearer "+otherSpelling(t, token))
	wantName(t, "another token of the same person", a, "ana", sign(jose.RS256, key, "a", f.with("sid", "2")))
}

// otherSpelling returns the token with its signature in another encoding. The base64 text of a signature of 256 bytes
// ends with a letter that has four unused bits.
func otherSpelling(t *testing.T, token string) string {
	t.Helper()
	signature := func(token string) []byte {
		return must(base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:]))
	}
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		other := token[:len(token)-1] + string(last)
		if other != token && slices.Equal(signature(other), signature(token)) {
			return other
		}
	}
	t.Fatal("the signature has one spelling")
	return ""
}

// While the store does not answer, a session is accepted only for revocationAge after the store's last answer.
func TestSessions_StoreThatIsAway(t *testing.T) {
	t.Parallel()
	token, cfg := oneToken()
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	_, s := replica(t, cfg, store, at)
	wantEnded(t, "while it is there", s, "a", false)
	store.down = true
	wantEnded(t, "what was asked a moment ago", s, "a", false)
	at.at = at.at.Add(revocationAge)
	if _, err := s.Ended(t.Context(), "a"); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("later: got %v, want ErrUnavailable", err)
	}
	if err := s.End(t.Context(), "a", token); !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("signing out: got %v, want ErrUnavailable", err)
	}
}

func TestRevocations_RememberABoundedNumber(t *testing.T) {
	t.Parallel()
	at, store := &clock{noon}, &sharedStore{ended: map[Digest]time.Time{}}
	r, err := NewRevocations(Config{}, store, zap.NewNop(), WithClock(at.now))
	check.NoError(t, err)
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
	at := &clock{noon}
	file := newFile(t, at, "\n")
	token, static := oneToken()
	cfg, hash := f.config(), static.Tokens[0].SHA256
	static.RevokedFile, cfg.RevokedFile = file.path, file.path
	byList, sessions := replica(t, static, nil, at)
	byIssuer, _ := replica(t, cfg, nil, at)
	signed := sign(jose.RS256, key, "a", f.with("jti", "id-1"))
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
		file.write(t, strings.Join(c.lines, "\n")+"\n")
		if _, err := as(t, byList, "Bearer "+token); (err == nil) != c.listed {
			t.Errorf("%s: the token of the list: %v, want it to count: %t", c.name, err, c.listed)
		}
		if _, err := as(t, byIssuer, signed); (err == nil) != c.issued {
			t.Errorf("%s: the token of the issuer: %v, want it to count: %t", c.name, err, c.issued)
		}
		wantEnded(t, c.name, sessions, "session-1", c.sessionOver)
	}
	file.write(t, hash)
	wantRefused(t, "a token that is listed", byList, "Bearer "+token)
	file.remove(t)
	wantRefused(t, "once the file is gone", byList, "Bearer "+token)
	if _, err := NewRevocations(static, nil, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "auth.revoked_file") {
		t.Errorf("without the file: got %v, want the setting named", err)
	}
}

// An issuer that lets people choose claims must not let them choose another identity: some readers ignore the case of
// names, or use the second of two equal names.
func TestOIDC_RefusesAmbiguousClaims(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	f := newFakeIssuer(t, public(&key.PublicKey, "a", "RS256"))
	a := f.open(t)
	body := func(text string) string {
		text = strings.NewReplacer("ISSUER", f.server.URL, "EXPIRY", fmt.Sprint(noon.Add(time.Hour).Unix())).Replace(text)
		return sign(jose.RS256, key, "a", json.RawMessage(text))
	}
	const ours = `{"iss":"ISSUER","aud":"dlq","sub":"4711","exp":EXPIRY`
	wantName(t, "harmless claims", a, "4711", body(ours+`,"Audience":"x","isss":1,"aud2":{"aud":1,"AUD":2}}`))
	for name, claims := range map[string]string{
		"AUD next to aud":   ours + `,"AUD":"evil"}`,
		"Iss next to iss":   ours + `,"Iss":"http://evil"}`,
		"Exp next to exp":   ours + `,"EXP":1}`,
		"long s in sub":     ours + `,"ſub":"0"}`,
		"aud twice":         ours + `,"aud":"dlq"}`,
		"escaped aud":       ours + `,"\u0061ud":"dlq"}`,
		"groups twice":      ours + `,"groups":["staff"],"groups":["boss"]}`,
		"AUD alone":         `{"iss":"ISSUER","AUD":"dlq","sub":"4711","exp":EXPIRY}`,
		"ours after theirs": `{"iss":"http://evil","Iss":"ISSUER","aud":"dlq","sub":"4711","exp":EXPIRY}`,
	} {
		wantRefused(t, name, a, body(claims))
	}
}
