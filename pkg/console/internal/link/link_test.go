package link

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestWebAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://t.example/1?a=b": "https://t.example/1?a=b", "http://t": "http://t", "javascript:alert(1)": "", "//t.example": "", "": "",
		" javascript:alert(1)": "", "https:": "", "data:text/html,x": "", "JAVASCRIPT:alert(1)//http://x": "",
	} {
		if got := Web(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestWayBack(t *testing.T) {
	t.Parallel()
	for came, want := range map[string]string{
		"http://example.com/messages?topic=a&status=DEAD": "/messages?topic=a&status=DEAD", "http://example.com/groups/1": "/groups/1",
		"http://example.com/redrives/1?result=dead": "/redrives/1?result=dead", "http://evil.example/messages?a=b": Messages, "": Messages,
		"http://example.com/": Messages, "http://example.com/messages/1": Messages, "http://example.com//evil.example/messages": Messages,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/messages/1", nil)
		r.Header.Set("Referer", came)
		if got := Back(r); got != want {
			t.Errorf("from %q: got %q, want %q", came, got, want)
		}
	}
	for kept, want := range map[string]string{
		"/messages?topic=a": "/messages?topic=a", "https://evil.example/messages": Messages, "//evil.example/messages": Messages,
		`/\evil.example`: Messages, "/messages/1": Messages, "": Messages,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/messages/1/delete", strings.NewReader(url.Values{"from": {kept}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if got := Back(r); got != want {
			t.Errorf("kept %q: got %q, want %q", kept, got, want)
		}
	}
}
