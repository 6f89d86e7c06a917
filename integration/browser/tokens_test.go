package browser

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// tokens: a viewer sees everything except masked data, and sees why no action is offered. An operator may mark a
// message dead.
func tokens(t *testing.T, site *Site) {
	original, _ := site.Topics("secrets")
	stored := site.Fail("secrets", Letter{
		Key: "card-1", Class: "com.acme.Declined", Error: "declined", Value: `{"card":{"number":"4111222233334444"},"amount":5}`,
		Headers: []kgo.RecordHeader{{Key: "authorization", Value: []byte("Bearer hunter2")}},
	})
	message := "/messages/" + stored[0].ID
	viewer, operator := aToken("viewer"), aToken("operator")
	address := site.Another(
		"DLQ_AUTH_MODE=token", "DLQ_AUTH_TOKENS_FILE="+tokensFile(t, viewer, operator),
		"DLQ_MASKING_PAYLOAD=$.card.number", "DLQ_MASKING_HEADERS=authorization",
	)

	b := Open(t, address)
	b.Allow("status of 401")
	b.Visit(message)
	b.WaitPath("/sign-in?return=")
	b.Look("sign-in")
	b.Fill("Token", "dlqm_wrong")
	b.Click("Sign in with the token")
	b.WaitText("Invalid or expired token") // the page with this error has the same path as the page before
	if !strings.Contains(b.Path(), "/sign-in") {
		t.Errorf("a wrong token leads to %s, want the page to ask again", b.Path())
	}
	signIn(b, viewer.secret)
	b.WaitPath(message)
	b.WaitText("read only")
	b.WaitText("needs the role operator on " + original)
	b.WaitText("***")
	b.Wait("no action is offered", `!document.querySelector(".acts button, .acts summary")`)
	b.Look("message-viewer")
	for _, path := range []string{message, message + "?view=text", message + "?unmask=true", "/messages?topic=" + original, message + "/edit"} {
		b.Allow("status of 403")
		b.Visit(path)
		if html := measure[string](b, `document.documentElement.outerHTML`); strings.Contains(html, "4111222233334444") || strings.Contains(html, "hunter2") {
			t.Errorf("%s shows a viewer masked data", path)
		}
	}
	b.Visit("/messages?topic=" + original)
	b.Click("[data-all]")
	b.WaitText("needs the role operator")
	exported := measure[string](b, `fetch([...document.querySelectorAll("a[download]")][0].href).then((r) => r.text())`)
	if strings.Contains(exported, "4111222233334444") || strings.Contains(exported, "hunter2") || !strings.Contains(exported, stored[0].ID) {
		t.Errorf("an export for a viewer is %.300s, want the message with *** in it", exported)
	}
	b.Visit("/topics/mapping")
	b.WaitText("needs the role admin")
	b.Click("Menu")
	b.Click("Sign out")
	b.WaitText("You are signed out")
	b.Visit("/messages")
	b.WaitPath("/sign-in")

	signIn(b, operator.secret)
	b.WaitPath("/messages")
	b.Visit(message)
	b.Click("Mark dead")
	b.Fill("Reason", "declined is declined")
	b.Click("Mark it dead")
	b.WaitText("The message was marked dead")
	b.WaitText("by " + operator.name)
}

func signIn(b *Browser, token string) {
	b.t.Helper()
	b.Fill("Token", token)
	b.Click("Sign in with the token")
}

// token is a sign-in with a role for all topics.
type token struct{ name, role, secret string }

func aToken(role string) token {
	secret := sha256.Sum256([]byte(role))
	return token{name: "night-" + role, role: role, secret: "dlqm_" + base64.RawURLEncoding.EncodeToString(secret[:])}
}

// tokensFile writes a file of tokens as an administrator does.
func tokensFile(t *testing.T, all ...token) string {
	t.Helper()
	var text strings.Builder
	for _, one := range all {
		fmt.Fprintf(&text, "- {name: %s, sha256: %x, expires_at: %s, grants: [{role: %s, topics: [%q]}]}\n", one.name,
			sha256.Sum256([]byte(one.secret)), time.Now().Add(time.Hour).UTC().Format(time.RFC3339), one.role, "*")
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	check.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}
