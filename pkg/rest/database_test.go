package rest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// withoutDatabase returns a server over the store in memory.
func withoutDatabase(messages ...entity.Message) *fixture {
	store := memory.New(func() time.Time { return noon })
	for _, m := range messages {
		store.Insert(m)
	}
	f := newFixture(messages...)
	f.stores = stores.Fill[Stores](store)
	return f
}

func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	f := withoutDatabase(message(idA)).open()
	for _, rt := range f.server.apiRoutes() {
		body := ""
		if rt.method != http.MethodGet && rt.method != http.MethodDelete {
			body = "{}"
		}
		w := f.do(rt.method, strings.NewReplacer("{topic}", "orders", "{id}", idA.String()).Replace(rt.path), body)
		feature := matrix[rt.method+" "+rt.path].feature
		if feature == "" {
			if w.Code == http.StatusServiceUnavailable {
				t.Errorf("%s got 503 %s, want an answer", w.asked, w.Body)
			}
			continue
		}
		wantAnswer(t, w, http.StatusServiceUnavailable, errorJSON(respond.CodeUnavailable, feature+
			" needs a database, and none is configured: messages are in memory (see database in the configuration)",
			`[{"field":"database","reason":"is not configured"}]`))
	}
}

func TestWithoutADatabase_TheReasonIsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	f := withoutDatabase(message(idA)).guarded(person("ana", "orders.*", auth.Viewer))
	wantEnvelope(t, f.do("GET", "/api/v1/audit", ""), http.StatusUnauthorized)
	wantEnvelope(t, f.by("ana", "POST", redrivesPath, "{}"), http.StatusForbidden)
	wantStatus(t, f.by("ana", "GET", redrivesPath, ""), 503, `"the list of redrives needs a database`)
	wantStatus(t, f.by("ana", "GET", "/api/v1/dlq/orders.events.v1", ""), 503, `"a list for roles on some topics only needs a database`)
}

func TestWithoutADatabase_KeysStayFree(t *testing.T) {
	t.Parallel()
	f := withoutDatabase().open()
	for range 2 {
		wantEnvelope(t, f.do("POST", redrivesPath, `{"action":"retry"}`, keyHeader, "k1"), http.StatusServiceUnavailable)
	}
	wantStatus(t, f.do("POST", "/api/v1/dlq/orders/retry-all", "", keyHeader, "k1"), http.StatusOK)
}

func TestWithoutADatabase_HistoryHasNoChanges(t *testing.T) {
	t.Parallel()
	f := withoutDatabase(message(idA)).open()
	wantAnswer(t, f.do("GET", oneA+"/history", ""), http.StatusOK,
		`{"id":"`+idA.String()+`","attempts":[],"changes":[],"lineage":[]}`)
}
