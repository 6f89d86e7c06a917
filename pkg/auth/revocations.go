package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// revocationAge is how long this process caches the store's answer that a session has not ended. So every replica
	// refuses an ended session after this time at the latest.
	revocationAge = 2 * time.Second

	revocationTimeout = 5 * time.Second

	maxRemembered = 10_000
)

// Digest is the SHA-256 of a token or of a session's id.
type Digest = [sha256.Size]byte

// EndedStore stores the ended sessions for all replicas. While it is unreachable its errors are of kind
// entity.ErrUnavailable.
type EndedStore interface {
	// EndSessions stores the digests; they may be deleted after the time until.
	EndSessions(ctx context.Context, digests []Digest, until time.Time) error
	// EndedSessions returns which of the digests are stored.
	EndedSessions(ctx context.Context, digests []Digest) ([]Digest, error)
}

// Revocations holds tokens and sessions that are invalid before they expire, because auth.revoked_file lists them or
// because they were signed out. It is safe for concurrent use.
type Revocations struct {
	file  *reloaded[map[string]bool] // nil: no file is configured
	store EndedStore                 // nil: sign-outs are remembered in this process only
	now   func() time.Time

	mu         sync.Mutex
	remembered map[Digest]answered
}

type answered struct {
	ended bool
	until time.Time // time from which the store is asked again; without a store, time from which the answer may be deleted
}

// NewRevocations reads the file at once. Without a store, sign-outs are remembered in this process only.
func NewRevocations(cfg Config, store EndedStore, log *zap.Logger, change ...Option) (*Revocations, error) {
	r := &Revocations{store: store, now: optionsOf(change).now, remembered: map[Digest]answered{}}
	if cfg.RevokedFile == "" {
		return r, nil
	}
	var err error
	r.file, err = openReloaded("auth.revoked_file", "revoked tokens", cfg.RevokedFile, readRevoked, log, r.now)
	return r, err
}

// readRevoked parses each non-empty line as a SHA-256 or a jti.
func readRevoked(_ string, raw []byte) (map[string]bool, error) {
	listed := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if sum, err := hex.DecodeString(line); err == nil && len(sum) == sha256.Size {
			line = strings.ToLower(line)
		}
		if line != "" {
			listed[line] = true
		}
	}
	return listed, nil
}

func (r *Revocations) lists(text string) bool {
	return text != "" && r.file != nil && r.file.current()[text]
}

func (r *Revocations) listsDigest(d Digest) bool { return r.lists(hex.EncodeToString(d[:])) }

// ended reports whether one of the sessions was ended. It uses answers of the store that are at most revocationAge old,
// and the ends that this process has stored itself.
func (r *Revocations) ended(ctx context.Context, digests ...Digest) (bool, error) {
	asked := r.now()
	ended, known := r.recall(digests, asked)
	if ended || known || r.store == nil {
		return ended, nil
	}
	ctx, cancel := context.WithTimeout(ctx, revocationTimeout)
	defer cancel()
	found, err := r.store.EndedSessions(ctx, digests)
	if err != nil {
		return false, fmt.Errorf("check whether a session was ended: %w", err)
	}
	until := asked.Add(revocationAge)
	r.remember(digests, func(d Digest) answered { return answered{slices.Contains(found, d), until} })
	return len(found) > 0, nil
}

// recall reports whether this process remembers that one of the digests has ended. known reports whether it remembers a
// current answer of the store about every digest.
func (r *Revocations) recall(digests []Digest, now time.Time) (ended, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = true
	for _, d := range digests {
		answer := r.remembered[d]
		current := now.Before(answer.until)
		ended = ended || current && answer.ended
		known = known && current
	}
	return ended, known
}

func (r *Revocations) end(ctx context.Context, digests []Digest, until time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, revocationTimeout)
	defer cancel()
	if r.store != nil {
		if err := r.store.EndSessions(ctx, digests, until); err != nil {
			return fmt.Errorf("end a session: %w", err)
		}
	}
	r.remember(digests, func(Digest) answered { return answered{true, until} })
	return nil
}

// remember caches answers of the store. If the cache is full, it first removes outdated answers, and if the cache is
// still full, all answers. Without a store it removes only outdated answers, because the cache is then the only record
// of ended sessions.
func (r *Revocations) remember(digests []Digest, answer func(Digest) answered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.remembered)+len(digests) > maxRemembered {
		now := r.now()
		maps.DeleteFunc(r.remembered, func(_ Digest, a answered) bool { return !now.Before(a.until) })
		if r.store != nil && len(r.remembered)+len(digests) > maxRemembered {
			clear(r.remembered)
		}
	}
	for _, d := range digests {
		r.remembered[d] = answer(d)
	}
}

type bearers interface {
	// life returns when a valid token expires, and which of the token's digests become invalid when its session ends. A
	// token that stays valid after its sessions has no such digests.
	life(ctx context.Context, raw string) (ends time.Time, withSession []Digest, err error)
}

// Sessions ends sessions of browsers, each with a random id and a token. It is safe for concurrent use.
type Sessions struct {
	tokens  bearers
	revoked *Revocations
}

// NewSessions returns Sessions for the tokens that the authenticator a accepts; New must have returned a.
func NewSessions(a Authenticator, revoked *Revocations) *Sessions {
	tokens, _ := a.(bearers)
	return &Sessions{tokens, revoked}
}

// Ended reports whether a session was ended, or is listed in auth.revoked_file. It notices an end at another replica
// within two seconds. The error is of kind entity.ErrUnavailable.
func (s *Sessions) Ended(ctx context.Context, id string) (bool, error) {
	d := sha256.Sum256([]byte(id))
	if s.revoked.listsDigest(d) {
		return true, nil
	}
	return s.revoked.ended(ctx, d)
}

// End ends a session, and also its token if an issuer signed it: on every replica or, without a store, in this process
// only. In mode none it does nothing. A configured token stays valid. An invalid token has no session to end.
func (s *Sessions) End(ctx context.Context, id, token string) error {
	if s.tokens == nil {
		return nil
	}
	ends, withSession, err := s.tokens.life(ctx, token)
	if errors.Is(err, ErrUnauthenticated) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.revoked.end(ctx, append(withSession, sha256.Sum256([]byte(id))), ends)
}
