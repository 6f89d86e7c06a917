package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// KeySize is the length in bytes of the signing keys that this program generates.
const KeySize = 32

// minKey is the minimum length of a key in auth.signing_key_file, in bytes. A file with a shorter key is invalid.
const minKey = 32

// Signer authenticates, by HMAC-SHA-256, data that clients receive and send back, such as cursors of lists. A signature
// is valid only for the purpose for which it was made. The first key signs; all keys verify. It is safe for concurrent
// use.
type Signer struct {
	file *reloaded[[][]byte]      // nil: the keys are in the field keys
	keys atomic.Pointer[[][]byte] // never empty
}

// NewSigner returns a signer with the keys of cfg.SigningKeyFile, or with a random key until Use is called.
func NewSigner(cfg Config, log *zap.Logger, change ...Option) (*Signer, error) {
	s := &Signer{}
	if cfg.SigningKeyFile != "" {
		var err error
		s.file, err = openReloaded("auth.signing_key_file", "signing keys", cfg.SigningKeyFile, readKeys, log, optionsOf(change).now)
		return s, err
	}
	s.Use([][]byte{NewKey()})
	return s, nil
}

// NewKey generates a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // rand.Read never fails, by its documentation
	return key
}

// HasFile reports whether the keys come from a file, so that Use has no effect.
func (s *Signer) HasFile() bool { return s.file != nil }

// Use replaces the keys; keys must not be empty.
func (s *Signer) Use(keys [][]byte) { s.keys.Store(&keys) }

// Sign returns the signature of a text for a purpose. The purpose must not contain NUL.
func (s *Signer) Sign(purpose, text string) []byte { return hmacOf(s.current()[0], purpose, text) }

// Verify reports whether sum is the signature of text for purpose, or the beginning of that signature. sum must have at
// least half of the signature's length.
func (s *Signer) Verify(purpose, text string, sum []byte) bool {
	if len(sum) < sha256.Size/2 || len(sum) > sha256.Size {
		return false
	}
	for _, key := range s.current() {
		if hmac.Equal(sum, hmacOf(key, purpose, text)[:len(sum)]) {
			return true
		}
	}
	return false
}

func (s *Signer) current() [][]byte {
	if s.file != nil {
		return s.file.current()
	}
	return *s.keys.Load()
}

func hmacOf(key []byte, purpose, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose))
	mac.Write([]byte{0})
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// readKeys parses each non-empty line as a key. Its errors contain no key.
func readKeys(path string, raw []byte) ([][]byte, error) {
	var keys [][]byte
	for i, line := range bytes.Split(raw, []byte("\n")) {
		key := bytes.TrimSpace(line)
		switch {
		case len(key) == 0:
			continue
		case len(key) < minKey:
			return nil, fmt.Errorf("%s: the key on line %d has %d bytes, want at least %d", path, i+1, len(key), minKey)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key", path)
	}
	return keys, nil
}

func optionsOf(change []Option) options {
	o := options{now: time.Now}
	for _, f := range change {
		f(&o)
	}
	return o
}
