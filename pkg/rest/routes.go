package rest

import (
	"net/http"

	"github.com/gorilla/mux"
)

// route is one line of the API.
type route struct {
	method string
	path   string
	kind   kind
	handle handler
}

// handler answers a request, or says why it cannot.
type handler func(w http.ResponseWriter, r *http.Request) error

// kind says how long a request lives and when it is answered; see scope.
type kind int

const (
	probe  kind = iota // answered in every phase
	read               // ends when the client leaves
	change             // one step that is finished even when the client leaves
	work               // long: goes on without the client, until the drain stops it
)

func (s *Server) probeRoutes() []route {
	return []route{
		{http.MethodGet, "/healthz", probe, s.alive},
		{http.MethodGet, "/readyz", probe, s.readiness},
		{http.MethodGet, "/metrics", probe, s.exposeMetrics},
	}
}

// apiRoutes lists the API. Where two paths match, the method decides: POST
// messages/retry-all is about a topic named "messages", since no POST is about
// a bare message.
func (s *Server) apiRoutes() []route {
	return []route{
		{http.MethodGet, "/api/v1/dlq/{topic}", read, s.listMessages},
		{http.MethodPost, "/api/v1/dlq/{topic}/retry-all", work, s.keyed(s.retryTopic)},

		{http.MethodGet, "/api/v1/dlq/messages/{id}", read, s.getMessage},
		{http.MethodDelete, "/api/v1/dlq/messages/{id}", change, s.deleteMessage},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/payload", read, s.getPayload},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/history", read, s.getHistory},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/retry", work, s.keyed(s.retryMessage)},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/requeue", change, s.keyed(s.requeueMessage)},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/dead", change, s.keyed(s.giveUpMessage)},

		{http.MethodGet, "/api/v1/redrives", read, s.listRedrives},
		{http.MethodPost, "/api/v1/redrives", work, s.keyed(s.createRedrive)},
		{http.MethodGet, "/api/v1/redrives/{id}", read, s.getRedrive},
		{http.MethodGet, "/api/v1/redrives/{id}/items", read, s.listItems},
		{http.MethodPost, "/api/v1/redrives/{id}/pause", change, s.keyed(s.pauseRedrive)},
		{http.MethodPost, "/api/v1/redrives/{id}/resume", change, s.keyed(s.resumeRedrive)},
		{http.MethodPost, "/api/v1/redrives/{id}/cancel", change, s.keyed(s.cancelRedrive)},

		{http.MethodGet, "/api/v1/audit", read, s.listChanges},
	}
}

// newRouter matches the path as it was sent: nothing is cleaned and nothing is
// redirected, so a topic may be any text, encoded slashes included.
func (s *Server) newRouter(routes []route) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, rt := range routes {
		router.Handle(rt.path, s.adapt(rt)).Methods(methods(rt.method)...)
	}
	router.NotFoundHandler = http.HandlerFunc(s.routeNotFound)
	router.MethodNotAllowedHandler = http.HandlerFunc(s.methodNotAllowed)
	return router
}

// methods adds HEAD to every GET; net/http leaves the body out.
func methods(method string) []string {
	if method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{method}
}

// knownMethods are those that any route answers, in the order of an Allow
// header.
var knownMethods = [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}
