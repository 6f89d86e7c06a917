package rest

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// route is one line of the API.
type route struct {
	method string
	path   string
	kind   kind
	needs  needs
	handle handler
}

// keyed reports whether requests may have an Idempotency-Key: all that order
// something to be done. What a DELETE or a PATCH leaves behind is the same however
// often it is sent.
func (rt route) keyed() bool { return rt.method == http.MethodPost || rt.method == http.MethodPut }

// handler answers a request, or says why it cannot.
type handler func(w http.ResponseWriter, r *http.Request) error

// kind says how long a request lives and when it is answered; see scope.
type kind int

const (
	probe  kind = iota // answered in every phase
	read               // ends when the client leaves
	change             // one step that is finished even when the client leaves
	work               // long: goes on without the client, until the drain stops it
	stream             // long: ends when the client leaves, or the drain stops it
)

const metricsPath = "/metrics"

func (s *Server) metricsRoute() route {
	return route{http.MethodGet, metricsPath, probe, needs{"", open}, s.exposeMetrics}
}

func (s *Server) probeRoutes() []route {
	routes := []route{
		{http.MethodGet, "/healthz", probe, needs{"", open}, s.alive},
		{http.MethodGet, "/readyz", probe, needs{"", open}, s.readiness},
	}
	if s.cfg.MetricsPort == 0 {
		routes = append(routes, s.metricsRoute())
	}
	return routes
}

// apiRoutes lists the API. Where two paths match, the method decides: POST
// messages/retry-all is about a topic named "messages", since no POST is about
// a bare message.
func (s *Server) apiRoutes() []route {
	return []route{
		{http.MethodGet, "/api/v1/dlq/{topic}", read, needs{auth.Viewer, someTopics}, s.listMessages},
		{http.MethodPost, "/api/v1/dlq/{topic}/retry-all", work, needs{auth.Operator, oneTopic}, s.retryTopic},

		{http.MethodGet, "/api/v1/dlq/messages/{id}", read, needs{auth.Viewer, oneMessage}, s.getMessage},
		{http.MethodDelete, "/api/v1/dlq/messages/{id}", change, needs{auth.Admin, oneMessage}, s.deleteMessage},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/payload", read, needs{auth.Viewer, oneMessage}, s.getPayload},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/history", read, needs{auth.Viewer, oneMessage}, s.getHistory},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/retry", work, needs{auth.Operator, oneRetried}, s.retryMessage},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/requeue", change, needs{auth.Operator, oneMessage}, s.requeueMessage},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/dead", change, needs{auth.Operator, oneMessage}, s.giveUpMessage},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/origin", change, needs{auth.Operator, oneMessage}, s.setOrigin},

		{http.MethodGet, "/api/v1/messages", read, needs{auth.Viewer, someTopics}, s.searchMessages},
		{http.MethodGet, "/api/v1/export", stream, needs{auth.Viewer, someTopics}, s.exportMessages},
		{http.MethodGet, "/api/v1/archive", read, needs{auth.Viewer, someTopics}, s.searchArchive},
		{http.MethodGet, "/api/v1/archive/{id}", read, needs{auth.Viewer, oneArchived}, s.getArchived},
		{http.MethodGet, "/api/v1/archive/{id}/payload", read, needs{auth.Viewer, oneArchived}, s.getArchivedPayload},
		{http.MethodGet, "/api/v1/archive/{id}/history", read, needs{auth.Viewer, oneArchived}, s.getArchivedHistory},
		{http.MethodPost, "/api/v1/archive/{id}/restore", change, needs{auth.Operator, oneArchived}, s.restoreMessage},

		{http.MethodGet, "/api/v1/quarantine", read, needs{auth.Viewer, someTopics}, s.listQuarantine},
		{http.MethodPost, "/api/v1/quarantine/{id}/retry", change, needs{auth.Operator, oneQuarantined}, s.retryQuarantined},
		{http.MethodDelete, "/api/v1/quarantine/{id}", change, needs{auth.Admin, oneQuarantined}, s.deleteQuarantined},

		{http.MethodGet, "/api/v1/topics", read, needs{auth.Viewer, someTopics}, s.listTopics},
		{http.MethodGet, "/api/v1/activity", read, needs{auth.Viewer, someTopics}, s.getActivity},
		{http.MethodGet, "/api/v1/groups", read, needs{auth.Viewer, someTopics}, s.listGroups},
		{http.MethodGet, "/api/v1/groups/{id}", read, needs{auth.Viewer, oneGroup}, s.getGroup},
		{http.MethodPatch, "/api/v1/groups/{id}", change, needs{auth.Operator, oneGroup}, s.annotateGroup},
		{http.MethodGet, "/api/v1/mappings", read, needs{auth.Viewer, everything}, s.getMappings},
		{http.MethodPut, "/api/v1/mappings", work, needs{auth.Admin, everything}, s.replaceMappings},

		{http.MethodGet, "/api/v1/redrives", read, needs{auth.Viewer, someTopics}, s.listRedrives},
		{http.MethodPost, "/api/v1/redrives", work, needs{auth.Operator, someTopics}, s.createRedrive},
		{http.MethodGet, "/api/v1/redrives/{id}", read, needs{auth.Viewer, oneRedrive}, s.getRedrive},
		{http.MethodGet, "/api/v1/redrives/{id}/items", read, needs{auth.Viewer, oneRedrive}, s.listItems},
		{http.MethodPost, "/api/v1/redrives/{id}/pause", change, needs{auth.Operator, oneRedrive}, s.pauseRedrive},
		{http.MethodPost, "/api/v1/redrives/{id}/resume", change, needs{auth.Operator, oneRedrive}, s.resumeRedrive},
		{http.MethodPost, "/api/v1/redrives/{id}/cancel", change, needs{auth.Operator, oneRedrive}, s.cancelRedrive},

		{http.MethodGet, "/api/v1/audit", read, needs{auth.Viewer, someTopics}, s.listChanges},
		{http.MethodGet, "/api/v1/session", read, needs{"", oneself}, s.getSession},
	}
}

// newRouter matches the path as it was sent: nothing is cleaned and nothing is
// redirected, so a topic may be any text, encoded slashes included.
func (s *Server) newRouter(routes []route) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, rt := range routes {
		router.Handle(rt.path, s.adapt(rt)).Methods(methods(rt.method)...)
	}
	router.NotFoundHandler = s.known(s.routeNotFound)
	router.MethodNotAllowedHandler = s.known(s.methodNotAllowed)
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
var knownMethods = [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
