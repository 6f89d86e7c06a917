// Package session stores the session of a browser in cookies, and says what its user may do. Servers store no session.
package session

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The whole session is in cookies, so every replica can read it; servers only remember which sessions were ended. Other
// sites cannot set these cookies: browsers reject a cookie with the prefix __Host- if it is set without TLS, for a
// whole domain, or for a path only.
const (
	// Cookie contains a random id and the token; further parts of a long token are in cookies with the suffixes -2 to
	// -4.
	Cookie = "__Host-dlq-session"

	// A browser accepts 4096 bytes per cookie, including the cookie's name and attributes.
	partSize = 3800
	maxParts = 4

	MaxToken = maxParts * partSize // maximum size in bytes of a token; the cookies can hold no larger one
)

// ErrTokenTooLong is the error of Keep for a token of more than MaxToken bytes.
var ErrTokenTooLong = fmt.Errorf("the token is longer than the %d bytes that cookies can hold", MaxToken)

// SetCookie sets a cookie for the given time; 0 keeps it until the browser closes, a negative time removes it.
func SetCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	})
}

// RemoveCookie removes a cookie that SetCookie has set.
func RemoveCookie(w http.ResponseWriter, name string) { SetCookie(w, name, "", -time.Second) }

// CookieValue returns a cookie's value; "" when the cookie is missing, and when it is sent several times, because one
// of the cookies is then forged.
func CookieValue(r *http.Request, name string) string {
	cookies := r.CookiesNamed(name)
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

func partName(part int) string {
	if part == 1 {
		return Cookie
	}
	return Cookie + "-" + strconv.Itoa(part)
}

// Session identifies a browser: ID is random and names the session when it is ended; Token is the credential.
type Session struct{ ID, Token string }

// Keep stores a token in a new session, in as many cookies as the token needs, and removes further cookies of an
// earlier session with a longer token. The first cookie also holds the id of the session and the number of cookies. A
// life of 0 means that the lifetime is unknown.
func Keep(w http.ResponseWriter, token string, life time.Duration) error {
	parts := (len(token) + partSize - 1) / partSize
	if parts > maxParts {
		return ErrTokenTooLong
	}
	for part := range maxParts {
		if part >= parts {
			RemoveCookie(w, partName(part+1))
			continue
		}
		value := token[part*partSize : min((part+1)*partSize, len(token))]
		if part == 0 {
			value = strconv.Itoa(parts) + ":" + rand.Text() + ":" + value
		}
		SetCookie(w, partName(part+1), value, life)
	}
	return nil
}

// Of returns the session of the browser, or the zero session.
func Of(r *http.Request) Session {
	count, rest, _ := strings.Cut(CookieValue(r, Cookie), ":")
	id, token, _ := strings.Cut(rest, ":")
	parts, err := strconv.Atoi(count)
	if err != nil || parts < 1 || parts > maxParts || id == "" || token == "" {
		return Session{}
	}
	for part := 2; part <= parts; part++ {
		next := CookieValue(r, partName(part))
		if next == "" {
			return Session{}
		}
		token += next
	}
	return Session{id, token}
}

// Drop removes the session from the browser.
func Drop(w http.ResponseWriter) {
	for part := range maxParts {
		RemoveCookie(w, partName(part+1))
	}
}

// Authorization returns the Authorization header for the API, or "". If the request has such a header, the session is
// not used.
func Authorization(r *http.Request) string {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		return strings.Join(values, ", ") // several headers are joined, and the API refuses the result
	}
	if s := Of(r); s.Token != "" {
		return "Bearer " + s.Token
	}
	return ""
}

// Remember stores a choice in a cookie for a year; "" removes it.
func Remember(w http.ResponseWriter, r *http.Request, name, choice string) {
	RememberFor(w, r, name, choice, 365*24*time.Hour)
}

// RememberFor stores a value that is not secret in a cookie for the given time; "" removes the cookie. On a connection
// without TLS the cookie does not have the attribute Secure.
func RememberFor(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	cookie := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
