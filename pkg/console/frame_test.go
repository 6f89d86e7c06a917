package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

func TestEveryPageIsKeptFromBecomingMarkup(t *testing.T) {
	t.Parallel()
	w := consoletest.Post(t, consoletest.Site(t, consoletest.NewAPI(t)), "/theme", url.Values{"theme": {"dark"}, "return": {"/"}})
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
	if got := w.Header().Get("Content-Security-Policy"); got != policy {
		t.Errorf("got policy %q, want %q", got, policy)
	}
}

func TestErrorsAreToldInWords(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t).Says("GET /api/v1/session", consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the program is <b>starting</b>", nil))
	consoletest.WantSays(t, "the page", consoletest.Get(t, consoletest.Site(t, a), "/"), http.StatusServiceUnavailable, "the program is &lt;b&gt;starting&lt;/b&gt;",
		"req_abc123def456")
}

func TestThemeLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s := consoletest.Site(t, consoletest.NewAPI(t))
	for to, want := range map[string]string{
		"/messages?status=DEAD": "/messages?status=DEAD", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "": "/",
		"/\t/evil.example": "/",
	} {
		consoletest.WantTo(t, "return="+to, consoletest.Post(t, s, "/theme", url.Values{"theme": {"dark"}, "return": {to}}), want)
	}
}

func TestFormThatCannotBeReadDoesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		status     int
	}{
		"TooLarge":      {"application/x-www-form-urlencoded", "do=send&payload=" + strings.Repeat("x", console.MaxForm), http.StatusRequestEntityTooLarge},
		"NotAForm":      {"application/json", `{"reason":"x"}`, http.StatusBadRequest},
		"NoKind":        {"", "reason=x", http.StatusBadRequest},
		"InParts":       {"multipart/form-data; boundary=x", "--x--", http.StatusBadRequest},
		"BadlyEncoded":  {"application/x-www-form-urlencoded", "reason=%zz", http.StatusBadRequest},
		"WithACharset":  {"application/x-www-form-urlencoded; charset=utf-8", "reason=x", http.StatusSeeOther},
		"NothingInside": {"", "", http.StatusSeeOther},
	} {
		a := consoletest.WithMessage(t, "").Says("POST "+consoletest.MessageAPI+"/retry", consoletest.Raw(`{}`))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, consoletest.MessagePath+"/retry", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		w := httptest.NewRecorder()
		consoletest.Site(t, a).ServeHTTP(w, r)
		sent, _ := a.Asked("POST " + consoletest.MessageAPI + "/retry")
		if w.Code != c.status || (len(sent) > 0) != (c.status == http.StatusSeeOther) {
			t.Errorf("%s: got status %d and %d orders, want %d", name, w.Code, len(sent), c.status)
		}
	}
}
