package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

func TestAnswersAreNotReadWithoutEnd(t *testing.T) {
	t.Parallel()
	taken := 0
	chunk := strings.Repeat(" ", 1<<20)
	a := consoletest.NewAPI(t).Says("GET /api/v1/audit", consoletest.Sends(chunk, 100, &taken))
	w := consoletest.Get(t, consoletest.Site(t, a), "/audit")
	if taken > api.MaxAnswer || w.Code < http.StatusBadRequest {
		t.Errorf("got status %d after %d bytes, want an error after %d", w.Code, taken, api.MaxAnswer)
	}
	taken = 0
	a.Says("GET /api/v1/audit", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		consoletest.Sends(chunk, 100, &taken)(w, r)
	}))
	if consoletest.Get(t, consoletest.Site(t, a), "/audit"); taken > api.MaxProblem {
		t.Errorf("got %d bytes of an error read, want at most %d", taken, api.MaxProblem)
	}
}
