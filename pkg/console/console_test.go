package console

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
)

// noon is when tests look at pages.
var noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

// anAPI answers what tests say, by method and path, and notes what it was asked.
type anAPI struct {
	t       *testing.T
	mu      sync.Mutex
	answers map[string]any // by "GET /api/v1/topics": what is answered as JSON, or an http.HandlerFunc
	asked   []*http.Request
	bodies  []string
}

// newAPI is an API whose session is an admin's, as with mode none.
func newAPI(t *testing.T) *anAPI {
	t.Helper()
	a := &anAPI{t: t, answers: map[string]any{}}
	a.says("GET /api/v1/session", viewer{Name: "anonymous", Mode: "none", Grants: []grant{{"admin", []string{"*"}}, {"unmask", []string{"*"}}}})
	return a
}

func (a *anAPI) says(route string, answer any) *anAPI { a.answers[route] = answer; return a }

// raw is an answer in JSON, as it is.
type raw string

// refusal is an answer of an error.
type refusal struct {
	status        int
	code, message string
	details       []map[string]any
}

func (a *anAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body strings.Builder
	if r.Body != nil {
		_, _ = readAll(&body, r)
	}
	a.mu.Lock()
	a.asked, a.bodies = append(a.asked, r), append(a.bodies, body.String())
	a.mu.Unlock()
	switch answer := a.answers[r.Method+" "+r.URL.Path].(type) {
	case nil:
		a.t.Errorf("the page asked for %s %s, which the test does not know", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	case http.HandlerFunc:
		answer(w, r)
	case raw:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	case refusal:
		w.WriteHeader(answer.status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
			"code": answer.code, "message": answer.message, "request_id": "req_abc123def456", "details": answer.details,
		}})
	default:
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// wasAsked returns the requests of a route, and their bodies.
func (a *anAPI) wasAsked(route string) (requests []*http.Request, bodies []string) {
	for i, r := range a.asked {
		if r.Method+" "+r.URL.Path == route {
			requests, bodies = append(requests, r), append(bodies, a.bodies[i])
		}
	}
	return requests, bodies
}

// site serves the console of an API as the program does.
func site(t *testing.T, a http.Handler, options ...Option) http.Handler {
	t.Helper()
	return siteWith(t, DefaultConfig(), a, options...)
}

func siteWith(t *testing.T, cfg Config, a http.Handler, options ...Option) http.Handler {
	t.Helper()
	options = append([]Option{WithClock(func() time.Time { return noon })}, options...)
	c, err := New(cfg, a, zap.NewNop(), options...)
	if err != nil {
		t.Fatal(err)
	}
	router := http.NewServeMux()
	for _, route := range c.Routes() {
		pattern := route.Path
		if pattern == "/" {
			pattern = "/{$}"
		}
		router.Handle(route.Method+" "+pattern, route.Handler)
	}
	return router
}

// get asks for a page.
func get(t *testing.T, site http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// post sends a form.
func post(t *testing.T, site http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

func readAll(b *strings.Builder, r *http.Request) (int64, error) { return io.Copy(b, r.Body) }
