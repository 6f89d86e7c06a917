package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

const (
	// tokenPrefix makes leaked tokens easy to find.
	tokenPrefix = "dlqm_"
	tokenBytes  = 32
	hashSize    = sha256.Size
)

// NewToken generates a token of 256 random bits, and its hash for the configuration.
func NewToken() (token secret.Text, sha256Hex string) {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails, by its documentation
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(text))
	return secret.Text(text), hex.EncodeToString(sum[:])
}

// tokenShaped reports whether the text has the form of tokens of NewToken.
func tokenShaped(text string) bool {
	random, ours := strings.CutPrefix(text, tokenPrefix)
	b, err := base64.RawURLEncoding.DecodeString(random)
	return ours && err == nil && len(b) == tokenBytes
}
