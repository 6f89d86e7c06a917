package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The console passes the trace of a request on to the API, but none when the header occurs twice.
func TestInner_Traceparent(t *testing.T) {
	t.Parallel()
	for _, parents := range [][]string{nil, {"one"}, {"one", "two"}} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		for _, p := range parents {
			r.Header.Add("Traceparent", p)
		}
		r.Header.Set("Tracestate", "shop=1")
		req, err := inner(r, http.MethodGet, "/api/v1/topics", nil)
		check.NoError(t, err)
		want := ""
		if len(parents) == 1 {
			want = parents[0]
		}
		if got := req.Header.Get("Traceparent"); got != want || req.Header.Get("Tracestate") != "" {
			t.Errorf("of %q: got %q and tracestate %q, want %q and none", parents, got, req.Header.Get("Tracestate"), want)
		}
	}
}
