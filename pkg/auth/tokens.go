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
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"
)

const (
	// fileAge is how long the tokens of a file count without a look at the file.
	fileAge = time.Second

	// maxTokensFile is more than thousands of tokens need.
	maxTokensFile = 4 << 20
)

// tokens believes whoever has a token of a list.
type tokens struct {
	fixed []token
	path  string // of the file; "" for none
	log   *zap.Logger
	now   func() time.Time

	mu        sync.Mutex
	listed    []token   // of the file, as it was when it was last right
	state     fileState // of what listed was read from
	checkedAt time.Time
	complaint string // why the file cannot be read at present; "" while it can
}

type token struct {
	hash      [hashSize]byte
	expires   time.Time
	principal Principal
}

// fileState tells whether a file is the one that was read.
type fileState struct {
	modified time.Time
	size     int64
}

func newTokens(cfg Config, log *zap.Logger, now func() time.Time) (*tokens, error) {
	fixed, err := tokensOf("auth.tokens", cfg.Tokens)
	if err != nil {
		return nil, err
	}
	t := &tokens{fixed: fixed, path: cfg.TokensFile, log: log, now: now}
	if t.path == "" {
		return t, nil
	}
	t.checkedAt = now()
	if t.state, err = stateOf(t.path); err != nil {
		return nil, fmt.Errorf("auth.tokens_file: %w", err)
	}
	if t.listed, err = readTokens(t.path); err != nil {
		return nil, fmt.Errorf("auth.tokens_file: %w", err)
	}
	return t, nil
}

// Authenticate looks up the hash of the request's token. Every hash is compared in
// full: how long that takes says nothing about them.
func (t *tokens) Authenticate(_ context.Context, r *http.Request) (Principal, error) {
	text, err := bearer(r)
	if err != nil {
		return Principal{}, err
	}
	if !tokenShaped(text) {
		return Principal{}, refuse("the token is not of the form %s...", tokenPrefix)
	}
	sum := sha256.Sum256([]byte(text))
	var found *token
	for _, list := range [][]token{t.fixed, t.current()} {
		for i := range list {
			if subtle.ConstantTimeCompare(sum[:], list[i].hash[:]) == 1 {
				found = &list[i]
			}
		}
	}
	switch {
	case found == nil:
		return Principal{}, refuse("nobody has this token")
	case !t.now().Before(found.expires):
		return Principal{}, refuse("the token of %q expired at %s", found.principal.Name, found.expires.Format(time.RFC3339))
	}
	return found.principal, nil
}

// current returns the tokens of the file, after a look at the file. While that
// cannot be read, or is wrong, those count that stood there before: a mistake must
// not lock everybody out.
func (t *tokens) current() []token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); t.path == "" || now.Sub(t.checkedAt) < fileAge {
		return t.listed
	} else {
		t.checkedAt = now
	}
	if err := t.refresh(); err != nil {
		t.complain(err)
	}
	return t.listed
}

// refresh reads the file unless what counts was read from it as it is. What could
// not be read is tried again each time: nothing but the reading may have failed,
// and a token that was taken away must not count until the file changes once more.
func (t *tokens) refresh() error {
	state, err := stateOf(t.path)
	if err != nil {
		return err
	}
	if state == t.state && t.complaint == "" {
		return nil
	}
	list, err := readTokens(t.path)
	if err != nil {
		return err
	}
	t.listed, t.state, t.complaint = list, state, ""
	t.log.Info("tokens were read again", zap.String("file", t.path), zap.Int("tokens", len(list)))
	return nil
}

// complain says why once, not with every try.
func (t *tokens) complain(err error) {
	if t.complaint == err.Error() {
		return
	}
	t.complaint = err.Error()
	t.log.Error("tokens could not be read again, those from before count", zap.String("file", t.path), zap.Error(err))
}

func stateOf(path string) (fileState, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}, err
	}
	return fileState{info.ModTime(), info.Size()}, nil
}

func readTokens(path string) ([]token, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokensFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxTokensFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxTokensFile)
	}
	var list []TokenConfig
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s must be a YAML list of tokens: %w", path, err)
	}
	if len(list) == 0 { // also while somebody writes the file in place
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
