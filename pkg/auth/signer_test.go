package auth

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func newSigner(t *testing.T, cfg Config, change ...Option) *Signer {
	t.Helper()
	s, err := NewSigner(cfg, zap.NewNop(), change...)
	check.NoError(t, err)
	return s
}

func TestSigner(t *testing.T) {
	t.Parallel()
	one, two := newSigner(t, Config{}), newSigner(t, Config{})
	sum := one.Sign("cursor", "text")
	for name, c := range map[string]struct {
		signer        *Signer
		purpose, text string
		sum           []byte
		want          bool
	}{
		"whole":           {one, "cursor", "text", sum, true},
		"half":            {one, "cursor", "text", sum[:16], true},
		"less than half":  {one, "cursor", "text", sum[:15], false},
		"nothing":         {one, "cursor", "text", nil, false},
		"longer":          {one, "cursor", "text", append(sum[:32:32], 0), false},
		"changed":         {one, "cursor", "text", append([]byte{sum[0] ^ 1}, sum[1:]...), false},
		"another text":    {one, "cursor", "texts", sum, false},
		"another purpose": {one, "plan", "text", sum, false},
		"purpose in text": {one, "cursortext", "", sum, false},
		"another key":     {two, "cursor", "text", sum, false},
	} {
		if got := c.signer.Verify(c.purpose, c.text, c.sum); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	key := NewKey()
	one.Use([][]byte{key})
	two.Use([][]byte{NewKey(), key})
	if !two.Verify("cursor", "text", one.Sign("cursor", "text")) || one.Verify("cursor", "text", two.Sign("cursor", "text")) {
		t.Error("want all keys to verify, and the first to sign")
	}
}

func TestSigner_KeysOfAFile(t *testing.T) {
	t.Parallel()
	at := &clock{noon}
	first, second := strings.Repeat("a", minKey), strings.Repeat("b", minKey)
	file := newFile(t, at, first+"\n")
	cfg := Config{SigningKeyFile: file.path}
	s, other := newSigner(t, cfg, WithClock(at.now)), newSigner(t, cfg, WithClock(at.now))
	sum := s.Sign("cursor", "text")
	if !other.Verify("cursor", "text", sum) {
		t.Error("another process with the same file does not verify")
	}
	file.write(t, "\n "+second+" \r\n"+first)
	if !s.Verify("cursor", "text", sum) || string(s.Sign("cursor", "text")) == string(sum) {
		t.Error("want the old key to verify, and the new one to sign")
	}
	file.write(t, "short\n")
	if !s.Verify("cursor", "text", sum) {
		t.Error("a mistake in the file takes away its keys")
	}
	file.write(t, second)
	if s.Verify("cursor", "text", sum) {
		t.Error("a key that was taken away still verifies")
	}
	for _, text := range []string{"", "\n\n", "short", first + "\nshort-secret"} {
		file.write(t, text)
		_, err := NewSigner(cfg, zap.NewNop())
		if err == nil || !strings.Contains(err.Error(), "auth.signing_key_file") || strings.Contains(err.Error(), "short") {
			t.Errorf("%q: got %v, want an error that names the setting and no key", text, err)
		}
	}
}
