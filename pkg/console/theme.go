package console

import (
	"net/http"
	"strings"
)

const themeCookie = "dlq-theme"

// themeOf returns light, dark, or "" for the system's setting.
func themeOf(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

func (c *Console) setTheme(w http.ResponseWriter, r *http.Request) error {
	theme := r.PostFormValue("theme")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	keepChoice(w, r, themeCookie, theme)
	return seeOther(w, r, ownPath(r.PostFormValue("return")))
}

// keepChoice stores a choice in a cookie for a year, without Secure when there is no TLS; "" removes it.
func keepChoice(w http.ResponseWriter, r *http.Request, name, choice string) {
	cookie := &http.Cookie{
		Name: name, Value: choice, Path: "/", MaxAge: 365 * 24 * 60 * 60,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	}
	if choice == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// ownPath returns a path of this site to redirect to: "/" for any other address.
func ownPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
