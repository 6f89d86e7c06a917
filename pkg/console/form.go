package console

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
)

// keyField is the hidden field of a form that makes sending it twice do it once.
const keyField = "key"

// newKey returns what no other form has.
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// to builds an address of this site from a path and pairs of names and values.
// Empty values are left out.
func to(path string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Add(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// seeOther ends a change: the browser loads what there is now, and a reload sends
// nothing again.
func seeOther(w http.ResponseWriter, r *http.Request, path string, pairs ...string) error {
	http.Redirect(w, r, to(path, pairs...), http.StatusSeeOther)
	return nil
}

// unkeyed is the request without the key of its form, for calls that are to be made
// anew however often the form is sent. Nothing else of the form is left either.
func unkeyed(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.PostForm = url.Values{}
	return r
}

// wayBack is the list that led to a page, or to the form that was on it: where to go
// when there is no such page any more.
func wayBack(r *http.Request) string {
	from := ownPath(r.PostFormValue("from"))
	if r.Method == http.MethodGet {
		from = cameFrom(r)
	}
	switch u, err := url.Parse(from); {
	case err != nil:
		return messagesPath
	case u.Path == messagesPath, strings.HasPrefix(u.Path, "/groups/"), strings.HasPrefix(u.Path, "/redrives/"):
		return from
	default:
		return messagesPath
	}
}

// text returns a field of a form without spaces around it.
func text(r *http.Request, field string) string { return strings.TrimSpace(r.PostFormValue(field)) }

// reasoned is the body of every order that takes nothing but a reason.
func reasoned(r *http.Request) map[string]any {
	if reason := text(r, "reason"); reason != "" {
		return map[string]any{"reason": reason}
	}
	return map[string]any{}
}
