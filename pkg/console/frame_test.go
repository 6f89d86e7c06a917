package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestEveryPageIsKeptFromBecomingMarkup(t *testing.T) {
	t.Parallel()
	w := post(t, site(t, newAPI(t)), "/theme", url.Values{"theme": {"dark"}, "return": {"/"}})
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
	if got := w.Header().Get("Content-Security-Policy"); got != policy {
		t.Errorf("got policy %q, want %q", got, policy)
	}
}

func TestErrorsAreToldInWords(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/session", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the program is <b>starting</b>", nil})
	wantSays(t, "the page", get(t, site(t, a), "/"), http.StatusServiceUnavailable, "the program is &lt;b&gt;starting&lt;/b&gt;",
		"req_abc123def456")
}

func TestThemeLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s := site(t, newAPI(t))
	for to, want := range map[string]string{
		"/messages?status=DEAD": "/messages?status=DEAD", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "": "/",
		"/\t/evil.example": "/",
	} {
		wantTo(t, "return="+to, post(t, s, "/theme", url.Values{"theme": {"dark"}, "return": {to}}), want)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	files, err := loadAssets(static)
	check.NoError(t, err)
	s := site(t, newAPI(t))
	for path, want := range map[string]string{
		files.url("console.css"): "public, max-age=31536000, immutable", files.url("main.js"): "public, max-age=31536000, immutable",
		files.url("icon.svg"): "public, max-age=31536000, immutable", "/static/of-before/console.css": "no-cache",
	} {
		w := get(t, s, path, "Accept-Encoding", "br, gzip")
		wantSays(t, path, w, http.StatusOK)
		if h := w.Header(); h.Get("Cache-Control") != want || h.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: got %v, want it packed, and kept: %s", path, h, want)
		}
	}
	wantSays(t, "what is no asset", get(t, s, "/static/x/console.go"), http.StatusNotFound)
	total := 0
	for name, f := range files.files {
		if name != "htmx.min.js" && !strings.HasPrefix(name, "uPlot") {
			total += len(f.compressed)
		}
	}
	if total == 0 || total > 60<<10 {
		t.Errorf("got %d bytes of our assets over the wire, want some and at most 60 KiB", total)
	}
}

func TestViewerMay(t *testing.T) {
	t.Parallel()
	v := &viewer{Grants: []grant{{"operator", []string{"orders.*"}}, {"viewer", []string{"^pay.+$"}}, {"unmask", []string{"*"}}}}
	for _, c := range []struct {
		role   string
		topics []string
		want   bool
	}{
		{"operator", nil, true},
		{"operator", []string{"orders.v1"}, true},
		{"viewer", []string{"orders.v1"}, true},
		{"operator", []string{"orders."}, false},
		{"operator", []string{"xorders.v1"}, false},
		{"operator", []string{"payments"}, false},
		{"viewer", []string{"payments", "orders.v1"}, true},
		{"viewer", []string{"payments", "users"}, false},
		{"admin", nil, false},
		{"viewer", []string{""}, false},
		{"unmask", []string{""}, true},
	} {
		if got := v.May(c.role, c.topics...); got != c.want {
			t.Errorf("%s on %q: got %t, want %t", c.role, c.topics, got, c.want)
		}
	}
	if (*viewer)(nil).May("viewer") {
		t.Error("got a request without a viewer allowed, want it refused")
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		number(0): "0", number(1234567): "1,234,567", number(int64(-1000)): "-1,000", number(999): "999",
		byteSize(1023): "1023 B", byteSize(1536): "1.5 KiB", byteSize(10 << 20): "10.0 MiB",
		percent(0): "0 %", percent(0.001): "< 1 %", percent(0.999): "> 99 %", percent(1): "100 %",
		clip(4, "äöüß"): "äöüß", clip(3, "äöüß"): "äö…",
		ago(noon, noon.Add(-90*time.Second)): "1 min ago", ago(noon, noon): "just now", ago(noon, time.Time{}): "–",
		ago(noon, noon.Add(time.Hour)): "in 1 h", rough(50 * time.Hour): "2 d",
		to("/a", "b", "c d", "e", "", "b", "&"): "/a?b=c+d&b=%26",
	} {
		check.True(t, got == want, "got %q, want %q", got, want)
	}
}
