package console

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The whole session is in cookies, so every replica can read it; servers only remember which sessions were ended. The
// prefix __Host- makes browsers reject cookies that other sites set: without TLS, for a whole domain, or for a path.
const (
	sessionCookie = "__Host-dlq-session" // a random id and the token; further parts have the suffixes -2 to -4
	attemptCookie = "__Host-dlq-signin"  // the sign-in under way at the issuer
	issuerCookie  = "__Host-dlq-issuer"  // the time of the last sign-in at the issuer

	// A browser accepts 4096 bytes per cookie, its name and attributes included.
	partSize = 3800
	maxParts = 4

	attemptLife = 10 * time.Minute
	issuerLife  = 30 * 24 * time.Hour
)

var errTokenTooLong = fmt.Errorf("the token is longer than the %d bytes that cookies can hold", maxParts*partSize)

// setCookie sets a cookie for the given time; 0 keeps it until the browser closes, a negative time removes it.
func setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	})
}

func takeCookie(w http.ResponseWriter, name string) { setCookie(w, name, "", -time.Second) }

// cookieOf returns a cookie's value; "" when it is missing or sent several times, as one of them is then forged.
func cookieOf(r *http.Request, name string) string {
	cookies := r.CookiesNamed(name)
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

func partName(part int) string {
	if part == 1 {
		return sessionCookie
	}
	return sessionCookie + "-" + strconv.Itoa(part)
}

// session identifies a browser: id is random and names the session when it is ended; token is the credential.
type session struct{ id, token string }

// keepSession stores a token in a new session and removes surplus parts of an older, longer one. The first part holds
// the number of parts and the id. A life of 0 means that the lifetime is unknown.
func keepSession(w http.ResponseWriter, token string, life time.Duration) error {
	parts := (len(token) + partSize - 1) / partSize
	if parts > maxParts {
		return errTokenTooLong
	}
	for part := range maxParts {
		if part >= parts {
			takeCookie(w, partName(part+1))
			continue
		}
		value := token[part*partSize : min((part+1)*partSize, len(token))]
		if part == 0 {
			value = strconv.Itoa(parts) + ":" + rand.Text() + ":" + value
		}
		setCookie(w, partName(part+1), value, life)
	}
	return nil
}

// sessionOf returns the session of the browser, or the zero session.
func sessionOf(r *http.Request) session {
	count, rest, _ := strings.Cut(cookieOf(r, sessionCookie), ":")
	id, token, _ := strings.Cut(rest, ":")
	parts, err := strconv.Atoi(count)
	if err != nil || parts < 1 || parts > maxParts || id == "" || token == "" {
		return session{}
	}
	for part := 2; part <= parts; part++ {
		next := cookieOf(r, partName(part))
		if next == "" {
			return session{}
		}
		token += next
	}
	return session{id, token}
}

func dropSession(w http.ResponseWriter) {
	for part := range maxParts {
		takeCookie(w, partName(part+1))
	}
}

func endSession(w http.ResponseWriter) {
	dropSession(w)
	takeCookie(w, attemptCookie)
	takeCookie(w, issuerCookie)
}

// authorization returns the Authorization header for the API, or "". The request's own header wins over the session.
func authorization(r *http.Request) string {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		return strings.Join(values, ", ") // the API rejects several values
	}
	if s := sessionOf(r); s.token != "" {
		return "Bearer " + s.token
	}
	return ""
}

// signInAttempt is a sign-in under way; the issuer's answer is checked against it. Only the browser stores it.
type signInAttempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Return   string `json:"r"` // where to go after the sign-in
	Began    int64  `json:"t"` // seconds since 1970
}

func (a signInAttempt) keep(w http.ResponseWriter) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write the cookie of a sign-in: %w", err)
	}
	setCookie(w, attemptCookie, base64.RawURLEncoding.EncodeToString(raw), attemptLife)
	return nil
}

var errNoAttempt = errors.New("the browser has no sign-in under way")

// attemptOf reads the cookie. The return path is checked again, because the user may have written the cookie.
func attemptOf(r *http.Request, now time.Time) (signInAttempt, error) {
	var a signInAttempt
	raw, err := base64.RawURLEncoding.DecodeString(cookieOf(r, attemptCookie))
	if err != nil || json.Unmarshal(raw, &a) != nil || a.State == "" || a.Nonce == "" || a.Verifier == "" {
		return signInAttempt{}, errNoAttempt
	}
	if age := now.Sub(time.Unix(a.Began, 0)); age > attemptLife || age < -attemptLife {
		return signInAttempt{}, errNoAttempt
	}
	a.Return = returnPath(a.Return)
	return a, nil
}

func (a signInAttempt) answeredBy(state string) bool {
	return subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}
