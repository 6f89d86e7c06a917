package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// wantDone wants a change to lead to an address whose page says, once, what was done.
func wantDone(t *testing.T, what string, w *httptest.ResponseRecorder, code, address string) {
	t.Helper()
	wantTo(t, what, w, address)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, cookie := range w.Result().Cookies() {
		if cookie.Name == doneCookie {
			got = cookie.Value
		}
	}
	if want := code + "." + digest(u.Path); got != want || done[code] == "" {
		t.Errorf("%s: got told %q, want %q, which is a sentence", what, got, want)
	}
}

func TestDone(t *testing.T) {
	t.Parallel()
	const sentence = "The redrive was paused."
	begin := func(t *testing.T) *visitor {
		t.Helper()
		a := redriveAPI(t).says("POST /api/v1/redrives/"+redriveID+"/pause", raw(`{}`))
		v := newVisitor(t, site(t, a))
		w := v.send(http.MethodPost, "/redrives/"+redriveID+"/pause", url.Values{})
		cookie := w.Result().Cookies()[0]
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.MaxAge != 60 || cookie.Path != "/" {
			t.Errorf("got %s, want one for a minute, that scripts and other sites do not have, and that is kept without TLS", cookie)
		}
		return v
	}
	says := func(w *httptest.ResponseRecorder) bool { return strings.Contains(w.Body.String(), sentence) }

	t.Run("IsToldOnce", func(t *testing.T) {
		t.Parallel()
		v := begin(t)
		if !says(v.get("/redrives/" + redriveID)) {
			t.Error("got nothing told of what was done")
		}
		if v.cookies() != "" || says(v.get("/redrives/"+redriveID)) {
			t.Errorf("got it told again (%q), want once", v.cookies())
		}
	})
	t.Run("IsToldByItsOwnPageAlone", func(t *testing.T) {
		t.Parallel()
		v := begin(t)
		if says(v.get("/redrives")) || !says(v.get("/redrives/"+redriveID+"?result=skipped")) {
			t.Error("got it told by another page, or not by its own")
		}
	})
	t.Run("IsLeftToThePageByItsParts", func(t *testing.T) {
		t.Parallel()
		v := begin(t)
		v.header["Hx-Request"] = "true"
		if says(v.get("/redrives/" + redriveID)) {
			t.Error("got it told to a part of a page")
		}
		v.header = map[string]string{}
		if !says(v.get("/redrives/" + redriveID)) {
			t.Error("got it taken away by a part of the page")
		}
	})
	t.Run("IsNeverWhatTheRequestSays", func(t *testing.T) {
		t.Parallel()
		s := site(t, redriveAPI(t))
		for _, value := range []string{hostile, "paused", "paused.x", hostile + "." + digest("/redrives/"+redriveID), "nonsense." + digest("/redrives/"+redriveID)} {
			v := newVisitor(t, s)
			v.jar[doneCookie] = &http.Cookie{Name: doneCookie, Value: url.QueryEscape(value)}
			body := v.get("/redrives/" + redriveID + "?done=paused").Body.String()
			if strings.Contains(body, `class="notice good"`) {
				t.Errorf("%q: got something told as done", value)
			}
			wantNoMarkup(t, body)
		}
	})
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
