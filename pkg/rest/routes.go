package rest

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

const metricsPath = "/metrics"

func (s *Server) metricsRoute() route {
	return route{http.MethodGet, metricsPath, probe, permission{"", open}, s.metrics.expose, everyStore}
}

func (s *Server) probeRoutes() []route {
	routes := []route{
		{http.MethodGet, "/healthz", probe, permission{"", open}, s.health.alive, everyStore},
		{http.MethodGet, "/readyz", probe, permission{"", open}, s.health.readiness, everyStore},
	}
	if s.cfg.MetricsPort == 0 {
		routes = append(routes, s.metricsRoute())
	}
	return routes
}

// apiRoutes returns the table of the API's routes. When a path matches two routes, the method of the request decides.
// So POST /api/v1/dlq/messages/retry-all retries a topic named "messages".
func (s *Server) apiRoutes() []route {
	h := s.handlers()
	return []route{
		{http.MethodGet, "/api/v1/dlq/{topic}", read, permission{auth.Viewer, someTopics}, h.lists.Topic, everyStore},
		{http.MethodPost, "/api/v1/dlq/{topic}/retry-all", work, permission{auth.Operator, oneTopic}, h.redrives.RetryTopic, everyStore},

		{http.MethodGet, "/api/v1/dlq/messages/{id}", read, permission{auth.Viewer, oneMessage}, h.live.Get, everyStore},
		{http.MethodDelete, "/api/v1/dlq/messages/{id}", change, permission{auth.Admin, oneMessage}, h.changes.Delete, everyStore},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/payload", read, permission{auth.Viewer, oneMessage}, h.livePayloads.Get, everyStore},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/schema", read, permission{auth.Viewer, oneMessage}, h.liveSchemas.Get, everyStore},
		{http.MethodGet, "/api/v1/dlq/messages/{id}/history", read, permission{auth.Viewer, oneMessage}, h.liveHistories.Get, everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/retry", work, permission{auth.Operator, oneRetried}, h.retries.Retry, everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/requeue", change, permission{auth.Operator, oneMessage}, h.changes.Requeue, everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/dead", change, permission{auth.Operator, oneMessage}, h.changes.MarkDead, everyStore},
		{http.MethodPost, "/api/v1/dlq/messages/{id}/origin", change, permission{auth.Operator, oneMessage}, h.changes.SetOrigin, "setting an original topic"},

		{http.MethodGet, "/api/v1/messages", read, permission{auth.Viewer, someTopics}, h.lists.Search, "search"},
		{http.MethodGet, "/api/v1/messages/facets", read, permission{auth.Viewer, someTopics}, h.facets.Get, "facets"},
		{http.MethodGet, "/api/v1/export", stream, permission{auth.Viewer, someTopics}, h.exports.Get, "an export"},
		{http.MethodGet, "/api/v1/archive", read, permission{auth.Viewer, someTopics}, h.lists.SearchArchive, "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}", read, permission{auth.Viewer, oneArchived}, h.archived.Get, "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}/payload", read, permission{auth.Viewer, oneArchived}, h.archivedPayloads.Get, "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}/schema", read, permission{auth.Viewer, oneArchived}, h.archivedSchemas.Get, "the archive"},
		{http.MethodGet, "/api/v1/archive/{id}/history", read, permission{auth.Viewer, oneArchived}, h.archivedHistories.Get, "the archive"},
		{http.MethodDelete, "/api/v1/archive/{id}", change, permission{auth.Admin, oneArchived}, h.changes.Erase, "the archive"},
		{http.MethodPost, "/api/v1/archive/{id}/restore", change, permission{auth.Operator, oneArchived}, h.changes.Restore, "the archive"},

		{http.MethodGet, "/api/v1/quarantine", read, permission{auth.Viewer, someTopics}, h.quarantine.List, "the quarantine"},
		{http.MethodPost, "/api/v1/quarantine/{id}/retry", change, permission{auth.Operator, oneQuarantined}, h.quarantine.Retry, "the quarantine"},
		{http.MethodDelete, "/api/v1/quarantine/{id}", change, permission{auth.Admin, oneQuarantined}, h.quarantine.Delete, "the quarantine"},

		{http.MethodGet, "/api/v1/topics", read, permission{auth.Viewer, someTopics}, h.topics.List, "the list of topics"},
		{http.MethodGet, "/api/v1/topics/{topic}", read, permission{auth.Viewer, oneTopic}, h.topics.Get, "a topic"},
		{http.MethodGet, "/api/v1/share-groups", read, permission{auth.Viewer, someTopics}, h.shareGroups.List, "the list of share groups"},
		{http.MethodGet, "/api/v1/activity", read, permission{auth.Viewer, someTopics}, h.activity.Get, "the number of arrivals"},
		{http.MethodGet, "/api/v1/groups", read, permission{auth.Viewer, someTopics}, h.errorGroups.List, "the list of error groups"},
		{http.MethodGet, "/api/v1/groups/{id}", read, permission{auth.Viewer, oneErrorGroup}, h.errorGroups.Get, "an error group"},
		{http.MethodPatch, "/api/v1/groups/{id}", change, permission{auth.Operator, oneErrorGroup}, h.errorGroups.Annotate, "an error group"},
		{http.MethodGet, "/api/v1/mappings", read, permission{auth.Viewer, everything}, h.mappings.Get, "the topic mapping"},
		{http.MethodPut, "/api/v1/mappings", work, permission{auth.Admin, everything}, h.mappings.Replace, "the topic mapping"},
		{http.MethodGet, "/api/v1/redirects", read, permission{auth.Viewer, someTopics}, h.redirects.List, "the list of redirects"},
		{http.MethodPut, "/api/v1/redirects/{topic}", work, permission{auth.Admin, namedTopic}, h.redirects.Replace, "a redirect"},
		{http.MethodDelete, "/api/v1/redirects/{topic}", work, permission{auth.Admin, namedTopic}, h.redirects.Delete, "a redirect"},

		{http.MethodGet, "/api/v1/redrives", read, permission{auth.Viewer, someTopics}, h.redrives.List, "the list of redrives"},
		{http.MethodPost, "/api/v1/redrives", work, permission{auth.Operator, someTopics}, h.redrives.Create, "a redrive of a selection"},
		{http.MethodGet, "/api/v1/redrives/{id}", read, permission{auth.Viewer, oneRedrive}, h.redrives.Get, everyStore},
		{http.MethodGet, "/api/v1/redrives/{id}/items", read, permission{auth.Viewer, oneRedrive}, h.redrives.Items, "the list of a redrive's messages"},
		{http.MethodGet, "/api/v1/redrives/{id}/errors", read, permission{auth.Viewer, oneRedrive}, h.redrives.Errors, "the errors of a redrive's messages"},
		{http.MethodGet, "/api/v1/redrives/{id}/overlaps", read, permission{auth.Viewer, oneRedrive}, h.redrives.Overlaps, "a comparison of redrives"},
		{http.MethodPost, "/api/v1/redrives/{id}/pause", change, permission{auth.Operator, oneRedrive}, h.redrives.Pause, everyStore},
		{http.MethodPost, "/api/v1/redrives/{id}/resume", change, permission{auth.Operator, oneRedrive}, h.redrives.Resume, everyStore},
		{http.MethodPost, "/api/v1/redrives/{id}/continue", change, permission{auth.Operator, oneRedrive}, h.redrives.Continue, everyStore},
		{http.MethodPost, "/api/v1/redrives/{id}/cancel", change, permission{auth.Operator, oneRedrive}, h.redrives.Cancel, everyStore},

		{http.MethodGet, "/api/v1/views", read, permission{auth.Viewer, someTopics}, h.views.List, "saved views"},
		{http.MethodPut, "/api/v1/views/{name}", change, permission{auth.Viewer, someTopics}, h.views.Put, "saved views"},
		{http.MethodDelete, "/api/v1/views/{name}", change, permission{auth.Viewer, someTopics}, h.views.Delete, "saved views"},

		{http.MethodGet, "/api/v1/audit", read, permission{auth.Viewer, someTopics}, h.audit.List, "the audit trail"},
		{http.MethodGet, "/api/v1/session", read, permission{"", self}, h.session.Get, everyStore},
	}
}
