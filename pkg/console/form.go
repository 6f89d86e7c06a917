package console

import (
	"net/http"
	"net/url"
	"strings"
)

// keyField is the hidden form field with the idempotency key: sending the form twice does the work once.
const keyField = "key"

// queryOf returns a query of pairs of names and values, without empty values.
func queryOf(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Add(pairs[i], pairs[i+1])
		}
	}
	return query
}

func to(path string, pairs ...string) string { return withQuery(path, queryOf(pairs...)) }

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// seeOther answers a change with a redirect, so that a reload does not repeat it.
func seeOther(w http.ResponseWriter, r *http.Request, path string, pairs ...string) error {
	http.Redirect(w, r, to(path, pairs...), http.StatusSeeOther)
	return nil
}

// unkeyed returns the request without its form: a call with it has no idempotency key and is always executed.
func unkeyed(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.PostForm = url.Values{}
	return r
}

// wayBack returns the list that led to the page or its form: where to go when the object of the page is gone.
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

func text(r *http.Request, field string) string { return strings.TrimSpace(r.PostFormValue(field)) }

func reasoned(r *http.Request) map[string]any {
	if reason := text(r, "reason"); reason != "" {
		return map[string]any{"reason": reason}
	}
	return map[string]any{}
}
