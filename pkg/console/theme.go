package console

import (
	"net/http"
	"strings"
)

const themeCookie = "dlq-theme"

// themeOf returns the colours that were chosen: light, dark, or "" for what the
// system has.
func themeOf(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

// setTheme keeps the choice in the browser.
func (c *Console) setTheme(w http.ResponseWriter, r *http.Request) error {
	theme := r.PostFormValue("theme")
	cookie := &http.Cookie{
		Name: themeCookie, Value: theme, Path: "/", MaxAge: 365 * 24 * 60 * 60,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	}
	if theme != "light" && theme != "dark" {
		cookie.Value, cookie.MaxAge = "", -1
	}
	http.SetCookie(w, cookie)
	return seeOther(w, r, ownPath(r.PostFormValue("return")))
}

// ownPath returns where to go next: a path of this site, whatever was asked for.
func ownPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
