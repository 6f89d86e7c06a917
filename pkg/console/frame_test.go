package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestEveryPageIsKeptFromBecomingMarkup(t *testing.T) {
	t.Parallel()
	s := site(t, newAPI(t))
	w := post(t, s, "/theme", url.Values{"theme": {"dark"}, "return": {"/"}})
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("got policy %q, want %s in it", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("got policy %q, want nothing unsafe in it", policy)
	}
}

func TestErrorsAreToldInWords(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/session", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the program is <b>starting</b>", nil})
	w := get(t, site(t, a), "/")
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", w.Code)
	}
	if body := w.Body.String(); !strings.Contains(body, "the program is &lt;b&gt;starting&lt;/b&gt;") || !strings.Contains(body, "req_abc123def456") {
		t.Errorf("got %s, want the API's words and the request's id", body)
	}
}

func TestThemeLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s := site(t, newAPI(t))
	for to, want := range map[string]string{
		"/messages?status=DEAD": "/messages?status=DEAD", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "": "/",
		"/\t/evil.example": "/",
	} {
		w := post(t, s, "/theme", url.Values{"theme": {"dark"}, "return": {to}})
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("return=%q: got %q, want %q", to, got, want)
		}
	}
}

func TestAssetsAreKeptForEver(t *testing.T) {
	t.Parallel()
	files, err := loadAssets(static)
	if err != nil {
		t.Fatal(err)
	}
	s := site(t, newAPI(t))
	for _, name := range []string{"console.css", "main.js", "icon.svg"} {
		w := get(t, s, files.url(name))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got %d, Cache-Control %q, want 200, immutable", name, w.Code, w.Header().Get("Cache-Control"))
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, files.url("console.css"), nil)
	r.Header.Set("Accept-Encoding", "br, gzip")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Encoding"); got != "gzip" {
		t.Errorf("got encoding %q, want gzip", got)
	}
	if w := get(t, s, "/static/of-before/console.css"); strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Error("got an old address kept for ever, want what it serves looked at again")
	}
	if w := get(t, s, "/static/x/console.go"); w.Code != http.StatusNotFound {
		t.Errorf("got %d for what is no asset, want 404", w.Code)
	}
}

func TestAssetsOfOursAreSmall(t *testing.T) {
	t.Parallel()
	files, err := loadAssets(static)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, f := range files.files {
		if name != "htmx.min.js" && !strings.HasPrefix(name, "uPlot") {
			total += len(f.compressed)
		}
	}
	if total == 0 || total > 60<<10 {
		t.Errorf("got %d bytes of assets over the wire, want some and at most 60 KiB", total)
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
		t.Error("got nobody allowed to look, want not")
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
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
