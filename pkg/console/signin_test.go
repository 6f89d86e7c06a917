package console_test

import (
	"context"
	"errors"
	"maps"
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

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

const goodToken = "dlqm_good-token"

// anIssuer is an issuer that accepts only the code code-1, and gives the same token to each browser that returns with
// it.
type anIssuer struct {
	down     bool
	token    string
	finished []string // code, verifier and nonce of each call of Finish
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
	return i.token, consoletest.Noon.Add(5 * time.Minute), nil
}

// guarded is an API that accepts one token, and that answers only GET /api/v1/session and GET /api/v1/views.
func guarded(t *testing.T, token string) *consoletest.API {
	t.Helper()
	a := consoletest.NewAPI(t)
	return a.Says("GET /api/v1/session", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"SYS_DLQ_UNAUTHENTICATED","message":"not authenticated","request_id":"r"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"ana","mode":"token","grants":[{"role":"viewer","topics":["*"]}]}`))
	}))
}

// visitor is a browser that keeps cookies, and does not follow redirects by itself.
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
	var headers []string
	for name, value := range v.header {
		headers = append(headers, name, value)
	}
	for _, cookie := range v.jar {
		headers = append(headers, "Cookie", cookie.Name+"="+cookie.Value)
	}
	w := consoletest.Send(v.t, v.site, method, path, form, headers...)
	for _, cookie := range w.Result().Cookies() {
		if v.jar[cookie.Name] = cookie; cookie.MaxAge < 0 {
			delete(v.jar, cookie.Name)
		}
	}
	return w
}

func (v *visitor) get(path string) *httptest.ResponseRecorder {
	v.t.Helper()
	return v.send(http.MethodGet, path, nil)
}

// signIn sends a token to the sign-in page.
func (v *visitor) signIn(token string) *httptest.ResponseRecorder {
	v.t.Helper()
	return v.send(http.MethodPost, "/sign-in", url.Values{"token": {token}})
}

// toIssuer begins a sign-in and returns the callback address without the code.
func (v *visitor) toIssuer(query string) string {
	v.t.Helper()
	w := v.get("/sign-in?with=issuer" + query)
	state, found := strings.CutPrefix(w.Header().Get("Location"), "https://id.example.com/authorize?state=")
	if !found || w.Code != http.StatusSeeOther || len(state) < 26 {
		v.t.Fatalf("got %d to %q, want the issuer, with a long state", w.Code, w.Header().Get("Location"))
	}
	return "/sign-in/callback?state=" + state
}

// cookies returns the names of the visitor's cookies.
func (v *visitor) cookies() string { return strings.Join(slices.Sorted(maps.Keys(v.jar)), " ") }

func (v *visitor) wantCookies(what, names string) {
	v.t.Helper()
	if got := v.cookies(); got != names {
		v.t.Errorf("%s: got cookies %q, want %q", what, got, names)
	}
}

func TestSignIn_Token(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication()))
	consoletest.WantTo(t, "a page", v.get("/?a=b"), "/sign-in?return=%2F%3Fa%3Db")
	w := v.get("/sign-in?return=/groups%3Fa=b")
	consoletest.WantSays(t, "the page", w, http.StatusOK, `name="token"`, `type="password"`, `value="/groups?a=b"`)
	if strings.Contains(w.Body.String(), "with=issuer") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got an issuer offered or the page kept (%q), want neither", w.Header().Get("Cache-Control"))
	}
	for pasted, failed := range map[string]string{
		"wrong-token": "invalid", "": "no-token", "two words": "no-token",
		"a\x00b": "no-token", `<script>alert("a")</script>`: "no-token", "a;b": "no-token", "ä": "no-token",
	} {
		consoletest.WantTo(t, pasted, v.signIn(pasted), "/sign-in?failed="+failed+"&return=%2F")
		v.wantCookies(pasted, "")
		consoletest.WantSays(t, "the page", v.get("/sign-in?failed="+failed), http.StatusOK, `role="alert"`)
	}
	for _, pasted := range []string{goodToken, " " + goodToken + "\n", "Bearer " + goodToken} {
		clear(v.jar)
		w := v.send(http.MethodPost, "/sign-in", url.Values{"token": {pasted}, "return": {"/groups?a=b"}})
		consoletest.WantTo(t, pasted, w, "/sign-in?kept=1&return=%2Fgroups%3Fa%3Db")
		consoletest.WantTo(t, "kept", v.get(w.Header().Get("Location")), "/groups?a=b")
	}
	kept := v.jar[session.Cookie]
	if !strings.HasPrefix(kept.Value, "1:") || !strings.HasSuffix(kept.Value, ":"+goodToken) || !hostOnly(kept) || kept.MaxAge != 0 {
		t.Errorf("got the cookie %+v, want one that __Host- allows, for this browser alone, until it closes", kept)
	}
	clear(v.jar)
	consoletest.WantSays(t, "a browser that keeps nothing", v.get("/sign-in?kept=1"), http.StatusOK, "did not keep the session", "https")
}

// hostOnly reports whether a cookie satisfies the rules of __Host-, and is HttpOnly and SameSite=Lax.
func hostOnly(c *http.Cookie) bool {
	return c.Secure && c.HttpOnly && c.SameSite == http.SameSiteLaxMode && c.Path == "/" && c.Domain == ""
}

func TestSignIn_IsNotOfferedWhereNobodyIsAsked(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, consoletest.Site(t, consoletest.NewAPI(t)))
	consoletest.WantTo(t, "the page", v.get("/sign-in"), "/")
	consoletest.WantTo(t, "a token", v.signIn(goodToken), "/")
	consoletest.WantTo(t, "an issuer", v.get("/sign-in?with=issuer"), "/")
	consoletest.WantTo(t, "an answer", v.get("/sign-in/callback?code=c&state=s"), "/sign-in")
	v.wantCookies("then", "")
}

// When the API or the issuer does not answer, no page says that the token is wrong.
func TestSignIn_WhileOthersAreNotAvailable(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t).Says("GET /api/v1/session", consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the issuer's keys cannot be had", nil))
	v := newVisitor(t, consoletest.Site(t, a, console.WithAuthentication()))
	consoletest.WantSays(t, "a token", v.signIn(goodToken), http.StatusServiceUnavailable, "keys cannot be had")
	v.wantCookies("without the API", "")
	v = newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSignIn(&anIssuer{down: true})))
	consoletest.WantSays(t, "the way there", v.get("/sign-in?with=issuer&return=/groups"), http.StatusServiceUnavailable, "does not answer",
		`name="token"`, `value="/groups"`)
	v.wantCookies("without the issuer", "")
}

func TestSignIn_AsksForNoPageOfOthers(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSignIn(&anIssuer{token: goodToken})))
	for to, want := range map[string]string{
		"/messages?status=DEAD": "/messages?status=DEAD", "": "/", "https://evil.example": "/", "//evil.example": "/", `/\evil.example`: "/",
		"/\t/evil.example": "/", "\t//evil.example": "/", "javascript:alert(1)": "/", "/sign-in": "/", "/sign-in/callback?code=x": "/", "/sign-out": "/",
		"/" + strings.Repeat("a", link.MaxReturn): "/", "///evil.example": "/", `\\evil.example`: "/", "/a\r\nSet-Cookie: b=c": "/", "evil.example": "/",
	} {
		clear(v.jar)
		w := v.send(http.MethodPost, "/sign-in", url.Values{"token": {goodToken}, "return": {to}})
		consoletest.WantTo(t, "token, return="+to, v.get(w.Header().Get("Location")), want)

		clear(v.jar)
		w = v.get(v.toIssuer("&return="+url.QueryEscape(to)) + "&code=code-1")
		consoletest.WantTo(t, "issuer, return="+to, v.get(w.Header().Get("Location")), want)
	}
}

func TestSignIn_Issuer(t *testing.T) {
	t.Parallel()
	issuer := &anIssuer{token: goodToken}
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSignIn(issuer)))
	consoletest.WantSays(t, "the page", v.get("/sign-in?return=/groups"), http.StatusOK, `href="/sign-in?return=%2Fgroups&amp;with=issuer"`, `name="token"`)
	back := v.toIssuer("&return=/groups") + "&code=code-1"
	if kept := v.jar[console.AttemptCookie]; !hostOnly(kept) || kept.MaxAge != 600 {
		t.Errorf("got the cookie %+v, want one that __Host- allows, for ten minutes", kept)
	}
	w := v.get(back)
	consoletest.WantTo(t, "the answer", w, "/sign-in?kept=1&return=%2Fgroups")
	if got := strings.Join(issuer.finished, ","); got != "code-1 verifier-1 nonce-1" {
		t.Errorf("the issuer was given %q, want its code with the verifier and the nonce", got)
	}
	v.wantCookies("then", console.IssuerCookie+" "+session.Cookie)
	if got := v.jar[session.Cookie].MaxAge; got != 300 {
		t.Errorf("got a session of %d s, want it as long as its token", got)
	}
	consoletest.WantTo(t, "signed in", v.get(w.Header().Get("Location")), "/groups")
	consoletest.WantTo(t, "the same answer again", v.get(back), "/sign-in?failed=late")
}

func TestSignIn_IssuerRefused(t *testing.T) {
	t.Parallel()
	late := console.SignInAttempt{State: "s", Nonce: "n", Verifier: "v", Return: "/groups", Began: consoletest.Noon.Add(-601 * time.Second).Unix()}
	evil := late
	evil.Return, evil.Began = "//evil.example", consoletest.Noon.Unix()
	for name, c := range map[string]struct {
		// query of the address to which the issuer redirects; STATE stands for the state of the sign-in that the test
		// has begun
		query  string
		cookie *console.SignInAttempt
		none   bool   // the browser has lost the cookie of the sign-in
		token  string // token from the issuer
		want   string
		says   string // text expected in the log
	}{
		"OtherState":          {query: "code=code-1&state=guessed", want: "failed=other&return=%2Fgroups", says: "state"},
		"NoState":             {query: "code=code-1", want: "failed=other&return=%2Fgroups", says: "state"},
		"NoCookie":            {query: "code=code-1&state=STATE", none: true, want: "failed=late", says: "no sign-in"},
		"LateCookie":          {query: "code=code-1&state=s", cookie: &late, want: "failed=late", says: "no sign-in"},
		"CookieLeadsAway":     {query: "code=code-2&state=s", cookie: &evil, want: "failed=refused&return=%2F", says: "refuses"},
		"CookieWithoutState":  {query: "code=code-1&state=", cookie: &console.SignInAttempt{Nonce: "n", Verifier: "v", Began: consoletest.Noon.Unix()}, want: "failed=late", says: "no sign-in"},
		"OtherCode":           {query: "code=secret-code&state=STATE", want: "failed=refused&return=%2Fgroups", says: "refuses"},
		"IssuerDenied":        {query: "error=access_denied&error_description=secret-code&state=STATE", want: "failed=denied&return=%2Fgroups", says: "access_denied"},
		"IssuerSaysAnything":  {query: "error=secret-code+%3Cscript%3E&state=STATE", want: "failed=denied&return=%2Fgroups", says: "an invalid error name"},
		"APIRefusesItsToken":  {query: "code=code-1&state=STATE", token: "other-token", want: "failed=refused&return=%2Fgroups", says: "not authenticated"},
		"TokenForNoCookie":    {query: "code=code-1&state=STATE", token: strings.Repeat("a", session.MaxToken+1), want: "failed=refused&return=%2Fgroups", says: "longer than"},
		"ErrorBeforeTheState": {query: "error=access_denied&state=guessed", want: "failed=other&return=%2Fgroups", says: "state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer, api := &anIssuer{token: goodToken}, guarded(t, goodToken)
			if c.token != "" {
				issuer.token = c.token
			}
			if len(c.token) > session.MaxToken {
				api = guarded(t, c.token)
			}
			core, logged := observer.New(zap.InfoLevel)
			v := newVisitor(t, consoletest.Site(t, api, console.WithAuthentication(), console.WithSignIn(issuer), console.WithLogger(zap.New(core))))
			_, state, _ := strings.Cut(v.toIssuer("&return=/groups"), "=")
			if c.cookie != nil {
				w := httptest.NewRecorder()
				check.NoError(t, c.cookie.Keep(w))
				v.jar[console.AttemptCookie] = w.Result().Cookies()[0]
			}
			if c.none {
				clear(v.jar)
			}
			w := v.get("/sign-in/callback?" + strings.ReplaceAll(c.query, "STATE", state))
			consoletest.WantTo(t, "the answer", w, "/sign-in?"+c.want)
			v.wantCookies("then", "")
			consoletest.WantSays(t, "the page", v.get(w.Header().Get("Location")), http.StatusOK, `role="alert"`)
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

// An issuer's sessions may last only minutes, so the console renews a session by a redirect to the issuer, without a
// click of the user. A browser must not be redirected again and again.
func TestSignIn_GoesBackToTheIssuerByItself(t *testing.T) {
	t.Parallel()
	now := consoletest.Noon
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSignIn(&anIssuer{token: goodToken}), console.WithClock(func() time.Time { return now })))
	v.get(v.toIssuer("") + "&code=code-1")
	delete(v.jar, session.Cookie)
	consoletest.WantTo(t, "at once", v.get("/?a=b"), "/sign-in?return=%2F%3Fa%3Db")
	now = now.Add(console.TooSoon)
	consoletest.WantTo(t, "later", v.get("/?a=b"), "/sign-in?return=%2F%3Fa%3Db&with=issuer-again")
	v.signIn(goodToken)
	delete(v.jar, session.Cookie)
	consoletest.WantTo(t, "after a token", v.get("/"), "/sign-in?return=%2F")
	v.get(v.toIssuer("") + "&code=code-1")
	v.send(http.MethodPost, "/sign-out", nil)
	now = now.Add(time.Hour)
	consoletest.WantTo(t, "after signing out", v.get("/"), "/sign-in?return=%2F")
}

// The security policy of the console's pages lets only this site answer a form, and browsers apply this rule to
// redirects too. So a page of the console is shown before the redirect to the issuer.
func TestSignIn_LeadsNoFormToTheIssuer(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSignIn(&anIssuer{token: goodToken})))
	v.get(v.toIssuer("") + "&code=code-1")
	delete(v.jar, session.Cookie)
	v.jar[console.IssuerCookie].Value = strconv.FormatInt(consoletest.Noon.Add(-console.TooSoon).Unix(), 10)
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
	consoletest.WantSays(t, "the page between", w, http.StatusOK, `href="`+strings.ReplaceAll(on, "&", "&amp;")+`"`)
	if got := w.Header().Get("Refresh"); got != "0; url="+on {
		t.Errorf("got Refresh %q, want it to go on by itself", got)
	}
	if w := v.get(on); !strings.HasPrefix(w.Header().Get("Location"), "https://id.example.com/") {
		t.Errorf("got %d to %q, want the issuer", w.Code, w.Header().Get("Location"))
	}
}

func TestSignIn_IsAskedForOnTheSpotWhenSomethingWasToBeDone(t *testing.T) {
	t.Parallel()
	c, err := console.New(console.DefaultConfig(), guarded(t, goodToken), zap.NewNop(), console.WithAuthentication())
	check.NoError(t, err)
	v := newVisitor(t, c.Page(func(http.ResponseWriter, *http.Request) error {
		t.Error("a change was made without credentials")
		return nil
	}))
	for referer, back := range map[string]string{
		"http://example.com/messages/1?a=b": "/messages/1?a=b", "http://evil.example/messages": "/", "": "/", "::": "/",
		"http://example.com//evil.example": "/", "http://example.com/sign-in?return=/x": "/",
	} {
		v.header["Referer"] = referer
		consoletest.WantSays(t, referer, v.send(http.MethodPost, "/messages/1/retry", url.Values{"reason": {"x"}}), http.StatusUnauthorized,
			"Nothing was done", `name="return" value="`+back+`"`)
	}
	for name, value := range map[string]string{"Hx-Request": "true", "Sec-Fetch-Mode": "cors"} {
		v.header = map[string]string{name: value}
		if w := v.get("/messages"); w.Code != http.StatusUnauthorized || w.Header().Get("Location") != "" {
			t.Errorf("a script's request: got %d to %q, want 401 and nothing else", w.Code, w.Header().Get("Location"))
		}
	}
	v.header = map[string]string{"Sec-Fetch-Mode": "navigate"}
	consoletest.WantTo(t, "a browser", v.get("/messages?q=a+b"), "/sign-in?return=%2Fmessages%3Fq%3Da%2Bb")
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", session.MaxToken/2)
	v := newVisitor(t, consoletest.Site(t, guarded(t, long), console.WithAuthentication()))
	v.signIn(long)
	v.wantCookies("a long token", session.Cookie+" "+session.Cookie+"-2")
	w := v.send(http.MethodPost, "/sign-out", nil)
	consoletest.WantDone(t, "signing out", w, "signed-out", "/sign-in")
	for _, cookie := range w.Result().Cookies() {
		if cookie.Name != view.DoneCookie && (cookie.Value != "" || cookie.MaxAge >= 0 || !cookie.Secure || cookie.Path != "/") {
			t.Errorf("got %+v, want it taken away as it was set", cookie)
		}
	}
	consoletest.WantSays(t, "then", v.get("/sign-in"), http.StatusOK, "You are signed out.")
	v.wantCookies("then", "")
	consoletest.WantTo(t, "a page", v.get("/"), "/sign-in?return=%2F")
}
