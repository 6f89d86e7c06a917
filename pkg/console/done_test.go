package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestDone(t *testing.T) {
	t.Parallel()
	const page, sentence = "/redrives/" + redriveID, "The redrive was paused."
	v := newVisitor(t, site(t, redriveAPI(t).says("POST /api/v1/redrives/"+redriveID+"/pause", raw(`{}`))))
	says := func(path string) bool {
		t.Helper()
		return strings.Contains(v.get(path).Body.String(), sentence)
	}
	cookie := v.send(http.MethodPost, page+"/pause", url.Values{}).Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.MaxAge != 60 || cookie.Path != "/" {
		t.Errorf("got %s, want one for a minute, that scripts and other sites do not have, and that is kept without TLS", cookie)
	}
	if says("/redrives") {
		t.Error("got it shown on another page")
	}
	if v.header["Hx-Request"] = "true"; says(page) {
		t.Error("got it shown in a live part")
	}
	if delete(v.header, "Hx-Request"); !says(page + "?result=skipped") {
		t.Error("got it missing on its own page, or removed by another page or a part")
	}
	if v.cookies() != "" || says(page) {
		t.Errorf("got it shown again (%q), want once", v.cookies())
	}
	// Text of the request is never shown.
	for _, value := range []string{hostile, "paused", "paused.x", hostile + "." + digest(page), "nonsense." + digest(page)} {
		v.jar[doneCookie] = &http.Cookie{Name: doneCookie, Value: url.QueryEscape(value)}
		body := v.get(page + "?done=paused").Body.String()
		mustNotHave(t, body, `class="notice good"`)
		wantNoMarkup(t, body)
	}
}

func TestWayBack(t *testing.T) {
	t.Parallel()
	for came, want := range map[string]string{
		"http://example.com/messages?topic=a&status=DEAD": "/messages?topic=a&status=DEAD", "http://example.com/groups/1": "/groups/1",
		"http://example.com/redrives/1?result=dead": "/redrives/1?result=dead", "http://evil.example/messages?a=b": messagesPath, "": messagesPath,
		"http://example.com/": messagesPath, "http://example.com/messages/1": messagesPath, "http://example.com//evil.example/messages": messagesPath,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/messages/1", nil)
		r.Header.Set("Referer", came)
		if got := wayBack(r); got != want {
			t.Errorf("from %q: got %q, want %q", came, got, want)
		}
	}
	for kept, want := range map[string]string{
		"/messages?topic=a": "/messages?topic=a", "https://evil.example/messages": messagesPath, "//evil.example/messages": messagesPath,
		`/\evil.example`: messagesPath, "/messages/1": messagesPath, "": messagesPath,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/messages/1/delete", strings.NewReader(url.Values{"from": {kept}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if got := wayBack(r); got != want {
			t.Errorf("kept %q: got %q, want %q", kept, got, want)
		}
	}
}
