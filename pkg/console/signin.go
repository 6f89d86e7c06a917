package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// SignIn signs people in at an OpenID Connect issuer.
type SignIn interface {
	// Begin returns the address to send the browser to, and the nonce and verifier that Finish needs later.
	Begin(ctx context.Context, state string) (address, nonce, verifier string, err error)

	// Finish exchanges the browser's code for a token, valid until expires. Its errors contain no secret.
	Finish(ctx context.Context, code, verifier, nonce string) (token string, expires time.Time, err error)
}

// WithSignIn lets people sign in at the issuer. Without it they need a token.
func WithSignIn(issuer SignIn) Option {
	return func(c *Console) { c.signIn, c.needAuth = issuer, true }
}

const (
	signInPath   = "/sign-in"
	signOutPath  = "/sign-out"
	callbackPath = "/sign-in/callback"
)

func (c *Console) signInRoutes() []Route {
	return []Route{
		{http.MethodGet, signInPath, c.open(c.showSignIn)},
		{http.MethodPost, signInPath, c.open(c.takeToken)},
		{http.MethodGet, callbackPath, c.open(c.finishSignIn)},
		{http.MethodPost, signOutPath, c.open(c.signOut)},
	}
}

// askWhoTheyAre redirects a page to the sign-in. It refuses a form at once, since nothing was done, and also a
// script, which must not mistake the sign-in page for its answer.
func (c *Console) askWhoTheyAre(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && navigates(r) {
		pairs := []string{"return", returnPath(r.URL.RequestURI())}
		if c.signIn != nil && mayReturn(r, c.now()) {
			pairs = append(pairs, "with", "issuer-again")
		}
		_ = seeOther(w, r, signInPath, pairs...)
		return
	}
	p := signInPage{Return: cameFrom(r), Problem: &failure{
		Title: "You are not signed in", Message: "Nothing was done. Sign in and try again.",
	}}
	if err := c.renderSignIn(w, r, http.StatusUnauthorized, p); err != nil {
		c.logger.Error("cannot render the sign-in page", zap.Error(err))
		http.Error(w, "not signed in", http.StatusUnauthorized)
	}
}

// navigates reports whether the browser will show the answer as a page.
func navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Header.Get("Hx-Request") == "" && (mode == "" || mode == "navigate")
}

// tooSoon is the shortest time between automatic visits to the issuer: an earlier visit would not help.
const tooSoon = time.Minute

// mayReturn reports whether the browser is sent back to the issuer automatically, as some sessions last only minutes.
func mayReturn(r *http.Request, now time.Time) bool {
	at, err := strconv.ParseInt(cookieOf(r, issuerCookie), 10, 64)
	return err == nil && now.Sub(time.Unix(at, 0)) >= tooSoon
}

// maxReturn limits the bytes of a return path, so that the cookie of a sign-in stays within browsers' limits.
const maxReturn = 2000

func returnPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > maxReturn || u.Path == signOutPath || u.Path == signInPath || strings.HasPrefix(u.Path, signInPath+"/") {
		return "/"
	}
	return ownPath(to)
}

func cameFrom(r *http.Request) string {
	u, err := url.Parse(r.Referer())
	if err != nil || u.Host != r.Host {
		return "/"
	}
	return returnPath(u.RequestURI())
}

type signInPage struct {
	Return  string
	Problem *failure // failure of the last attempt; nil: none
}

func (p signInPage) Issuer() string { return to(signInPath, "with", "issuer", "return", p.Return) }

func (c *Console) renderSignIn(w http.ResponseWriter, r *http.Request, status int, p signInPage) error {
	return c.render(w, r, status, "signin", page{Title: "Sign in", Problem: p.Problem, Data: p})
}

// signInFailures holds the failures of sign-ins by their code in the address.
var signInFailures = map[string]*failure{
	"late": {
		Title: "The sign-in took too long", Message: "A sign-in expires after ten minutes, and it needs cookies. Try again.",
	},
	"other":   {Title: "The answer belongs to another sign-in", Message: "It may belong to a sign-in in another window. Try again."},
	"denied":  {Title: "The issuer did not sign you in", Message: "The issuer refused; the log has its reason."},
	"refused": {Title: "The sign-in failed", Message: "The issuer did not answer, or its answer was invalid; the log has the reason."},
	"unkept": {
		Title: "The browser did not keep the session", Message: "Sessions need cookies, and https unless the server is on this machine.",
	},
}

// showSignIn shows the page, begins a sign-in at the issuer, or completes one: only the next request shows whether
// the browser kept the session.
//
// The page's security policy silently blocks a form whose answer redirects to the issuer. So the sign-in page is
// shown in between, and continues to the issuer by itself.
func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	p := signInPage{Return: returnPath(query.Get("return")), Problem: signInFailures[query.Get("failed")]}
	switch {
	case !c.needAuth, query.Has("kept") && authorization(r) != "":
		return seeOther(w, r, p.Return)
	case query.Has("kept"):
		p.Problem = signInFailures["unkept"]
	case c.signIn != nil && query.Get("with") == "issuer":
		return c.beginSignIn(w, r, p)
	case c.signIn != nil && query.Get("with") == "issuer-again":
		w.Header().Set("Refresh", "0; url="+p.Issuer())
	}
	return c.renderSignIn(w, r, http.StatusOK, p)
}

func (c *Console) beginSignIn(w http.ResponseWriter, r *http.Request, p signInPage) error {
	state := rand.Text()
	address, nonce, verifier, err := c.signIn.Begin(r.Context(), state)
	if err != nil {
		c.logger.Warn("cannot begin a sign-in at the issuer", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		p.Problem = &failure{Title: "The issuer does not answer", Message: "Try again, or sign in with a token.", RequestID: r.Header.Get("X-Request-Id")}
		return c.renderSignIn(w, r, http.StatusServiceUnavailable, p)
	}
	a := signInAttempt{State: state, Nonce: nonce, Verifier: verifier, Return: p.Return, Began: c.now().Unix()}
	if err := a.keep(w); err != nil {
		return err
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// finishSignIn handles the browser's return from the issuer, and redirects so that the code leaves the address bar.
func (c *Console) finishSignIn(w http.ResponseWriter, r *http.Request) error {
	takeCookie(w, attemptCookie)
	a, err := attemptOf(r, c.now())
	query := r.URL.Query()
	switch {
	case c.signIn == nil:
		return seeOther(w, r, signInPath)
	case err != nil:
		return c.signInFailed(w, r, a, "late", err)
	case !a.answeredBy(query.Get("state")):
		return c.signInFailed(w, r, a, "other", errors.New("the state differs"))
	case query.Get("error") != "":
		return c.signInFailed(w, r, a, "denied", errors.New("the issuer says "+errorName(query.Get("error"))))
	}
	if err := c.mayTry(w, r); err != nil {
		return err
	}
	token, expires, err := c.signIn.Finish(r.Context(), query.Get("code"), a.Verifier, a.Nonce)
	if err == nil {
		_, err = c.whoHas(r, token)
	}
	if err == nil {
		err = keepSession(w, token, max(expires.Sub(c.now()), time.Second))
	}
	if err != nil {
		return c.signInFailed(w, r, a, "refused", err)
	}
	setCookie(w, issuerCookie, strconv.FormatInt(c.now().Unix(), 10), issuerLife)
	return seeOther(w, r, signInPath, "kept", "1", "return", a.Return)
}

func (c *Console) signInFailed(w http.ResponseWriter, r *http.Request, a signInAttempt, why string, err error) error {
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	if c.signIns != nil {
		c.signIns.Failed(r)
	}
	c.logger.Warn("a sign-in failed", zap.String("request_id", r.Header.Get("X-Request-Id")),
		zap.String("remote", r.RemoteAddr), zap.Error(err))
	return seeOther(w, r, signInPath, "failed", why, "return", a.Return)
}

// errorForm is the OAuth form of error names. Other text in the address may come from anyone, so it is not logged.
var errorForm = regexp.MustCompile(`^[a-z_]{1,40}$`)

func errorName(text string) string {
	if errorForm.MatchString(text) {
		return text
	}
	return "an invalid error name"
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// takeToken signs in with a pasted token, which is never shown again.
func (c *Console) takeToken(w http.ResponseWriter, r *http.Request) error {
	p := signInPage{Return: returnPath(r.PostFormValue("return"))}
	if !c.needAuth {
		return seeOther(w, r, p.Return)
	}
	token := tokenIn(text(r, "token"))
	if !tokenForm.MatchString(token) {
		p.Problem = &failure{Title: "This is not a token", Message: "A token is one word of letters, digits and a few signs."}
		return c.renderSignIn(w, r, http.StatusBadRequest, p)
	}
	status, err := c.whoHas(r, token)
	if status == http.StatusUnauthorized {
		p.Problem = &failure{Title: "Invalid or expired token", Message: "It is unknown, has expired, or is for another service."}
		return c.renderSignIn(w, r, status, p)
	}
	var refused *apiError
	if errors.As(err, &refused) && tooManyTokens(refused) {
		w.Header().Set("Retry-After", refused.after)
		p.Problem = &failure{Title: "Too many invalid tokens", Message: "They came from this address. Try again in a minute."}
		return c.renderSignIn(w, r, status, p)
	}
	if err != nil {
		return err
	}
	if err := keepSession(w, token, 0); err != nil {
		p.Problem = &failure{Title: "The token is too long", Message: "A browser cannot keep it."}
		return c.renderSignIn(w, r, http.StatusBadRequest, p)
	}
	takeCookie(w, issuerCookie) // after a token sign-in, the browser must not be sent to the issuer
	return seeOther(w, r, signInPath, "kept", "1", "return", p.Return)
}

// tokenIn returns the token in pasted text, which may be a whole Authorization header.
func tokenIn(pasted string) string {
	if scheme, token, two := strings.Cut(pasted, " "); two && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return pasted
}

// whoHas checks a token with the API; status is that of the answer.
func (c *Console) whoHas(r *http.Request, token string) (status int, err error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	err = c.api.get(r, endpoint("session"), nil, nil)
	var refused *apiError
	if errors.As(err, &refused) {
		return refused.Status, err
	}
	return http.StatusOK, err
}

// signOut ends the session on every replica. A session at the issuer itself may continue.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) error {
	s := sessionOf(r)
	endSession(w)
	if c.sessions != nil && s.token != "" {
		if err := c.sessions.End(r.Context(), s.id, s.token); err != nil {
			c.logger.Warn("a session was ended only in its browser", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
			return c.renderSignIn(w, r, http.StatusServiceUnavailable, signInPage{Return: "/", Problem: &failure{
				Title: "Signed out in this browser only", Message: "The server could not record it. A copy of the session is valid until its token expires.",
			}})
		}
	}
	return seeDone(w, r, "signed-out", signInPath)
}
