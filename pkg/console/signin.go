package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// SignIn signs people in at an OpenID Connect issuer.
type SignIn interface {
	// Begin returns the address to send the browser to, and the nonce and verifier that Finish needs later.
	Begin(ctx context.Context, state string) (address, nonce, verifier string, err error)

	// Finish exchanges the browser's code for a token, valid until expires. Its errors contain no secret.
	Finish(ctx context.Context, code, verifier, nonce string) (token string, expires time.Time, err error)
}

// Sessions stores which sessions were ended, for all replicas. Implementations must be safe for concurrent use.
type Sessions interface {
	// Ended reports whether a session was ended. An error means that this is unknown.
	Ended(ctx context.Context, id string) (bool, error)

	// End ends a session on every replica: no replica accepts its cookie again.
	End(ctx context.Context, id, token string) error
}

// SignIns limits failed sign-ins per client address.
type SignIns interface {
	// Wait returns how long the sender of the request has to wait; 0 means not at all.
	Wait(r *http.Request) time.Duration

	// Failed counts a sign-in that failed.
	Failed(r *http.Request)
}

const callbackPath = link.SignIn + "/callback"

// signInPages are the pages by which a browser gets a session and ends it.
type signInPages struct {
	api      api.Client
	renderer *view.Renderer
	logger   *zap.Logger
	now      func() time.Time
	issuer   SignIn
	sessions Sessions
	signIns  SignIns
	needAuth bool
}

// ask answers a request for a page, or a form, with a redirect to the sign-in, which afterwards leads back to the page.
// It refuses a request of a script with 401, because the script would take the sign-in page for its answer.
func (s *signInPages) ask(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && request.Navigates(r) || view.IsForm(r) {
		pairs := []string{"return", link.Return(r.URL.RequestURI())}
		if r.Method != http.MethodGet {
			pairs = []string{"return", link.Return(s.pageOf(w, r)), "failed", "unsent"}
		}
		if s.issuer != nil && mayReturn(r, s.now()) {
			pairs = append(pairs, "with", "issuer-again")
		}
		_ = view.Redirect(w, r, link.SignIn, pairs...)
		return
	}
	p := signInPage{Return: link.Referer(r), Problem: &view.Problem{
		Title: "You are not signed in", Message: "Nothing was done. Sign in and try again.",
	}}
	if err := s.render(w, r, http.StatusUnauthorized, p); err != nil {
		s.logger.Error("cannot render the sign-in page", zap.Error(err))
		http.Error(w, "not signed in", http.StatusUnauthorized)
	}
}

// pageOf returns the address of the page of a form, with the form as a draft. The draft is stored only for a browser
// that sends a session, valid or not. Drafts limits the drafts of all such browsers together, because these drafts have
// no owner.
func (s *signInPages) pageOf(w http.ResponseWriter, r *http.Request) string {
	if session.Of(r).Token == "" {
		return view.PageOf(r)
	}
	problem := view.Problem{Title: "Nothing was done", Message: "You were not signed in. Check the form and send it again."}
	address, err := s.renderer.KeepDraft(w, r, &problem)
	if err != nil {
		s.logger.Warn("cannot keep a draft", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		return view.PageOf(r)
	}
	return address
}

// tooSoon is the shortest time between two automatic redirects to the issuer. If a session ends sooner, another
// redirect would not help.
const tooSoon = time.Minute

// mayReturn reports whether the console may redirect the browser to the issuer without a click of the user: when the
// last sign-in was at the issuer, at least tooSoon ago. This renews the sessions of issuers whose sessions last only
// minutes.
func mayReturn(r *http.Request, now time.Time) bool {
	at, err := strconv.ParseInt(session.CookieValue(r, issuerCookie), 10, 64)
	return err == nil && now.Sub(time.Unix(at, 0)) >= tooSoon
}

type signInPage struct {
	Return  string
	Problem *view.Problem // problem of the last try to sign in; nil: none
}

func (p signInPage) Issuer() string {
	return link.To(link.SignIn, "with", "issuer", "return", p.Return)
}

func (s *signInPages) render(w http.ResponseWriter, r *http.Request, status int, p signInPage) error {
	return s.renderer.Render(w, r, status, "signin", view.Page{Title: "Sign in", Problem: p.Problem, Data: p})
}

// signInFailures holds the problems of failed sign-ins, by their code in the address.
var signInFailures = map[string]*view.Problem{
	"late": {
		Title: "The sign-in took too long", Message: "A sign-in expires after ten minutes, and it needs cookies. Try again.",
	},
	"other":   {Title: "The answer belongs to another sign-in", Message: "It may belong to a sign-in in another window. Try again."},
	"denied":  {Title: "The issuer did not sign you in", Message: "The issuer refused; the log has its reason."},
	"refused": {Title: "The sign-in failed", Message: "The issuer did not answer, or its answer was invalid; the log has the reason."},
	"unkept": {
		Title: "The browser did not keep the session", Message: "Sessions need cookies, and https unless the server is on this machine.",
	},
	"unsent":    {Title: "You are not signed in", Message: "Nothing was done. Sign in and send the form again."},
	"no-token":  {Title: "This is not a token", Message: "A token is one word of letters, digits and a few signs."},
	"invalid":   {Title: "Invalid or expired token", Message: "It is unknown, has expired, or is for another service."},
	"too-many":  {Title: "Too many invalid tokens", Message: "They came from this address. Try again in a minute."},
	"too-long":  {Title: "The token is too long", Message: "A browser cannot keep it."},
	"here-only": {Title: "Signed out in this browser only", Message: "The server could not record it. A copy of the session is valid until its token expires."},
}

// show shows the sign-in page, begins a sign-in at the issuer, or ends a sign-in. A sign-in ends with one more request,
// because only that request shows whether the browser has kept the session's cookie.
//
// The security policy of the console's pages silently blocks a form whose answer redirects to the issuer. So the
// sign-in page is shown in between, and continues to the issuer by itself.
func (s *signInPages) show(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	p := signInPage{Return: link.Return(query.Get("return")), Problem: signInFailures[query.Get("failed")]}
	switch {
	case !s.needAuth, query.Has("kept") && session.Authorization(r) != "":
		return view.Redirect(w, r, p.Return)
	case query.Has("kept"):
		p.Problem = signInFailures["unkept"]
	case s.issuer != nil && query.Get("with") == "issuer":
		return s.begin(w, r, p)
	case s.issuer != nil && query.Get("with") == "issuer-again":
		w.Header().Set("Refresh", "0; url="+p.Issuer())
	}
	return s.render(w, r, http.StatusOK, p)
}

func (s *signInPages) begin(w http.ResponseWriter, r *http.Request, p signInPage) error {
	state := rand.Text()
	address, nonce, verifier, err := s.issuer.Begin(r.Context(), state)
	if err != nil {
		s.logger.Warn("cannot begin a sign-in at the issuer", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		p.Problem = &view.Problem{Title: "The issuer does not answer", Message: "Try again, or sign in with a token.", RequestID: r.Header.Get("X-Request-Id")}
		return s.render(w, r, http.StatusServiceUnavailable, p)
	}
	a := signInAttempt{State: state, Nonce: nonce, Verifier: verifier, Return: p.Return, Began: s.now().Unix()}
	if err := a.keep(w); err != nil {
		return err
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// finish handles the browser's return from the issuer. It then redirects, so that the address bar does not show the
// code, unless too many sign-ins have failed.
func (s *signInPages) finish(w http.ResponseWriter, r *http.Request) error {
	session.RemoveCookie(w, attemptCookie)
	a, err := attemptOf(r, s.now())
	query := r.URL.Query()
	switch {
	case s.issuer == nil:
		return view.Redirect(w, r, link.SignIn)
	case err != nil:
		return s.failed(w, r, a, "late", err)
	case !a.answeredBy(query.Get("state")):
		return s.failed(w, r, a, "other", errors.New("the state differs"))
	case query.Get("error") != "":
		return s.failed(w, r, a, "denied", errors.New("the issuer says "+errorName(query.Get("error"))))
	}
	if err := s.checkLimit(w, r); err != nil {
		return err
	}
	token, expires, err := s.issuer.Finish(r.Context(), query.Get("code"), a.Verifier, a.Nonce)
	if err == nil {
		_, err = s.checkToken(r, token)
	}
	if err == nil {
		err = session.Keep(w, token, max(expires.Sub(s.now()), time.Second))
	}
	if err != nil {
		return s.failed(w, r, a, "refused", err)
	}
	session.SetCookie(w, issuerCookie, strconv.FormatInt(s.now().Unix(), 10), issuerLifetime)
	return view.Redirect(w, r, link.SignIn, "kept", "1", "return", a.Return)
}

func (s *signInPages) failed(w http.ResponseWriter, r *http.Request, a signInAttempt, why string, err error) error {
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	if s.signIns != nil {
		s.signIns.Failed(r)
	}
	s.logger.Warn("a sign-in failed", zap.String("request_id", r.Header.Get("X-Request-Id")),
		zap.String("remote", r.RemoteAddr), zap.Error(err))
	return view.Redirect(w, r, link.SignIn, "failed", why, "return", a.Return)
}

// errorForm matches the names of OAuth errors. Other text in the address may come from anyone, so it is not logged.
var errorForm = regexp.MustCompile(`^[a-z_]{1,40}$`)

func errorName(text string) string {
	if errorForm.MatchString(text) {
		return text
	}
	return "an invalid error name"
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// takeToken signs in with a pasted token, which is never shown again.
func (s *signInPages) takeToken(w http.ResponseWriter, r *http.Request) error {
	p := signInPage{Return: link.Return(r.PostFormValue("return"))}
	if !s.needAuth {
		return view.Redirect(w, r, p.Return)
	}
	token := tokenIn(request.Text(r, "token"))
	again := func(why string) error { return view.Redirect(w, r, link.SignIn, "failed", why, "return", p.Return) }
	if !tokenForm.MatchString(token) {
		return again("no-token")
	}
	var refused *api.Error
	switch status, err := s.checkToken(r, token); {
	case status == http.StatusUnauthorized:
		return again("invalid")
	case errors.As(err, &refused) && tooManyTokens(refused):
		return again("too-many")
	case err != nil:
		return err
	}
	if err := session.Keep(w, token, 0); err != nil {
		return again("too-long")
	}
	session.RemoveCookie(w, issuerCookie) // the browser must not be sent to the issuer after a sign-in with a token
	return view.Redirect(w, r, link.SignIn, "kept", "1", "return", p.Return)
}

// tokenIn returns the token in pasted text, which may be a whole Authorization header.
func tokenIn(pasted string) string {
	if scheme, token, two := strings.Cut(pasted, " "); two && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return pasted
}

// checkToken checks a token with the API; status is the status of the API's answer.
func (s *signInPages) checkToken(r *http.Request, token string) (status int, err error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	err = s.api.Get(r, api.Endpoint("session"), nil, nil)
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Status, err
	}
	return http.StatusOK, err
}

// signOut ends the session on every replica or, if that fails, in this browser only. A session at the issuer itself may
// continue.
func (s *signInPages) signOut(w http.ResponseWriter, r *http.Request) error {
	current := session.Of(r)
	endSession(w, r)
	if s.sessions != nil && current.Token != "" {
		if err := s.sessions.End(r.Context(), current.ID, current.Token); err != nil {
			s.logger.Warn("a session was ended only in its browser", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
			return view.Redirect(w, r, link.SignIn, "failed", "here-only")
		}
	}
	return view.RedirectDone(w, r, "signed-out", link.SignIn)
}

func (s *signInPages) checkLimit(w http.ResponseWriter, r *http.Request) error {
	if s.signIns == nil {
		return nil
	}
	wait := s.signIns.Wait(r)
	if wait <= 0 {
		return nil
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	return &api.Error{Status: http.StatusTooManyRequests, Message: "Too many sign-ins from this address failed. Try again in a minute."}
}

func tooManyTokens(refused *api.Error) bool {
	return refused.Status == http.StatusTooManyRequests && len(refused.Details) == 1 && refused.Details[0]["field"] == "Authorization"
}
