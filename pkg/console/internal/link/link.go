// Package link builds the addresses of pages, and checks addresses that come from a request before the console
// redirects to them.
package link

import (
	"net/http"
	"net/url"
	"strings"
)

// Paths of pages.
const (
	Messages   = "/messages"
	Facets     = "/messages/facets"
	Archive    = "/archive"
	Groups     = "/groups"
	Redrives   = "/redrives"
	NewRedrive = "/redrives/new"
	Topics     = "/topics"
	Mapping    = "/topics/mapping"
	Redirects  = "/topics/redirects"
	Quarantine = "/quarantine"
	Audit      = "/audit"
	SignIn     = "/sign-in"
	SignOut    = "/sign-out"
)

// ErrorGroup returns the address of the page of an error group.
func ErrorGroup(id string) string { return Groups + "/" + url.PathEscape(id) }

// Topic returns the address of the page of an original topic.
func Topic(name string) string { return Topics + "/" + url.PathEscape(name) }

// Redrive returns the address of the page of a redrive.
func Redrive(id string) string { return Redrives + "/" + url.PathEscape(id) }

// Query returns a query made of pairs of names and values, without empty values.
func Query(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Add(pairs[i], pairs[i+1])
		}
	}
	return query
}

// To returns a path with a query made of pairs of names and values, without empty values.
func To(path string, pairs ...string) string { return WithQuery(path, Query(pairs...)) }

// WithQuery returns a path with a query; an empty query is left out.
func WithQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Local returns the address in the parameter to if it is a path of this site, so that a redirect cannot lead to another
// site, and otherwise "/".
func Local(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}

// MaxReturn limits the bytes of a return path, so that the cookie of a sign-in stays within browsers' limits.
const MaxReturn = 2000

// Return returns the path to continue at after a sign-in: the result of Local, but "/" for the pages of sign-in and
// sign-out, and for long or invalid paths.
func Return(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > MaxReturn || u.Path == SignOut || u.Path == SignIn || strings.HasPrefix(u.Path, SignIn+"/") {
		return "/"
	}
	return Local(to)
}

// Referer returns the page of this site that led to the request, or "/".
func Referer(r *http.Request) string {
	u, err := url.Parse(r.Referer())
	if err != nil || u.Host != r.Host {
		return "/"
	}
	return Return(u.RequestURI())
}

// Back returns the address of the list that led to a page or to a form of the page: a list of messages, a page of an
// error group or of a redrive, else all messages. The console shows this list when the object of the page no longer
// exists.
func Back(r *http.Request) string {
	from := r.PostFormValue("from")
	if from == "" {
		from = Referer(r)
	}
	from = Local(from)
	switch u, err := url.Parse(from); {
	case err != nil:
		return Messages
	case u.Path == Messages, strings.HasPrefix(u.Path, Groups+"/"), strings.HasPrefix(u.Path, Redrives+"/"):
		return from
	default:
		return Messages
	}
}

// Web returns the address in text if it is an http or https address with a host, which is safe as a link; otherwise "".
func Web(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return u.String()
}
