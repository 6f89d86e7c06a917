package rest

import (
	"net/http"
	"net/url"

	"github.com/gorilla/mux"
)

// Mount lets h answer at a path beside the API, whose variable segments are in
// braces; h reads them by http.Request.PathValue. It is counted and logged as the
// API's routes are, and refused to pages of other sites, but h itself says who may see
// what. It must not be called once the server serves.
func (s *Server) Mount(method, path string, h http.Handler) {
	s.router.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r).route = path
		for name, value := range mux.Vars(r) {
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
			r.SetPathValue(name, value)
		}
		h.ServeHTTP(w, r)
	})).Methods(methods(method)...)
}
