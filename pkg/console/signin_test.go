package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const goodToken = "dlqm_good-token"

// anIssuer signs in whoever comes with its code.
type anIssuer struct {
	down     bool
	token    string
	finished []string // code, verifier and nonce of each that came back
}

func (i *anIssuer) Begin(_ context.Context, state string) (address, nonce, verifier string, err error) {
	if i.down {
		return "", "", "", errors.New("the issuer is down")
	}
	return "https://id.example.com/authorize?state=" + state, "nonce-1", "verifier-1", nil
}

func (i *anIssuer) Finish(_ context.Context, code, verifier, nonce string) (token string, expires time.Time, err error) {
	i.finished = append(i.finished, code+" "+verifier+" "+nonce)
	if code != "code-1" {
		return "", time.Time{}, errors.New("the issuer refuses")
	}
	return i.token, noon.Add(5 * time.Minute), nil
}

// guarded is an API that lets in who has the token, and has an overview page's worth
// of nothing else.
func guarded(t *testing.T, token string) *anAPI {
	t.Helper()
	a := newAPI(t)
	return a.says("GET /api/v1/session", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"SYS_DLQ_UNAUTHENTICATED","message":"not authenticated","request_id":"r"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"ana","mode":"token","grants":[{"role":"viewer","topics":["*"]}]}`))
	}))
}

// visitor is a browser: it keeps cookies as one does, and goes where it is not sent.
type visitor struct {
	t      *testing.T
	site   http.Handler
	jar    map[string]*http.Cookie
	header map[string]string
}

func newVisitor(t *testing.T, site http.Handler) *visitor {
	t.Helper()
	return &visitor{t: t, site: site, jar: map[string]*http.Cookie{}, header: map[string]string{}}
}

func (v *visitor) send(method, path string, form url.Values) *httptest.ResponseRecorder {
	v.t.Helper()
	r := httptest.NewRequestWithContext(v.t.Context(), method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	for _, cookie := range v.jar {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	v.site.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if cookie.MaxAge < 0 {
			delete(v.jar, cookie.Name)
		} else {
			v.jar[cookie.Name] = cookie
		}
	}
	return w
}

func (v *visitor) get(path string) *httptest.ResponseRecorder {
	v.t.Helper()
	return v.send(http.MethodGet, path, nil)
}

// cookies are the names of what the visitor keeps.
func (v *visitor) cookies() string {
	var names []string
	for name := range v.jar {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func wantTo(t *testing.T, what string, w *httptest.ResponseRecorder, location string) {
	t.Helper()
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != location {
		t.Errorf("%s: got %d to %q, want 303 to %q", what, w.Code, got, location)
	}
}

func wantSays(t *testing.T, what string, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("%s: got %d, want %d", what, w.Code, status)
	}
	for _, part := range parts {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s: got %s, want %q in it", what, w.Body, part)
		}
	}
}

func TestSignIn_Token(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, site(t, guarded(t, goodToken), WithAuthentication()))
	wantTo(t, "a page", v.get("/?a=b"), "/sign-in?return=%2F%3Fa%3Db")
	w := v.get("/sign-in?return=/groups%3Fa=b")
	wantSays(t, "the page", w, http.StatusOK, `name="token"`, `type="password"`, `value="/groups?a=b"`)
	if strings.Contains(w.Body.String(), "with=issuer") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got an issuer offered or the page kept (%q), want neither", w.Header().Get("Cache-Control"))
	}
	for pasted, status := range map[string]int{
		"wrong-token": http.StatusUnauthorized, "": http.StatusBadRequest, "two words": http.StatusBadRequest,
		"a\x00b": http.StatusBadRequest, `<script>alert("a")</script>`: http.StatusBadRequest, "a;b": http.StatusBadRequest, "ä": http.StatusBadRequest,
	} {
		w := v.send(http.MethodPost, "/sign-in", url.Values{"token": {pasted}})
		wantSays(t, pasted, w, status, `role="alert"`)
		if len(v.jar) != 0 || pasted != "" && strings.Contains(w.Body.String(), pasted) {
			t.Errorf("%q: got cookies %q, want none, and nothing of it shown", pasted, v.cookies())
		}
	}
	for _, pasted := range []string{goodToken, " " + goodToken + "\n", "Bearer " + goodToken} {
		clear(v.jar)
		w := v.send(http.MethodPost, "/sign-in", url.Values{"token": {pasted}, "return": {"/groups?a=b"}})
		wantTo(t, pasted, w, "/sign-in?kept=1&return=%2Fgroups%3Fa%3Db")
		wantTo(t, "kept", v.get(w.Header().Get("Location")), "/groups?a=b")
	}
	kept := v.jar[sessionCookie]
	if !strings.HasPrefix(kept.Value, "1:") || !strings.HasSuffix(kept.Value, ":"+goodToken) || !kept.Secure || !kept.HttpOnly || kept.SameSite != http.SameSiteLaxMode || kept.Path != "/" || kept.Domain != "" || kept.MaxAge != 0 {
		t.Errorf("got the cookie %+v, want one that __Host- allows, for this browser alone, until it closes", kept)
	}
	clear(v.jar)
	wantSays(t, "a browser that keeps nothing", v.get("/sign-in?kept=1"), http.StatusOK, "did not keep the session", "https")
}

func TestSignIn_IsNotOfferedWhereNobodyIsAsked(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, site(t, newAPI(t)))
	wantTo(t, "the page", v.get("/sign-in"), "/")
	wantTo(t, "a token", v.send(http.MethodPost, "/sign-in", url.Values{"token": {goodToken}}), "/")
	wantTo(t, "an issuer", v.get("/sign-in?with=issuer"), "/")
	wantTo(t, "an answer", v.get("/sign-in/callback?code=c&state=s"), "/sign-in")
	if len(v.jar) != 0 {
		t.Errorf("got cookies %q, want none", v.cookies())
	}
}

// Where the API does not answer, nobody is told that their token is wrong.
func TestSignIn_WhileTheAPIIsNotAvailable(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/session", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the issuer's keys cannot be had", nil})
	v := newVisitor(t, site(t, a, WithAuthentication()))
	wantSays(t, "a token", v.send(http.MethodPost, "/sign-in", url.Values{"token": {goodToken}}), http.StatusServiceUnavailable, "keys cannot be had")
	if len(v.jar) != 0 {
		t.Errorf("got cookies %q, want none", v.cookies())
	}
}

func TestSignIn_AsksForNoPageOfOthers(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, site(t, guarded(t, goodToken), WithAuthentication(), WithSignIn(&anIssuer{token: goodToken})))
	for to, want := range map[string]string{
		"/messages?status=DEAD": "/messages?status=DEAD", "": "/", "https://evil.example": "/", "//evil.example": "/", `/\evil.example`: "/",
		"/\t/evil.example": "/", "\t//evil.example": "/", "javascript:alert(1)": "/", "/sign-in": "/", "/sign-in/callback?code=x": "/", "/sign-out": "/",
		"/" + strings.Repeat("a", maxReturn): "/", "///evil.example": "/", `\\evil.example`: "/", "/a\r\nSet-Cookie: b=c": "/", "evil.example": "/",
	} {
		clear(v.jar)
		w := v.send(http.MethodPost, "/sign-in", url.Values{"token": {goodToken}, "return": {to}})
		wantTo(t, "token, return="+to, v.get(w.Header().Get("Location")), want)

		clear(v.jar)
		w = v.get("/sign-in?with=issuer&return=" + url.QueryEscape(to))
		w = v.get("/sign-in/callback?code=code-1&state=" + stateIn(t, w))
		wantTo(t, "issuer, return="+to, v.get(w.Header().Get("Location")), want)
	}
}

// stateIn is the state that the browser is sent to the issuer with.
func stateIn(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	state, found := strings.CutPrefix(w.Header().Get("Location"), "https://id.example.com/authorize?state=")
	if !found || w.Code != http.StatusSeeOther || len(state) < 26 {
		t.Fatalf("got %d to %q, want the issuer, with a long state", w.Code, w.Header().Get("Location"))
	}
	return state
}

func TestSignIn_Issuer(t *testing.T) {
	t.Parallel()
	issuer := &anIssuer{token: goodToken}
	v := newVisitor(t, site(t, guarded(t, goodToken), WithAuthentication(), WithSignIn(issuer)))
	wantSays(t, "the page", v.get("/sign-in?return=/groups"), http.StatusOK, `href="/sign-in?return=%2Fgroups&amp;with=issuer"`, `name="token"`)
	w := v.get("/sign-in?with=issuer&return=/groups")
	state := stateIn(t, w)
	kept := v.jar[attemptCookie]
	if !kept.Secure || !kept.HttpOnly || kept.SameSite != http.SameSiteLaxMode || kept.Path != "/" || kept.Domain != "" || kept.MaxAge != 600 {
		t.Errorf("got the cookie %+v, want one that __Host- allows, for ten minutes", kept)
	}
	w = v.get("/sign-in/callback?code=code-1&state=" + state)
	wantTo(t, "the answer", w, "/sign-in?kept=1&return=%2Fgroups")
	if got := strings.Join(issuer.finished, ","); got != "code-1 verifier-1 nonce-1" {
		t.Errorf("the issuer was given %q, want its code with the verifier and the nonce", got)
	}
	if v.cookies() != issuerCookie+" "+sessionCookie || v.jar[sessionCookie].MaxAge != 300 {
		t.Errorf("got cookies %q, for %d s, want the session as long as its token", v.cookies(), v.jar[sessionCookie].MaxAge)
	}
	wantTo(t, "signed in", v.get(w.Header().Get("Location")), "/groups")
	wantTo(t, "the same answer again", v.get("/sign-in/callback?code=code-1&state="+state), "/sign-in?failed=late")
}

func TestSignIn_IssuerRefused(t *testing.T) {
	t.Parallel()
	late := signInAttempt{State: "s", Nonce: "n", Verifier: "v", Return: "/groups", Began: noon.Add(-601 * time.Second).Unix()}
	evil := late
	evil.Return, evil.Began = "//evil.example", noon.Unix()
	for name, c := range map[string]struct {
		query  string // STATE stands for the right one
		cookie *signInAttempt
		none   bool   // the browser has no cookie
		token  string // that the issuer gives
		want   string
		says   string // in the log
	}{
		"OtherState":          {query: "code=code-1&state=guessed", want: "failed=other&return=%2Fgroups", says: "state"},
		"NoState":             {query: "code=code-1", want: "failed=other&return=%2Fgroups", says: "state"},
		"NoCookie":            {query: "code=code-1&state=STATE", none: true, want: "failed=late", says: "no sign-in"},
		"LateCookie":          {query: "code=code-1&state=s", cookie: &late, want: "failed=late", says: "no sign-in"},
		"CookieLeadsAway":     {query: "code=code-2&state=s", cookie: &evil, want: "failed=refused&return=%2F", says: "refuses"},
		"CookieWithoutState":  {query: "code=code-1&state=", cookie: &signInAttempt{Nonce: "n", Verifier: "v", Began: noon.Unix()}, want: "failed=late", says: "no sign-in"},
		"OtherCode":           {query: "code=secret-code&state=STATE", want: "failed=refused&return=%2Fgroups", says: "refuses"},
		"IssuerDenied":        {query: "error=access_denied&error_description=secret-code&state=STATE", want: "failed=denied&return=%2Fgroups", says: "access_denied"},
		"IssuerSaysAnything":  {query: "error=secret-code+%3Cscript%3E&state=STATE", want: "failed=denied&return=%2Fgroups", says: "no error"},
		"APIRefusesItsToken":  {query: "code=code-1&state=STATE", token: "other-token", want: "failed=refused&return=%2Fgroups", says: "not authenticated"},
		"TokenForNoCookie":    {query: "code=code-1&state=STATE", token: strings.Repeat("a", maxParts*partSize+1), want: "failed=refused&return=%2Fgroups", says: "longer than"},
		"ErrorBeforeTheState": {query: "error=access_denied&state=guessed", want: "failed=other&return=%2Fgroups", says: "state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer, api := &anIssuer{token: goodToken}, guarded(t, goodToken)
			if c.token != "" {
				issuer.token = c.token
			}
			if len(c.token) > maxParts*partSize {
				api = guarded(t, c.token)
			}
			core, logged := observer.New(zap.InfoLevel)
			v := newVisitor(t, site(t, api, WithAuthentication(), WithSignIn(issuer), func(s *Console) { s.logger = zap.New(core) }))
			state := stateIn(t, v.get("/sign-in?with=issuer&return=/groups"))
			if c.cookie != nil {
				w := httptest.NewRecorder()
				if err := c.cookie.keep(w); err != nil {
					t.Fatal(err)
				}
				v.jar[attemptCookie] = w.Result().Cookies()[0]
			}
			if c.none {
				clear(v.jar)
			}
			w := v.get("/sign-in/callback?" + strings.ReplaceAll(c.query, "STATE", state))
			wantTo(t, "the answer", w, "/sign-in?"+c.want)
			if v.cookies() != "" {
				t.Errorf("got cookies %q, want none", v.cookies())
			}
			wantSays(t, "the page", v.get(w.Header().Get("Location")), http.StatusOK, `role="alert"`)
			entries := logged.All()
			if len(entries) != 1 {
				t.Fatalf("got %d lines in the log, want one", len(entries))
			}
			said, _ := entries[0].ContextMap()["error"].(string)
			if !strings.Contains(said, c.says) || strings.Contains(said, "secret-code") || strings.Contains(said, "code-1") {
				t.Errorf("the log says %q, want %q, and no secret", said, c.says)
			}
		})
	}
}

func TestSignIn_IssuerThatIsDown(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, site(t, guarded(t, goodToken), WithAuthentication(), WithSignIn(&anIssuer{down: true})))
	wantSays(t, "the way there", v.get("/sign-in?with=issuer&return=/groups"), http.StatusServiceUnavailable, "does not answer", `name="token"`, `value="/groups"`)
	if len(v.jar) != 0 {
		t.Errorf("got cookies %q, want none", v.cookies())
	}
}

// Sessions of issuers may last minutes: whoever has one there does not notice when
// it ends here. But nobody is sent around in circles.
func TestSignIn_GoesBackToTheIssuerByItself(t *testing.T) {
	t.Parallel()
	now := noon
	v := newVisitor(t, site(t, guarded(t, goodToken), WithAuthentication(), WithSignIn(&anIssuer{token: goodToken}), WithClock(func() time.Time { return now })))
	v.get("/sign-in/callback?code=code-1&state=" + stateIn(t, v.get("/sign-in?with=issuer")))
	end := func() { delete(v.jar, sessionCookie) }
	end()
	wantTo(t, "at once", v.get("/?a=b"), "/sign-in?return=%2F%3Fa%3Db")
	now = now.Add(tooSoon)
	wantTo(t, "later", v.get("/?a=b"), "/sign-in?return=%2F%3Fa%3Db&with=issuer-again")
	v.send(http.MethodPost, "/sign-in", url.Values{"token": {goodToken}})
	end()
	wantTo(t, "after a token", v.get("/"), "/sign-in?return=%2F")
	v.get("/sign-in/callback?code=code-1&state=" + stateIn(t, v.get("/sign-in?with=issuer")))
	v.send(http.MethodPost, "/sign-out", nil)
	now = now.Add(time.Hour)
	wantTo(t, "after signing out", v.get("/"), "/sign-in?return=%2F")
}

// What a form asks for may be answered by this site alone, says the policy, and browsers
// hold redirects to that: the way to the issuer is a new one.
func TestSignIn_LeadsNoFormToTheIssuer(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, site(t, guarded(t, goodToken), WithAuthentication(), WithSignIn(&anIssuer{token: goodToken})))
	v.get("/sign-in/callback?code=code-1&state=" + stateIn(t, v.get("/sign-in?with=issuer")))
	delete(v.jar, sessionCookie)
	v.jar[issuerCookie].Value = strconv.FormatInt(noon.Add(-tooSoon).Unix(), 10)
	w := v.get("/messages?q=a%3Bb")
	for range 3 {
		if w.Code != http.StatusSeeOther {
			break
		}
		if w = v.get(w.Header().Get("Location")); strings.HasPrefix(w.Header().Get("Location"), "https:") {
			t.Fatalf("got a form led on to %s, want it stopped at a page of ours", w.Header().Get("Location"))
		}
	}
	const on = "/sign-in?return=%2Fmessages%3Fq%3Da%253Bb&with=issuer"
	wantSays(t, "the page between", w, http.StatusOK, `href="`+strings.ReplaceAll(on, "&", "&amp;")+`"`)
	if got := w.Header().Get("Refresh"); got != "0; url="+on {
		t.Errorf("got Refresh %q, want it to go on by itself", got)
	}
	if w := v.get(on); !strings.HasPrefix(w.Header().Get("Location"), "https://id.example.com/") {
		t.Errorf("got %d to %q, want the issuer", w.Code, w.Header().Get("Location"))
	}
}

func TestSignIn_IsAskedForOnTheSpotWhenSomethingWasToBeDone(t *testing.T) {
	t.Parallel()
	c, err := New(DefaultConfig(), guarded(t, goodToken), zap.NewNop(), WithAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	v := newVisitor(t, c.page(func(http.ResponseWriter, *http.Request) error {
		t.Error("something was done for nobody")
		return nil
	}))
	for referer, back := range map[string]string{
		"http://example.com/messages/1?a=b": "/messages/1?a=b", "http://evil.example/messages": "/", "": "/", "::": "/",
		"http://example.com//evil.example": "/", "http://example.com/sign-in?return=/x": "/",
	} {
		v.header["Referer"] = referer
		wantSays(t, referer, v.send(http.MethodPost, "/messages/1/retry", url.Values{"reason": {"x"}}), http.StatusUnauthorized,
			"Nothing was done", `name="return" value="`+back+`"`)
	}
	for name, value := range map[string]string{"Hx-Request": "true", "Sec-Fetch-Mode": "cors"} {
		v.header = map[string]string{name: value}
		if w := v.get("/messages"); w.Code != http.StatusUnauthorized || w.Header().Get("Location") != "" {
			t.Errorf("a script's request: got %d to %q, want 401 and nothing else", w.Code, w.Header().Get("Location"))
		}
	}
	v.header = map[string]string{"Sec-Fetch-Mode": "navigate"}
	wantTo(t, "a browser", v.get("/messages?q=a+b"), "/sign-in?return=%2Fmessages%3Fq%3Da%2Bb")
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 2*partSize)
	v := newVisitor(t, site(t, guarded(t, long), WithAuthentication()))
	v.send(http.MethodPost, "/sign-in", url.Values{"token": {long}})
	if v.cookies() != sessionCookie+" "+sessionCookie+"-2" {
		t.Fatalf("got cookies %q, want a session of two", v.cookies())
	}
	w := v.send(http.MethodPost, "/sign-out", nil)
	wantDone(t, "signing out", w, "signed-out", "/sign-in")
	for _, cookie := range w.Result().Cookies() {
		if cookie.Name == doneCookie {
			continue
		}
		if cookie.Value != "" || cookie.MaxAge >= 0 || !cookie.Secure || cookie.Path != "/" {
			t.Errorf("got %+v, want it taken away as it was set", cookie)
		}
	}
	wantSays(t, "then", v.get("/sign-in"), http.StatusOK, "You are signed out.")
	if v.cookies() != "" {
		t.Errorf("got cookies %q, want none", v.cookies())
	}
	wantTo(t, "a page", v.get("/"), "/sign-in?return=%2F")
}
