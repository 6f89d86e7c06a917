package integration_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// grant is a role for topics, "*" for all.
type grant struct{ role, topics string }

// person is a user with a token.
type person struct {
	name   string
	token  string
	grants []grant
}

// people returns one person for each name in grants, each with another token and the given roles.
func people(grants map[string][]grant) map[string]person {
	all := map[string]person{}
	for name, list := range grants {
		secret := bytes.Repeat([]byte{byte(len(all) + 1)}, 32)
		all[name] = person{name, "dlqm_" + base64.RawURLEncoding.EncodeToString(secret), list}
	}
	return all
}

// tokensFile writes the tokens of people into a file, as an administrator would.
func tokensFile(t *testing.T, people map[string]person) string {
	t.Helper()
	var text strings.Builder
	for _, who := range people {
		fmt.Fprintf(&text, "- name: %s\n  sha256: %x\n  expires_at: %s\n  grants:\n", who.name, sha256.Sum256([]byte(who.token)),
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		for _, g := range who.grants {
			fmt.Fprintf(&text, "    - {role: %s, topics: [%q]}\n", g.role, g.topics)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	check.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// withTokens returns the settings of an API that accepts only these tokens.
func withTokens(t *testing.T, people map[string]person) []string {
	t.Helper()
	return []string{"DLQ_AUTH_MODE=token", "DLQ_AUTH_TOKENS_FILE=" + tokensFile(t, people)}
}
