package api

import (
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
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

// TestMarks: the API answers a change with a mark (DLQ-Read-After). The console sends this mark with each later request
// of the same page, and through a cookie with the requests of the browser's next pages. A cookie whose value is no mark
// is ignored.
func TestMarks(t *testing.T) {
	t.Parallel()
	var sent []string
	c := Client{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get(readAfter))
		if r.Method == http.MethodPost {
			w.Header().Set(readAfter, "16/B374D848")
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	page := func(cookie string) (*httptest.ResponseRecorder, *http.Request) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: readAfterCookie, Value: cookie})
		}
		return w, WithMarks(w, r)
	}
	w, r := page("1/A")
	check.NoError(t, c.Get(r, "/api/v1/messages", nil, nil))
	check.NoError(t, c.Send(r, http.MethodPost, "/api/v1/x", nil, nil))
	check.NoError(t, c.Get(r, "/api/v1/messages", nil, nil))
	check.Equal(t, sent, []string{"1/A", "1/A", "16/B374D848"}, "marks that were sent")
	cookies := w.Result().Cookies()
	check.Require(t, len(cookies) == 1, "cookies %v, want one", cookies)
	check.Equal(t, cookies[0].Value, "16/B374D848", "cookie")

	sent = nil
	for _, forged := range []string{"x", "01/A", "1/a"} {
		_, r := page(forged)
		check.NoError(t, c.Get(r, "/api/v1/messages", nil, nil))
	}
	check.Equal(t, sent, []string{"", "", ""}, "marks of forged cookies")
}

// TestMarkWithoutTLS: a browser sends the mark of a change with its next request, also over a connection without TLS.
func TestMarkWithoutTLS(t *testing.T) {
	t.Parallel()
	var sent []string
	c := Client{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get(readAfter))
		if r.Method == http.MethodPost {
			w.Header().Set(readAfter, "16/B374D848")
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = WithMarks(w, r)
		check.NoError(t, c.Send(r, r.Method, "/api/v1/messages", nil, nil))
	}))
	defer server.Close()
	// The browser gets the address 10.1.2.3, and every connection goes to the test server. The test server's own
	// address is a loopback address, which browsers and Go's cookie jar treat like TLS.
	to := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	defer to.CloseIdleConnections()
	browser := http.Client{Jar: check.Must(cookiejar.New(nil))(t), Transport: to}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		r := check.Must(http.NewRequestWithContext(t.Context(), method, "http://10.1.2.3:8080/", http.NoBody))(t)
		res, err := browser.Do(r)
		check.NoError(t, err)
		check.NoError(t, res.Body.Close())
	}
	check.Equal(t, sent, []string{"", "16/B374D848"}, "marks that the API got")
}
