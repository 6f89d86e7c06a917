// Package registry is a schema registry for tests, which keeps its schemas in memory. It implements as much of the
// public HTTP API of Confluent Schema Registry as the official clients use. Methods such as Down make it fail.
//
// It does not compare versions of a subject for compatibility, and it ignores metadata, rule sets
// and contexts.
package registry

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Options say who may use a registry. Without a user and a token, everyone may.
type Options struct {
	User     string // user of basic authentication
	Password string
	Token    string // bearer token
}

// Registry is a schema registry. It is safe for concurrent use.
type Registry struct {
	opts   Options
	routes *http.ServeMux

	mu       sync.Mutex // guards the fields below
	store    *store
	requests []string
	faults   faults
}

// New returns a registry without schemas.
func New(opts Options) *Registry {
	r := &Registry{opts: opts, store: newStore()}
	r.routes = r.newRoutes()
	return r
}

// ServeHTTP records the request, and answers it or fails in the way that a method such as Down has set.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.EscapedPath())
	now := r.faults
	r.mu.Unlock()
	if now.answer(w, req) {
		return
	}
	if !r.allowed(req) {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		writeError(w, failure(http.StatusUnauthorized, http.StatusUnauthorized, "Unauthorized"))
		return
	}
	r.routes.ServeHTTP(w, req)
}

// allowed reports whether the request has the credentials that the options ask for.
func (r *Registry) allowed(req *http.Request) bool {
	if r.opts.User == "" && r.opts.Token == "" {
		return true
	}
	if user, password, ok := req.BasicAuth(); ok && r.opts.User != "" {
		return same(user, r.opts.User) && same(password, r.opts.Password)
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return ok && r.opts.Token != "" && same(token, r.opts.Token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Requests returns the method and the path of each request, in the order of arrival, including requests that the
// registry answered with an error.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Count returns the number of requests.
func (r *Registry) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// Reset forgets the requests. Schemas and failures stay.
func (r *Registry) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}
