package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

// Without a database no page says that there are no messages: each page says why it does not know them.
func TestPagesWithoutADatabaseSayWhy(t *testing.T) {
	t.Parallel()
	store := memory.New(time.Now)
	m := entity.NewMessage("orders", "no such customer", time.Now())
	store.Insert(m)
	cfg := rest.DefaultConfig()
	cfg.Hosts = []string{"example.com"} // httptest.NewRequest sends this host name
	site := withPages(t, rest.New(cfg, stores.Fill[rest.Stores](store), struct{ rest.Redriver }{}, nil, prometheus.NewRegistry(), zap.NewNop()))
	for _, path := range []string{"/", "/messages", "/archive", "/topics", "/topics/mapping", "/quarantine", "/groups", "/redrives", "/audit"} {
		w := ask(t, site, http.MethodGet, path, "")
		page := w.Body.String()
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(page, "needs a database, and none is configured") {
			t.Errorf("%s got %d without the reason, want 503 and that it needs a database", path, w.Code)
		}
		for _, wrong := range []string{"No message has arrived yet", "Try again later", "at the moment"} {
			if strings.Contains(page, wrong) {
				t.Errorf("%s says %q", path, wrong)
			}
		}
	}
	w := ask(t, site, http.MethodGet, "/messages/"+m.ID.String(), "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "no such customer") {
		t.Errorf("the page of a message got %d, want 200 with its error message", w.Code)
	}
}
