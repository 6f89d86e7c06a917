package rest

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

type route struct {
	method string
	path   string
	kind   kind
	needs  needs
	handle handler
	feature
}

// feature names the purpose for which a route needs a database, as the subject of a sentence.
type feature string

// everyStore is the feature of routes that work without a database.
const everyStore feature = ""

// keyed reports whether requests may have an Idempotency-Key: all changes except DELETE and PATCH, which can safely
// be repeated.
func (rt route) keyed() bool { return rt.method == http.MethodPost || rt.method == http.MethodPut }

type handler func(w http.ResponseWriter, r *http.Request) error

// kind says how long a request may last and in which phases it is answered; see scope.
type kind int

const (
	probe  kind = iota // answered in every phase
	read               // ends when the client disconnects
	change             // one step, completed even when the client disconnects
	work               // long: continues without the client, until the drain stops it
	stream             // long: ends when the client disconnects, or the drain stops it
)

const metricsPath = "/metrics"

func (s *Server) metricsRoute() route {
	return route{http.MethodGet, metricsPath, probe, needs{"", open}, s.exposeMetrics, everyStore}
}

func (s *Server) probeRoutes() []route {
	routes := []route{
		{http.MethodGet, "/healthz", probe, needs{"", open}, s.alive, everyStore},
		{http.MethodGet, "/readyz", probe, needs{"", open}, s.readiness, everyStore},
	}
	if s.cfg.MetricsPort == 0 {
		routes = append(routes, s.metricsRoute())
	}
	return routes
}

// apiRoutes lists the API. Where two paths match, the method decides: POST messages/retry-all is for a topic named
// "messages".
func (s *Server) apiRoutes() []route {
	return []route{
		{http.MethodGet, "/api/v1/dlq/{topic}", read, needs{auth.Viewer, someTopics}, s.listMessages, everyStore},
		{http.MethodPost, "/api/v1/dlq/{topic}/retry-all", work, needs{auth.Operator, oneTopic}, s.retryTopic, everyStore},

		{http.MethodGet, "/api/v1/dlq/messages/{id}", read, needs{auth.Viewer, oneMessage}, s.getMessage(false), everyStore},
		{http.MethodDelete, "/api/v1/dlq/messages/{id}", change, needs{auth.Admin, oneMessage}, s.deleteMessage, everyStore},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/payload", read, needs{auth.Viewer, oneMessage}, s.getPayload(false), everyStore},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/history", read, needs{auth.Viewer, oneMessage}, s.getHistory(false), everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/retry", work, needs{auth.Operator, oneRetried}, s.retryMessage, everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/requeue", change, needs{auth.Operator, oneMessage}, s.move(s.store.Requeue, "requeued"), everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/dead", change, needs{auth.Operator, oneMessage}, s.move(s.redriver.GiveUp, "marked dead"), everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/origin", change, needs{auth.Operator, oneMessage}, s.setOrigin, "setting an original topic"},

		{http.MethodGet, "/api/v1/messages", read, needs{auth.Viewer, someTopics}, s.search(false), "search"},
		{http.MethodGet, "/api/v1/export", stream, needs{auth.Viewer, someTopics}, s.exportMessages, "an export"},
		{http.MethodGet, "/api/v1/archive", read, needs{auth.Viewer, someTopics}, s.search(true), "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}", read, needs{auth.Viewer, oneArchived}, s.getMessage(true), "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}/payload", read, needs{auth.Viewer, oneArchived}, s.getPayload(true), "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}/history", read, needs{auth.Viewer, oneArchived}, s.getHistory(true), "the archive"},
		{http.MethodPost, "/api/v1/archive/{id}/restore", change, needs{auth.Operator, oneArchived}, s.restoreMessage, "the archive"},

		{http.MethodGet, "/api/v1/quarantine", read, needs{auth.Viewer, someTopics}, s.listQuarantine, "the quarantine"},
		{http.MethodPost, "/api/v1/quarantine/{id}/retry", change, needs{auth.Operator, oneQuarantined}, s.retryQuarantined, "the quarantine"},
		{http.MethodDelete, "/api/v1/quarantine/{id}", change, needs{auth.Admin, oneQuarantined}, s.deleteQuarantined, "the quarantine"},

		{http.MethodGet, "/api/v1/topics", read, needs{auth.Viewer, someTopics}, s.listTopics, "the list of topics"},
		{http.MethodGet, "/api/v1/activity", read, needs{auth.Viewer, someTopics}, s.getActivity, "the number of arrivals"},
		{http.MethodGet, "/api/v1/groups", read, needs{auth.Viewer, someTopics}, s.listGroups, "the list of error groups"},
		{http.MethodGet, "/api/v1/groups/{id}", read, needs{auth.Viewer, oneGroup}, s.getGroup, "an error group"},
		{http.MethodPatch, "/api/v1/groups/{id}", change, needs{auth.Operator, oneGroup}, s.annotateGroup, "an error group"},
		{http.MethodGet, "/api/v1/mappings", read, needs{auth.Viewer, everything}, s.getMappings, "the topic mapping"},
		{http.MethodPut, "/api/v1/mappings", work, needs{auth.Admin, everything}, s.replaceMappings, "the topic mapping"},

		{http.MethodGet, "/api/v1/redrives", read, needs{auth.Viewer, someTopics}, s.listRedrives, "the list of redrives"},
		{http.MethodPost, "/api/v1/redrives", work, needs{auth.Operator, someTopics}, s.createRedrive, "a redrive of a selection"},
		{http.MethodGet, "/api/v1/redrives/{id}", read, needs{auth.Viewer, oneRedrive}, s.getRedrive, everyStore},
		{http.MethodGet, "/api/v1/redrives/{id}/items", read, needs{auth.Viewer, oneRedrive}, s.listItems, "the list of a redrive's messages"},
		{http.MethodPost, "/api/v1/redrives/{id}/pause", change, needs{auth.Operator, oneRedrive}, s.moveRedrive(s.redriver.Pause), everyStore},
		{http.MethodPost, "/api/v1/redrives/{id}/resume", change, needs{auth.Operator, oneRedrive}, s.moveRedrive(s.redriver.Resume), everyStore},
		{http.MethodPost, "/api/v1/redrives/{id}/cancel", change, needs{auth.Operator, oneRedrive}, s.moveRedrive(s.redriver.Cancel), everyStore},

		{http.MethodGet, "/api/v1/audit", read, needs{auth.Viewer, someTopics}, s.listChanges, "the audit trail"},
		{http.MethodGet, "/api/v1/session", read, needs{"", oneself}, s.getSession, everyStore},
	}
}

// newRouter matches the path as it was sent, without cleaning or redirects: a topic may be any text.
func (s *Server) newRouter(routes []route) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, rt := range routes {
		router.Handle(rt.path, s.adapt(rt)).Methods(methods(rt.method)...)
	}
	router.NotFoundHandler = s.known(s.routeNotFound)
	router.MethodNotAllowedHandler = s.known(s.methodNotAllowed)
	return router
}

// methods adds HEAD to every GET; net/http omits the body.
func methods(method string) []string {
	if method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{method}
}

// knownMethods are the methods of all routes, in the order of an Allow header.
var knownMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
