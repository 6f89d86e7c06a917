// Package request reads the requests of browsers: fields of forms, and which page or site caused a request.
package request

import (
	"net/http"
	"strings"
)

// Text returns the value of a form field without surrounding space.
func Text(r *http.Request, field string) string { return strings.TrimSpace(r.PostFormValue(field)) }

// Body returns a new body for the API, which contains only the reason typed into the form, if there is one.
func Body(r *http.Request) map[string]any {
	if reason := Text(r, "reason"); reason != "" {
		return map[string]any{"reason": reason}
	}
	return map[string]any{}
}

// Navigates reports whether the browser will show the answer as a page.
func Navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Header.Get("Hx-Request") == "" && (mode == "" || mode == "navigate")
}

// FromOtherSite reports whether another site caused the request. It is false for requests of old browsers and of pages
// without TLS, which do not say what caused them.
func FromOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	default:
		return true
	}
}

// Unmasks reports whether a page of this console requests unmasked values, which adds an entry to the audit trail.
func Unmasks(r *http.Request) bool { return r.FormValue("unmask") == "true" && !FromOtherSite(r) }
