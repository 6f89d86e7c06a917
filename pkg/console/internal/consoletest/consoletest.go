// Package consoletest serves the console with an API whose answers a test configures, and checks pages.
package consoletest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/html"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Noon is the current time in tests.
var Noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

// Answers holds the answers of an API, by method and path such as "GET /api/v1/topics". An answer is a value that is
// sent as JSON, or an http.HandlerFunc.
type Answers map[string]any

// API is an API with configured answers, by method and path. It records the requests.
type API struct {
	Requests []*http.Request
	Bodies   []string // bodies of the requests

	t       *testing.T
	mu      sync.Mutex
	answers Answers
}

// NewAPI returns an API whose session has the roles of an administrator. An API without authentication has the same
// session.
func NewAPI(t *testing.T) *API {
	t.Helper()
	a := &API{t: t, answers: Answers{"GET /api/v1/views": Raw(`{"views": []}`)}}
	return a.As(session.Viewer{Name: "anonymous", Mode: "none", Grants: []session.Grant{{Role: "admin", Topics: []string{"*"}}, {Role: "unmask", Topics: []string{"*"}}}})
}

// As sets the viewer that the API's session route returns.
func (a *API) As(v session.Viewer) *API { return a.Says("GET /api/v1/session", v) }

// WithRole returns the session of a viewer with one role.
func WithRole(role string, topics ...string) session.Viewer {
	return session.Viewer{Name: "eve", Mode: "token", Grants: []session.Grant{{Role: role, Topics: topics}}}
}

// ReadOnly is the session of a viewer without other roles.
var ReadOnly = WithRole("viewer", "*")

// Says sets the answer of a route.
func (a *API) Says(route string, answer any) *API { a.answers[route] = answer; return a }

// Raw is an answer in JSON, sent unchanged.
type Raw string

// refusal is an error response.
type refusal struct {
	status        int
	code, message string
	details       []map[string]any
}

// Refuse returns an error response.
func Refuse(status int, code, message string, details []map[string]any) any {
	return refusal{status, code, message, details}
}

// ServeHTTP answers as configured. A request for which the test has configured no answer fails the test.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.Requests, a.Bodies = append(a.Requests, r), append(a.Bodies, string(body))
	a.mu.Unlock()
	switch answer := a.answers[r.Method+" "+r.URL.Path].(type) {
	case nil:
		a.t.Errorf("the page asked for %s %s, which the test does not know", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	case http.HandlerFunc:
		answer(w, r)
	case Raw:
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

// Asked returns the requests to a route, and their bodies.
func (a *API) Asked(route string) (requests []*http.Request, bodies []string) {
	for i, r := range a.Requests {
		if r.Method+" "+r.URL.Path == route {
			requests, bodies = append(requests, r), append(bodies, a.Bodies[i])
		}
	}
	return requests, bodies
}

// Site serves the console with the API a and the default configuration.
func Site(t *testing.T, a http.Handler, options ...console.Option) http.Handler {
	t.Helper()
	return SiteWith(t, console.DefaultConfig(), a, options...)
}

// SiteWith serves the console like Site, with another configuration.
func SiteWith(t *testing.T, cfg console.Config, a http.Handler, options ...console.Option) http.Handler {
	t.Helper()
	options = append([]console.Option{console.WithClock(func() time.Time { return Noon })}, options...)
	c, err := console.New(cfg, a, zap.NewNop(), options...)
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

// Send sends a request with a form; nil sends no form. headers alternates names and values.
func Send(t *testing.T, site http.Handler, method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
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

// Follow sends a form. If the answer redirects to a page with a draft, it requests that page, as a browser does.
func Follow(t *testing.T, site http.Handler, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := Send(t, site, http.MethodPost, path, form, headers...)
	if to, err := url.Parse(w.Header().Get("Location")); err != nil || !to.Query().Has("draft") {
		return w
	}
	var jar []string
	for _, c := range w.Result().Cookies() {
		jar = append(jar, c.Name+"="+c.Value)
	}
	return Get(t, site, w.Header().Get("Location"), append(headers, "Cookie", strings.Join(jar, "; "))...)
}

// Get requests a page.
func Get(t *testing.T, site http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return Send(t, site, http.MethodGet, path, nil, headers...)
}

// Post sends a form and follows a redirect like Follow.
func Post(t *testing.T, site http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	return Follow(t, site, path, form)
}

// GetPart requests a part of a page as the page's script does.
func GetPart(t *testing.T, site http.Handler, path, part string) string {
	t.Helper()
	return Get(t, site, path, "HX-Request", "true", "HX-Target", part).Body.String()
}

// Look describes a page to request, with texts that its markup must and must not contain.
type Look struct {
	Says       Answers // answers of the API that replace those of the test
	Path       string
	Status     int // expected status; 0 means 200
	Has, Lacks []string
}

// Shows requests each page, and checks its texts. It also checks that no page contains markup from the API's data.
func Shows(t *testing.T, api func(*testing.T) *API, looks map[string]Look) {
	t.Helper()
	for name, c := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := api(t)
			for route, answer := range c.Says {
				a.Says(route, answer)
			}
			w := Get(t, Site(t, a), c.Path)
			WantSays(t, c.Path, w, max(c.Status, http.StatusOK), c.Has...)
			MustNotHave(t, w.Body.String(), c.Lacks...)
			WantNoMarkup(t, w.Body.String())
		})
	}
}

// WantSays checks the status of an answer, and that it contains each part.
func WantSays(t *testing.T, what string, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	check.True(t, w.Code == status, "%s: got status %d, want %d", what, w.Code, status)
	MustHave(t, w.Body.String(), parts...)
}

// MustHave checks that a page contains each text.
func MustHave(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(body, w) {
			t.Errorf("got a page without %q:\n%s", w, body)
		}
	}
}

// MustNotHave checks that a page contains none of the texts.
func MustNotHave(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if strings.Contains(body, w) {
			t.Errorf("got a page with %q, want it without", w)
		}
	}
}

// WantTo checks that an answer redirects to a location.
func WantTo(t *testing.T, what string, w *httptest.ResponseRecorder, location string) {
	t.Helper()
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != location {
		t.Errorf("%s: got %d to %q, want 303 to %q", what, w.Code, got, location)
	}
}

// WantDone checks that a change redirects to an address, and that the page there will show the sentence of view.Done
// for the code.
func WantDone(t *testing.T, what string, w *httptest.ResponseRecorder, code, address string) {
	t.Helper()
	WantTo(t, what, w, address)
	path, _, _ := strings.Cut(address, "?")
	var got string
	for _, cookie := range w.Result().Cookies() {
		if cookie.Name == view.DoneCookie {
			got = cookie.Value
		}
	}
	if want := code + "." + format.Digest(path); got != want || view.Done[code] == "" {
		t.Errorf("%s: got the sentence %q, want %q", what, got, want)
	}
}

// WantAsked checks the last query of a route.
func WantAsked(t *testing.T, a *API, route, query string) {
	t.Helper()
	if got := LastAsked(t, a, route).Encode(); got != query {
		t.Errorf("got %s asked with %s, want %s", route, got, query)
	}
}

// LastAsked returns the last query of a route.
func LastAsked(t *testing.T, a *API, route string) url.Values {
	t.Helper()
	asked, _ := a.Asked(route)
	if len(asked) == 0 {
		t.Fatalf("got %s never asked, want it", route)
	}
	return asked[len(asked)-1].URL.Query()
}

// WantSent checks that a route was requested once, with this body and this Idempotency-Key; "" means without a key.
func WantSent(t *testing.T, a *API, route, body, key string) {
	t.Helper()
	requests, bodies := a.Asked(route)
	if len(bodies) != 1 || bodies[0] != body || requests[0].Header.Get("Idempotency-Key") != key {
		t.Errorf("got %s sent %q, want %s once, with the key %q", route, bodies, body, key)
	}
}

// Hostile is a text that contains markup.
const Hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

// Quoted replaces HOSTILE in JSON by the hostile text.
func Quoted(json string) Raw {
	return Raw(strings.ReplaceAll(json, "HOSTILE", strings.ReplaceAll(Hostile, `"`, `\"`)))
}

// WantNoMarkup parses a page as a browser does. It checks that the page has no element or attribute that hostile data
// could add: img, an inline script, an event handler, a style, or a javascript address.
func WantNoMarkup(t *testing.T, body string) {
	t.Helper()
	elements, _ := Elements(t, body)
	for _, n := range elements {
		if _, linked := Attribute(n, "src"); n.Data == "img" || n.Data == "script" && !linked {
			t.Errorf("got an element %s out of data", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key != "value" && strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
				t.Errorf("got %s=%q on %s", a.Key, a.Val, n.Data)
			}
		}
	}
}

// Elements parses a page into its elements, and its text with single spaces.
func Elements(t *testing.T, body string) (list []*html.Node, said string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	check.NoError(t, err)
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			list = append(list, n)
		}
	}
	return list, TextOf(doc)
}

// TextOf returns the text of an element with single spaces.
func TextOf(n *html.Node) string {
	var all []string
	for child := range n.Descendants() {
		if child.Type == html.TextNode {
			all = append(all, strings.Fields(child.Data)...)
		}
	}
	return strings.Join(all, " ")
}

// Attribute returns the value of an attribute.
func Attribute(n *html.Node, name string) (value string, there bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// Readable returns the text of a page.
func Readable(t *testing.T, body string) string {
	t.Helper()
	_, said := Elements(t, body)
	return said
}

// Allocated returns the number of bytes that a call allocates, including bytes that were freed again. It counts the
// allocations of the whole program, so tests that use it must not run in parallel.
func Allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Nested returns JSON that is small, but becomes large when it is formatted.
func Nested(depth, values int) string {
	return strings.Repeat("[", depth) + strings.Repeat("1,", values) + "1" + strings.Repeat("]", depth)
}

// Sends returns a handler that answers with n times chunk, and adds the number of accepted bytes to taken.
func Sends(chunk string, n int, taken *int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for range n {
			written, err := w.Write([]byte(chunk))
			if *taken += written; err != nil {
				return
			}
		}
	}
}
