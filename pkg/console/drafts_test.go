package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// A GET of the address to which a form is sent shows the page of the form, or redirects to it. Users may share or
// reload that address, or come back to it with the Back button.
func TestFormsHaveAPageThatCanBeVisited(t *testing.T) {
	t.Parallel()
	site := consoletest.Site(t, consoletest.NewAPI(t))
	for path, want := range map[string]string{
		"/messages/a%20b/retry": "/messages/a%20b", "/messages/x/dead": "/messages/x", "/messages/x/delete": "/messages/x",
		"/archive/x/restore": "/archive/x", "/groups/x/note": "/groups/x", "/redrives/x/pause": "/redrives/x",
		"/quarantine/x/retry": "/quarantine", "/messages/columns": "/messages", "/theme": "/", "/sign-out": "/",
	} {
		consoletest.WantTo(t, path, consoletest.Get(t, site, path), want)
	}
}

const (
	pauseForm  = "/redrives/" + consoletest.RedriveID + "/pause"
	typedPause = `value="mine"`
)

func refusedPause(t *testing.T) *consoletest.API {
	t.Helper()
	return consoletest.RedriveAPI(t).Says("POST /api/v1"+pauseForm, consoletest.Refuse(http.StatusConflict, "X", "not now", nil))
}

// drafted sends a form that the API refuses, and returns the address of the page that shows the form again.
func (v *visitor) drafted() string {
	v.t.Helper()
	w := v.send(http.MethodPost, pauseForm, url.Values{"reason": {"mine"}})
	address := w.Header().Get("Location")
	check.Require(v.t, w.Code == http.StatusSeeOther && strings.HasPrefix(address, "/redrives/"+consoletest.RedriveID+"?draft="),
		"got %d to %q, want 303 to the page with a draft", w.Code, address)
	return address
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	a := refusedPause(t)
	drafts := &view.MemoryDrafts{}
	site := consoletest.Site(t, a, console.WithDrafts(drafts))
	v := newVisitor(t, site)
	address := v.drafted()
	for range 2 { // the browser reloads the page
		consoletest.WantSays(t, "the page", v.get(address), http.StatusOK, typedPause, "not now", `role="alert"`)
	}
	if sent, _ := a.Asked("POST /api/v1" + pauseForm); len(sent) != 1 {
		t.Errorf("got it sent %d times, want once", len(sent))
	}
	consoletest.WantSays(t, "at another replica", (&visitor{t, consoletest.Site(t, a, console.WithDrafts(drafts)), v.jar, v.header}).get(address), http.StatusOK, typedPause)

	if v.jar[view.DraftCookie].Secure {
		t.Error("without TLS the browser would not keep the key")
	}

	wantNone := func(what string, v *visitor, address string) {
		t.Helper()
		w := v.get(address)
		consoletest.WantSays(t, what, w, http.StatusOK, "The draft is not available")
		consoletest.MustNotHave(t, w.Body.String(), typedPause)
	}
	wantNone("another browser", newVisitor(t, site), address)
	other := newVisitor(t, site)
	other.drafted()
	wantNone("another browser with drafts", other, address)
	wantNone("another page", v, strings.Replace(address, "/redrives/"+consoletest.RedriveID, "/redrives", 1))
	wantNone("an id that is not known", v, "/redrives?draft=x")
	a.As(consoletest.WithRole("viewer", "*"))
	wantNone("another principal", v, address)
}

// When it is not known whether a form was carried out, the form keeps its idempotency key, so that sending it again
// does the work only once.
func TestDrafts_KeepTheKeyWhileTheResultIsUnknown(t *testing.T) {
	t.Parallel()
	for status, kept := range map[int]bool{
		http.StatusInternalServerError: true, http.StatusServiceUnavailable: true, http.StatusBadGateway: false, http.StatusConflict: false,
	} {
		a := consoletest.WithMessage(t, "").Says("POST "+consoletest.MessageAPI+"/retry", consoletest.Refuse(status, "X", "no", nil))
		v := newVisitor(t, consoletest.Site(t, a))
		body := v.get(v.send(http.MethodPost, consoletest.MessagePath+"/retry", url.Values{"key": {"k1"}}).Header().Get("Location")).Body.String()
		if got := strings.Count(body, `name="key" value="k1"`); got != 1 && kept || got != 0 && !kept {
			t.Errorf("%d: got %d forms with the key, want it kept by the form that was sent: %t", status, got, kept)
		}
	}
}

type failingDrafts struct{ console.Drafts }

func (failingDrafts) KeepDraft(context.Context, string, string, []byte) error {
	return errors.New("away")
}

func TestDrafts_ThatCannotBeKept(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, consoletest.Site(t, refusedPause(t), console.WithDrafts(failingDrafts{})))
	w := v.send(http.MethodPost, pauseForm, url.Values{"reason": {"mine"}})
	consoletest.WantSays(t, "the form", w, http.StatusInternalServerError, "Internal error")
}

// A form that is sent after the session has ended is shown again after the sign-in.
func TestDrafts_SurviveTheSignIn(t *testing.T) {
	t.Parallel()
	api := refusedPause(t)
	expired := false
	api.Says("GET /api/v1/session", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if expired || r.Header.Get("Authorization") != "Bearer "+goodToken {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"X","message":"no","request_id":"r","details":[]}}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"ana","mode":"token","grants":[{"role":"admin","topics":["*"]}]}`))
	}))
	v := newVisitor(t, consoletest.Site(t, api, console.WithAuthentication()))
	v.signIn(goodToken)
	expired = true
	w := v.send(http.MethodPost, pauseForm, url.Values{"reason": {"mine"}})
	if !v.jar[view.DraftCookie].Secure {
		t.Error("the cookie of the key is sent without TLS, unlike that of the session")
	}
	to, err := url.Parse(w.Header().Get("Location"))
	check.Require(t, err == nil && to.Path == "/sign-in" && to.Query().Get("failed") == "unsent", "got %d to %q, want the sign-in", w.Code, to)
	consoletest.WantSays(t, "the sign-in", v.get(to.String()), http.StatusOK, "Nothing was done. Sign in and send the form again.")
	expired = false
	v.signIn(goodToken)
	consoletest.WantSays(t, "the page", v.get(to.Query().Get("return")), http.StatusOK, typedPause, "You were not signed in.")
	v.send(http.MethodPost, "/sign-out", nil)
	v.wantCookies("after signing out", view.DoneCookie)

	stranger := newVisitor(t, v.site)
	consoletest.WantTo(t, "without a session", stranger.send(http.MethodPost, pauseForm, nil),
		"/sign-in?failed=unsent&return=%2Fredrives%2F"+consoletest.RedriveID)
	stranger.wantCookies("without a session", "")
}

func TestMissingPages(t *testing.T) {
	t.Parallel()
	site, token := program(t)
	for _, c := range []struct {
		method, path, accept string
		status               int
		html                 bool
	}{
		{http.MethodGet, "/nope", "text/html,*/*", http.StatusNotFound, true},
		{http.MethodGet, "/nope", "application/json", http.StatusNotFound, false},
		{http.MethodGet, "/nope", "", http.StatusNotFound, false},
		{http.MethodPost, "/messages/x", "text/html", http.StatusMethodNotAllowed, true},
		{http.MethodGet, "/api/v1/nope", "text/html", http.StatusNotFound, false},
		{http.MethodPost, "/api/v1/session", "text/html", http.StatusMethodNotAllowed, false},
	} {
		w := ask(t, site, c.method, c.path, "", "Authorization", "Bearer "+token, "Accept", c.accept)
		if html := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"); w.Code != c.status || html != c.html {
			t.Errorf("%s %s for %q: got %d as %s, want %d, a page: %t", c.method, c.path, c.accept, w.Code, w.Header().Get("Content-Type"), c.status, c.html)
		}
		if allow := w.Header().Get("Allow"); (c.status == http.StatusMethodNotAllowed) != (allow != "") {
			t.Errorf("%s %s: got Allow: %q", c.method, c.path, allow)
		}
	}
}
