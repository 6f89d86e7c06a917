package console_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

// endedSessions is a store of ended sessions that replicas share.
type endedSessions struct {
	ended map[string]string // token of each ended session, by the session's id
	down  bool
}

func (e *endedSessions) Ended(_ context.Context, id string) (bool, error) {
	_, ended := e.ended[id]
	if e.down {
		return false, errors.New("no database")
	}
	return ended, nil
}

func (e *endedSessions) End(_ context.Context, id, token string) error {
	if e.down {
		return errors.New("no database")
	}
	e.ended[id] = token
	return nil
}

// When a user signs out, a copy of the session ends too, also at another replica. A new session with the same token
// works.
func TestSignOut_EndsTheSessionEverywhere(t *testing.T) {
	t.Parallel()
	shared := &endedSessions{ended: map[string]string{}}
	api := guarded(t, goodToken).Says("GET /api/v1/audit", consoletest.Refuse(http.StatusInternalServerError, "", "no trail", nil))
	one, two := consoletest.Site(t, api, console.WithAuthentication(), console.WithSessions(shared)), consoletest.Site(t, api, console.WithAuthentication(), console.WithSessions(shared))
	v := newVisitor(t, one)
	v.signIn(goodToken)
	thief := newVisitor(t, two)
	maps.Copy(thief.jar, v.jar)
	// The copied session is accepted: the page fails with 500 only because this API has no audit trail.
	consoletest.WantSays(t, "a copy before", thief.get("/audit"), http.StatusInternalServerError)
	consoletest.WantTo(t, "signing out", v.send(http.MethodPost, "/sign-out", nil), "/sign-in")
	consoletest.WantTo(t, "a copy after", thief.get("/audit"), "/sign-in?return=%2Faudit")
	thief.wantCookies("the copy, which would be refused again and again", "")
	v.signIn(goodToken)
	consoletest.WantSays(t, "a new session", v.get("/audit"), http.StatusInternalServerError)
	if len(shared.ended) != 1 {
		t.Errorf("%d sessions ended, want one", len(shared.ended))
	}
}

// While the store of ended sessions does not answer, the console refuses requests with a session. It deletes the
// browser's cookie only when the user signs out, and then says that this worked in this browser only.
func TestSignOut_WhileItCannotBeNoted(t *testing.T) {
	t.Parallel()
	shared := &endedSessions{ended: map[string]string{}}
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSessions(shared)))
	v.signIn(goodToken)
	before := v.cookies()
	shared.down = true
	consoletest.WantSays(t, "a page", v.get("/"), http.StatusServiceUnavailable, "cannot be checked")
	v.wantCookies("then", before)
	consoletest.WantTo(t, "signing out", v.send(http.MethodPost, "/sign-out", nil), "/sign-in?failed=here-only")
	consoletest.WantSays(t, "the page", v.get("/sign-in?failed=here-only"), http.StatusOK, "in this browser only")
	v.wantCookies("in the end", "")
}

// limitOne is a SignIns that allows one failed sign-in; after that the client has to wait.
type limitOne struct{ failed int }

func (l *limitOne) Wait(*http.Request) time.Duration { return time.Duration(l.failed) * time.Minute }
func (l *limitOne) Failed(*http.Request)             { l.failed++ }

func TestSignIn_IssuerIsNotAskedWithoutEnd(t *testing.T) {
	t.Parallel()
	issuer, limit := &anIssuer{token: goodToken}, &limitOne{}
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication(), console.WithSignIn(issuer), console.WithSignIns(limit)))
	consoletest.WantTo(t, "the first", v.get(v.toIssuer("")+"&code=guess"), "/sign-in?failed=refused&return=%2F")
	w := v.get(v.toIssuer("") + "&code=guess")
	consoletest.WantSays(t, "the next", w, http.StatusTooManyRequests, "Too many")
	if len(issuer.finished) != 1 || w.Header().Get("Retry-After") != "61" {
		t.Errorf("the issuer was asked %d times, Retry-After is %q; want once, and 61", len(issuer.finished), w.Header().Get("Retry-After"))
	}
}

// After too many invalid tokens the API refuses all tokens for a while; the sign-in page then refuses a valid token
// too.
func TestSignIn_TooManyTokens(t *testing.T) {
	t.Parallel()
	api := consoletest.NewAPI(t).Says("GET /api/v1/session", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "6")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"code":"SYS_DLQ_RATE_LIMITED","message":"too many","request_id":"r","details":[{"field":"Authorization","reason":"x"}]}}`))
	}))
	v := newVisitor(t, consoletest.Site(t, api, console.WithAuthentication()))
	consoletest.WantTo(t, "a token", v.signIn(goodToken), "/sign-in?failed=too-many&return=%2F")
	consoletest.WantSays(t, "the page", v.get("/sign-in?failed=too-many"), http.StatusOK, "Too many invalid tokens")
	consoletest.WantTo(t, "a page", v.get("/audit"), "/sign-in?return=%2Faudit")
}

func TestExport_NotForPagesOfOtherSites(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, consoletest.Site(t, guarded(t, goodToken), console.WithAuthentication()))
	v.signIn(goodToken)
	for _, from := range []string{"cross-site", "same-site"} {
		v.header["Sec-Fetch-Site"] = from
		consoletest.WantSays(t, from, v.get("/messages/export"), http.StatusForbidden, "another site")
	}
}
