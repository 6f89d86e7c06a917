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

// SignIn signs people in at an issuer that knows them.
type SignIn interface {
	// Begin returns where to send the browser, and what Finish needs when it comes back with the state.
	Begin(ctx context.Context, state string) (address, nonce, verifier string, err error)

	// Finish returns the token for the browser's code, valid until expires. No error holds a secret.
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

// askWhoTheyAre redirects a page to the sign-in. A form is refused on the spot, as nothing was done, and so is a
// script, which must not take the sign-in for its answer.
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
		Title: "You are not signed in", Message: "Nothing was done. Sign in, and do it again.",
	}}
	if err := c.renderSignIn(w, r, http.StatusUnauthorized, p); err != nil {
		c.logger.Error("the page of the sign-in could not be made", zap.Error(err))
		http.Error(w, "not signed in", http.StatusUnauthorized)
	}
}

// navigates reports whether the browser shows what it gets.
func navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Header.Get("Hx-Request") == "" && (mode == "" || mode == "navigate")
}

// tooSoon is how long a new session must last: asking the issuer again at once would not help.
const tooSoon = time.Minute

// mayReturn reports whether the browser goes back to the issuer by itself: some sessions last minutes.
func mayReturn(r *http.Request, now time.Time) bool {
	at, err := strconv.ParseInt(cookieOf(r, issuerCookie), 10, 64)
	return err == nil && now.Sub(time.Unix(at, 0)) >= tooSoon
}

// maxReturn keeps the cookie of a sign-in within what browsers keep.
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
	Problem *failure // of what was just tried; nil: none
}

func (p signInPage) Issuer() string { return to(signInPath, "with", "issuer", "return", p.Return) }

func (c *Console) renderSignIn(w http.ResponseWriter, r *http.Request, status int, p signInPage) error {
	return c.render(w, r, status, "signin", page{Title: "Sign in", Problem: p.Problem, Data: p})
}

// signInFailures explain failed sign-ins by their name in the address.
var signInFailures = map[string]*failure{
	"late": {
		Title: "The sign-in took too long", Message: "It ends after ten minutes, and browsers that keep no cookies cannot sign in. Try it again.",
	},
	"other":   {Title: "The answer belongs to another sign-in", Message: "Perhaps to one in another window. Try it again."},
	"denied":  {Title: "The issuer did not sign you in", Message: "It said so itself; the log has its reason."},
	"refused": {Title: "The sign-in did not work", Message: "The issuer's answer could not be had, or did not count; the log has the reason."},
	"unkept": {
		Title: "The browser did not keep the session", Message: "Sessions are kept over https only, or on this machine itself, and with cookies.",
	},
}

// showSignIn shows the page, begins a sign-in at the issuer, or ends one: only the next request shows whether the
// browser kept the session.
//
// A form whose answer redirects to the issuer is stopped by the page's policy without a word. So the page of the
// sign-in comes in between and goes on by itself.
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
		c.logger.Warn("nobody can be sent to the issuer", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		p.Problem = &failure{Title: "The issuer does not answer", Message: "Try it again, or sign in with a token.", RequestID: r.Header.Get("X-Request-Id")}
		return c.renderSignIn(w, r, http.StatusServiceUnavailable, p)
	}
	a := signInAttempt{State: state, Nonce: nonce, Verifier: verifier, Return: p.Return, Began: c.now().Unix()}
	if err := a.keep(w); err != nil {
		return err
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// finishSignIn takes the browser back from the issuer and on to another address: the code must not stay in this one.
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
		return c.signInFailed(w, r, a, "other", errors.New("the state is another one"))
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
	c.logger.Warn("a sign-in did not work", zap.String("request_id", r.Header.Get("X-Request-Id")),
		zap.String("remote", r.RemoteAddr), zap.Error(err))
	return seeOther(w, r, signInPath, "failed", why, "return", a.Return)
}

// errorForm is the standard's form of error names. Other text of an address may be anybody's.
var errorForm = regexp.MustCompile(`^[a-z_]{1,40}$`)

func errorName(text string) string {
	if errorForm.MatchString(text) {
		return text
	}
	return "what is no error"
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// takeToken signs in with a token. What was typed is never shown again.
func (c *Console) takeToken(w http.ResponseWriter, r *http.Request) error {
	p := signInPage{Return: returnPath(r.PostFormValue("return"))}
	if !c.needAuth {
		return seeOther(w, r, p.Return)
	}
	token := tokenIn(text(r, "token"))
	if !tokenForm.MatchString(token) {
		p.Problem = &failure{Title: "This is no token", Message: "A token is one word of letters, digits and a few signs."}
		return c.renderSignIn(w, r, http.StatusBadRequest, p)
	}
	status, err := c.whoHas(r, token)
	if status == http.StatusUnauthorized {
		p.Problem = &failure{Title: "The token does not count", Message: "It is not known, has expired, or is for something else."}
		return c.renderSignIn(w, r, status, p)
	}
	var refused *apiError
	if errors.As(err, &refused) && tooManyTokens(refused) {
		w.Header().Set("Retry-After", refused.after)
		p.Problem = &failure{Title: "Too many tokens that do not count", Message: "They came from this address. Try it again in a minute."}
		return c.renderSignIn(w, r, status, p)
	}
	if err != nil {
		return err
	}
	if err := keepSession(w, token, 0); err != nil {
		p.Problem = &failure{Title: "The token is too long", Message: "A browser cannot keep it."}
		return c.renderSignIn(w, r, http.StatusBadRequest, p)
	}
	takeCookie(w, issuerCookie) // whoever signs in by hand is not to be sent to the issuer
	return seeOther(w, r, signInPath, "kept", "1", "return", p.Return)
}

// tokenIn returns the token of what somebody pasted: perhaps a whole header.
func tokenIn(pasted string) string {
	if scheme, token, two := strings.Cut(pasted, " "); two && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return pasted
}

// whoHas asks the API whether it lets a token in; else status is what it says.
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

// signOut ends the session at every replica; the issuer may still have its own.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) error {
	s := sessionOf(r)
	endSession(w)
	if c.sessions != nil && s.token != "" {
		if err := c.sessions.End(r.Context(), s.id, s.token); err != nil {
			c.logger.Warn("a session was ended in its browser alone", zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
			return c.renderSignIn(w, r, http.StatusServiceUnavailable, signInPage{Return: "/", Problem: &failure{
				Title: "Signed out in this browser only", Message: "It could not be noted. A copy of the session would count until its token ends.",
			}})
		}
	}
	return seeDone(w, r, "signed-out", signInPath)
}
