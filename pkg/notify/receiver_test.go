package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The following code is also in docs/notifications.md.

// verified reports whether a request with that body was signed with key in the last
// five minutes.
func verified(r *http.Request, body, key []byte) bool {
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	for _, signature := range strings.Fields(r.Header.Get("Webhook-Signature")) {
		sent, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1,"))
		if err == nil && hmac.Equal(sent, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// End of the code.

func TestTheReceiverOfTheDocuments(t *testing.T) {
	t.Parallel()
	signed := func(key, body string, at time.Time) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		stamp := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte("id." + stamp + "." + body))
		r.Header.Set("Webhook-Id", "id")
		r.Header.Set("Webhook-Timestamp", stamp)
		r.Header.Set("Webhook-Signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		return r
	}
	for name, c := range map[string]struct {
		request *http.Request
		want    bool
	}{
		"Signed":        {signed("key", "body", time.Now()), true},
		"OtherKey":      {signed("other", "body", time.Now()), false},
		"OtherBody":     {signed("key", "bodies", time.Now()), false},
		"LongAgo":       {signed("key", "body", time.Now().Add(-time.Hour)), false},
		"NotSigned":     {httptest.NewRequest(http.MethodPost, "/", nil), false},
		"FromTheFuture": {signed("key", "body", time.Now().Add(time.Hour)), false},
	} {
		if got := verified(c.request, []byte("body"), []byte("key")); got != c.want {
			t.Errorf("%s: verified = %t, want %t", name, got, c.want)
		}
	}
}

func TestTheDocumentsHaveTheReceiver(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("receiver_test.go")
	check.NoError(t, err)
	page, err := os.ReadFile("../../docs/notifications.md")
	check.NoError(t, err)
	_, code, _ := strings.Cut(string(own), "is also in docs/notifications.md.\n\n")
	code, _, _ = strings.Cut(code, "\n// End of the code.")
	if len(code) < 500 || !strings.Contains(string(page), code) {
		t.Errorf("docs/notifications.md does not have the code of receiver_test.go")
	}
}
