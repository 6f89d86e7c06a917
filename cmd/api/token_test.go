package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// When the printed entry is the content of the tokens file, the API accepts the printed token.
func TestTokenNew(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(t.Context(), []string{
		"token", "new", "--config", "/nowhere", "--name", "ana", "--role", "operator,unmask", "--topics", "orders.*", "--days", "30",
	}, nil, &out)
	check.NoError(t, err)
	lines := strings.SplitN(out.String(), "\n", 4)
	token, entry := lines[1], lines[3]
	sum := sha256.Sum256([]byte(token))
	if !strings.HasPrefix(token, "dlqm_") || strings.Count(out.String(), token) != 1 || !strings.Contains(entry, hex.EncodeToString(sum[:])) {
		t.Fatalf("got\n%s\nwant the token once, and its hash", out.String())
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	check.NoError(t, os.WriteFile(path, []byte(entry), 0o600))
	a, err := auth.New(auth.Config{Mode: auth.ModeToken, TokensFile: path}, zap.NewNop())
	check.NoError(t, err)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	p, err := a.Authenticate(t.Context(), r)
	if err != nil || p.Name != "ana" || !p.May(auth.Operator, "orders.x") || !p.May(auth.Unmask, "orders.x") || p.May(auth.Viewer, "x") {
		t.Errorf("got %+v, %v, want ana, operator and unmask of orders.*", p, err)
	}
}

func TestTokenNew_Refuses(t *testing.T) {
	t.Parallel()
	order := func(change func(*tokenOrder)) *tokenOrder {
		o := &tokenOrder{name: "ana", roles: []string{"viewer"}, topics: []string{"*"}, days: 1}
		change(o)
		return o
	}
	for part, o := range map[string]*tokenOrder{
		"--days":           order(func(o *tokenOrder) { o.days = 0 }),
		"--topics":         order(func(o *tokenOrder) { o.topics = nil }),
		".name":            order(func(o *tokenOrder) { o.name = "" }),
		"grants[0].role":   order(func(o *tokenOrder) { o.roles = []string{"root"} }),
		"grants[0].topics": order(func(o *tokenOrder) { o.topics = []string{"a b"} }),
		".grants":          order(func(o *tokenOrder) { o.roles = nil }),
	} {
		var out strings.Builder
		if err := o.run([]string{"token", "new"}, time.Now(), &out); err == nil || !strings.Contains(err.Error(), part) || out.Len() > 0 {
			t.Errorf("got %v and %q, want an error with %s and no token", err, out.String(), part)
		}
	}
	if err := order(func(*tokenOrder) {}).run([]string{"token"}, time.Now(), os.Stdout); err == nil {
		t.Error("token without new: got no error, want one")
	}
}
