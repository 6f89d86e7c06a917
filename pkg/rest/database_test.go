package rest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// needing are the routes that need a database, and what for.
var needing = map[string]string{
	"POST /api/v1/dlq/messages/{id}/origin": "setting an original topic",

	"GET /api/v1/messages":              "search",
	"GET /api/v1/export":                "an export",
	"GET /api/v1/archive":               "the archive",
	"GET /api/v1/archive/{id}":          "the archive",
	"GET /api/v1/archive/{id}/payload":  "the archive",
	"GET /api/v1/archive/{id}/history":  "the archive",
	"POST /api/v1/archive/{id}/restore": "the archive",

	"GET /api/v1/quarantine":             "the quarantine",
	"POST /api/v1/quarantine/{id}/retry": "the quarantine",
	"DELETE /api/v1/quarantine/{id}":     "the quarantine",

	"GET /api/v1/topics":        "the list of topics",
	"GET /api/v1/activity":      "the number of arrivals",
	"GET /api/v1/groups":        "the list of error groups",
	"GET /api/v1/groups/{id}":   "an error group",
	"PATCH /api/v1/groups/{id}": "an error group",
	"GET /api/v1/mappings":      "the topic mapping",
	"PUT /api/v1/mappings":      "the topic mapping",

	"GET /api/v1/redrives":            "the list of redrives",
	"POST /api/v1/redrives":           "a redrive of a selection",
	"GET /api/v1/redrives/{id}/items": "the list of a redrive's messages",
	"GET /api/v1/audit":               "the audit trail",
}

// withoutDatabase is a server over the store in memory.
func withoutDatabase(messages ...entity.Message) *fixture {
	store := memory.New(func() time.Time { return noon })
	for _, m := range messages {
		store.Insert(m)
	}
	f := newFixture(messages...)
	f.store = store
	return f
}

func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	f := withoutDatabase(message(idA)).open()
	routes := map[string]bool{}
	for _, rt := range f.server.apiRoutes() {
		name := rt.method + " " + rt.path
		routes[name] = true
		body := ""
		if rt.method != http.MethodGet && rt.method != http.MethodDelete {
			body = "{}"
		}
		target := strings.NewReplacer("{topic}", "orders", "{id}", idA.String()).Replace(rt.path)
		w := f.do(rt.method, target, body)
		feature, needs := needing[name]
		if !needs {
			if w.Code == http.StatusServiceUnavailable {
				t.Errorf("%s got 503 %s, want an answer", name, w.Body)
			}
			continue
		}
		want := feature + " needs a database, and none is configured: messages are in memory (see database in the configuration)"
		got := wantEnvelope(t, w, http.StatusServiceUnavailable, codeUnavailable)
		if got.Message != want || len(got.Details) != 1 || got.Details[0] != (detail{"database", "is not configured"}) {
			t.Errorf("%s says %q, %v, want %q", name, got.Message, got.Details, want)
		}
	}
	for name := range needing {
		if !routes[name] {
			t.Errorf("there is no route %s", name)
		}
	}
}

func TestWithoutADatabase_TheReasonIsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	f := withoutDatabase(message(idA)).guarded(person("ana", "orders.*", auth.Viewer))
	wantEnvelope(t, f.do("GET", "/api/v1/audit", ""), http.StatusUnauthorized, codeUnauthenticated)
	wantEnvelope(t, f.by("ana", "POST", "/api/v1/redrives", "{}"), http.StatusForbidden, codeForbidden)
	for target, feature := range map[string]string{
		"/api/v1/redrives":             "the list of redrives",
		"/api/v1/dlq/orders.events.v1": "a list for roles on some topics only",
	} {
		e := wantEnvelope(t, f.by("ana", "GET", target, ""), http.StatusServiceUnavailable, codeUnavailable)
		if !strings.HasPrefix(e.Message, feature+" needs a database") {
			t.Errorf("%s says %q, want that %s needs a database", target, e.Message, feature)
		}
	}
}

func TestWithoutADatabase_KeysStayFree(t *testing.T) {
	t.Parallel()
	f := withoutDatabase().open()
	for range 2 {
		w := f.do("POST", "/api/v1/redrives", `{"action":"retry"}`, keyHeader, "k1")
		wantEnvelope(t, w, http.StatusServiceUnavailable, codeUnavailable)
	}
	if w := f.do("POST", "/api/v1/dlq/orders/retry-all", "", keyHeader, "k1"); w.Code != http.StatusOK {
		t.Errorf("another request with the key got %d %s, want 200", w.Code, w.Body)
	}
}

func TestWithoutADatabase_HistoryHasNoChanges(t *testing.T) {
	t.Parallel()
	f := withoutDatabase(message(idA)).open()
	wantAnswer(t, f.do("GET", "/api/v1/dlq/messages/"+idA.String()+"/history", ""), http.StatusOK,
		`{"id":"`+idA.String()+`","attempts":[],"changes":[],"lineage":[]}`)
}
