package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"
)

type tokens struct {
	fixed   []token
	listed  *reloaded[[]token] // tokens of the file; nil: there is no file
	revoked *Revocations
	now     func() time.Time
}

type token struct {
	hash      Digest
	expires   time.Time
	principal Principal
}

func newTokens(cfg Config, revoked *Revocations, log *zap.Logger, now func() time.Time) (*tokens, error) {
	fixed, err := tokensOf("auth.tokens", cfg.Tokens)
	if err != nil {
		return nil, err
	}
	t := &tokens{fixed: fixed, revoked: revoked, now: now}
	if cfg.TokensFile != "" {
		t.listed, err = openReloaded("auth.tokens_file", "tokens", cfg.TokensFile, readTokens, log, now)
	}
	return t, err
}

func (t *tokens) Authenticate(_ context.Context, r *http.Request) (Principal, error) {
	text, err := bearer(r)
	if err != nil {
		return Principal{}, err
	}
	found, err := t.find(text)
	return found.principal, err
}

// life returns when a configured token expires. It returns no digests, because a configured token stays valid after its
// sessions.
func (t *tokens) life(_ context.Context, raw string) (ends time.Time, withSession []Digest, err error) {
	found, err := t.find(raw)
	return found.expires, nil, err
}

// find returns the configured token that matches the text, unless the token has expired or was revoked. It compares all
// hashes in constant time, so that its duration reveals nothing about them.
func (t *tokens) find(text string) (token, error) {
	if !tokenShaped(text) {
		return token{}, refuse("the token is not of the form %s...", tokenPrefix)
	}
	lists := [][]token{t.fixed}
	if t.listed != nil {
		lists = append(lists, t.listed.current())
	}
	sum := sha256.Sum256([]byte(text))
	var found *token
	for _, list := range lists {
		for i := range list {
			if subtle.ConstantTimeCompare(sum[:], list[i].hash[:]) == 1 {
				found = &list[i]
			}
		}
	}
	switch {
	case found == nil:
		return token{}, refuse("the token is unknown")
	case !t.now().Before(found.expires):
		return token{}, refuse("the token of %q expired at %s", found.principal.Name, found.expires.Format(time.RFC3339))
	case t.revoked.listsDigest(sum):
		return token{}, refuse("the token of %q was revoked", found.principal.Name)
	}
	return *found, nil
}

func readTokens(path string, raw []byte) ([]token, error) {
	var list []TokenConfig
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s must be a YAML list of tokens: %w", path, err)
	}
	if len(list) == 0 { // an empty list is an error, because another program may be rewriting the file at this moment
		return nil, fmt.Errorf("%s lists no token", path)
	}
	if err := errors.Join(validateTokens(path+": tokens", list)...); err != nil {
		return nil, err
	}
	return tokensOf(path, list)
}

func tokensOf(from string, list []TokenConfig) ([]token, error) {
	out := make([]token, 0, len(list))
	for i, cfg := range list {
		t := token{principal: Principal{Name: cfg.Name}}
		sum, err := hex.DecodeString(cfg.SHA256)
		if err != nil {
			return nil, fmt.Errorf("%s[%d].sha256: %w", from, i, err)
		}
		copy(t.hash[:], sum)
		if t.expires, err = time.Parse(time.RFC3339, cfg.ExpiresAt); err != nil {
			return nil, fmt.Errorf("%s[%d].expires_at: %w", from, i, err)
		}
		for j, g := range cfg.Grants {
			grant, err := g.grant(fmt.Sprintf("%s[%d].grants[%d]", from, i, j))
			if err != nil {
				return nil, err
			}
			t.principal.Grants = append(t.principal.Grants, grant)
		}
		out = append(out, t)
	}
	return out, nil
}
