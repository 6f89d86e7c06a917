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
	"golang.org/x/net/html"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// noon is the current time in tests.
var noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

// answers holds the answers of an API, by "GET /api/v1/topics": a value that is sent as JSON, or an http.HandlerFunc.
type answers map[string]any

// anAPI is an API with configured answers, by method and path. It records the requests.
type anAPI struct {
	t       *testing.T
	mu      sync.Mutex
	answers answers
	asked   []*http.Request
	bodies  []string
}

// newAPI returns an API whose session is an admin's, as in mode none.
func newAPI(t *testing.T) *anAPI {
	t.Helper()
	a := &anAPI{t: t, answers: answers{}}
	return a.of(viewer{Name: "anonymous", Mode: "none", Grants: []grant{{"admin", []string{"*"}}, {"unmask", []string{"*"}}}})
}

// of sets another session.
func (a *anAPI) of(v viewer) *anAPI { return a.says("GET /api/v1/session", v) }

// withRole returns the session of a viewer with one role.
func withRole(role string, topics ...string) viewer {
	return viewer{Name: "eve", Mode: "token", Grants: []grant{{role, topics}}}
}

// readOnly is the session of a viewer without other roles.
var readOnly = withRole("viewer", "*")

func (a *anAPI) says(route string, answer any) *anAPI { a.answers[route] = answer; return a }

// raw is an answer in JSON, sent unchanged.
type raw string

// refusal is an error response.
type refusal struct {
	status        int
	code, message string
	details       []map[string]any
}

func (a *anAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.asked, a.bodies = append(a.asked, r), append(a.bodies, string(body))
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

// wasAsked returns the requests to a route, and their bodies.
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
	check.NoError(t, err)
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

// send sends a form, or nil for none, with headers in pairs.
func send(t *testing.T, site http.Handler, method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, site http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, site, http.MethodGet, path, nil, headers...)
}

func post(t *testing.T, site http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, site, http.MethodPost, path, form)
}

// getPart requests a part of a page as the page's script does.
func getPart(t *testing.T, site http.Handler, path, part string) string {
	t.Helper()
	return get(t, site, path, "HX-Request", "true", "HX-Target", part).Body.String()
}

// look is a requested page, with texts that its markup must and must not contain.
type look struct {
	says       answers // override answers of the API
	path       string
	status     int // 0: 200
	has, lacks []string
}

// shows requests each page. Data must not become markup in any of them.
func shows(t *testing.T, api func(*testing.T) *anAPI, looks map[string]look) {
	t.Helper()
	for name, c := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := api(t)
			for route, answer := range c.says {
				a.says(route, answer)
			}
			w := get(t, site(t, a), c.path)
			wantSays(t, c.path, w, max(c.status, http.StatusOK), c.has...)
			mustNotHave(t, w.Body.String(), c.lacks...)
			wantNoMarkup(t, w.Body.String())
		})
	}
}

func wantSays(t *testing.T, what string, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	check.True(t, w.Code == status, "%s: got status %d, want %d", what, w.Code, status)
	mustHave(t, w.Body.String(), parts...)
}

func mustHave(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(body, w) {
			t.Errorf("got a page without %q:\n%s", w, body)
		}
	}
}

func mustNotHave(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if strings.Contains(body, w) {
			t.Errorf("got a page with %q, want it without", w)
		}
	}
}

func wantTo(t *testing.T, what string, w *httptest.ResponseRecorder, location string) {
	t.Helper()
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != location {
		t.Errorf("%s: got %d to %q, want 303 to %q", what, w.Code, got, location)
	}
}

// wantDone checks that a change redirects to an address whose page shows the sentence for code, once.
func wantDone(t *testing.T, what string, w *httptest.ResponseRecorder, code, address string) {
	t.Helper()
	wantTo(t, what, w, address)
	path, _, _ := strings.Cut(address, "?")
	var got string
	for _, cookie := range w.Result().Cookies() {
		if cookie.Name == doneCookie {
			got = cookie.Value
		}
	}
	if want := code + "." + digest(path); got != want || done[code] == "" {
		t.Errorf("%s: got the sentence %q, want %q", what, got, want)
	}
}

// wantAsked checks the last query of a route.
func wantAsked(t *testing.T, a *anAPI, route, query string) {
	t.Helper()
	if got := lastAsked(t, a, route).Encode(); got != query {
		t.Errorf("got %s asked with %s, want %s", route, got, query)
	}
}

func lastAsked(t *testing.T, a *anAPI, route string) url.Values {
	t.Helper()
	asked, _ := a.wasAsked(route)
	if len(asked) == 0 {
		t.Fatalf("got %s never asked, want it", route)
	}
	return asked[len(asked)-1].URL.Query()
}

// wantSent checks that a route was requested once, with a body and an Idempotency-Key, "" for none.
func wantSent(t *testing.T, a *anAPI, route, body, key string) {
	t.Helper()
	requests, bodies := a.wasAsked(route)
	if len(bodies) != 1 || bodies[0] != body || requests[0].Header.Get("Idempotency-Key") != key {
		t.Errorf("got %s sent %q, want %s once, with the key %q", route, bodies, body, key)
	}
}

// hostile is a text that contains markup.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

// quoted replaces HOSTILE in JSON by the hostile text.
func quoted(json string) raw {
	return raw(strings.ReplaceAll(json, "HOSTILE", strings.ReplaceAll(hostile, `"`, `\"`)))
}

// wantNoMarkup parses a page as a browser does, and checks that data became nothing but text.
func wantNoMarkup(t *testing.T, body string) {
	t.Helper()
	elements, _ := elementsOf(t, body)
	for _, n := range elements {
		if _, linked := attribute(n, "src"); n.Data == "img" || n.Data == "script" && !linked {
			t.Errorf("got an element %s out of data", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key != "value" && strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
				t.Errorf("got %s=%q on %s", a.Key, a.Val, n.Data)
			}
		}
	}
}

// elementsOf parses a page into its elements, and its text with single spaces.
func elementsOf(t *testing.T, body string) (list []*html.Node, said string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	check.NoError(t, err)
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			list = append(list, n)
		}
	}
	return list, textOf(doc)
}

func textOf(n *html.Node) string {
	var all []string
	for child := range n.Descendants() {
		if child.Type == html.TextNode {
			all = append(all, strings.Fields(child.Data)...)
		}
	}
	return strings.Join(all, " ")
}

func attribute(n *html.Node, name string) (value string, there bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// readable returns the text of a page.
func readable(t *testing.T, body string) string {
	t.Helper()
	_, said := elementsOf(t, body)
	return said
}
