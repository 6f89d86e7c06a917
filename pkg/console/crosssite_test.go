package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

// program serves console and API together, as cmd/api does, and returns a token that the API accepts.
func program(t *testing.T) (site http.Handler, token string) {
	t.Helper()
	text, hash := auth.NewToken()
	authenticator, err := auth.New(auth.Config{Mode: auth.ModeToken, Tokens: []auth.TokenConfig{{
		Name: "ana", SHA256: hash, ExpiresAt: time.Now().Add(time.Hour).Format(time.RFC3339),
		Grants: []auth.GrantConfig{{Role: auth.Admin, Topics: []string{"*"}}},
	}}}, zap.NewNop())
	check.NoError(t, err)
	store := fake.New(time.Now)
	parts := stores.Fill[rest.Stores](store)
	parts.Database = new(stores.Fill[rest.Database](store))
	server := rest.New(rest.DefaultConfig(), parts, struct{ rest.Redriver }{}, nil, prometheus.NewRegistry(), zap.NewNop(),
		rest.WithAuth(authenticator, auth.ModeToken))
	return withPages(t, server, console.WithAuthentication()), text.Reveal()
}

// withPages serves the console together with its API server.
func withPages(t *testing.T, server *rest.Server, options ...console.Option) http.Handler {
	t.Helper()
	server.SetReady()
	pages, err := console.New(console.DefaultConfig(), server.Handler(), zap.NewNop(), options...)
	check.NoError(t, err)
	for _, route := range pages.Routes() {
		server.Mount(route.Method, route.Path, route.Handler)
	}
	server.MountMissing(pages.Missing(http.StatusNotFound), pages.Missing(http.StatusMethodNotAllowed))
	return server.Handler()
}

func ask(t *testing.T, site http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

// A signed-in browser also sends its cookies with requests that pages of other sites cause. Such requests must not
// change anything, and must not sign the user in or out.
func TestPagesOfOtherSitesCanDoNothing(t *testing.T) {
	t.Parallel()
	site, token := program(t)
	form := url.Values{"token": {token}, "theme": {"dark"}}.Encode()
	session := "__Host-dlq-session=1:id:" + token
	for name, from := range map[string][]string{
		"OtherSite":           {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"NeighbouringSite":    {"Sec-Fetch-Site", "same-site", "Origin", "https://other.example.com"},
		"OldBrowser":          {"Origin", "https://evil.example"},
		"OriginThatIsNoneNow": {"Origin", "null"},
	} {
		for _, path := range []string{"/sign-in", "/sign-out", "/theme"} {
			for _, cookies := range []string{"", session} {
				w := ask(t, site, http.MethodPost, path, form, append([]string{"Cookie", cookies}, from...)...)
				if w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
					t.Errorf("%s: POST %s got %d and sets %v, want 403 and nothing", name, path, w.Code, w.Result().Cookies())
				}
			}
		}
	}
	for name, from := range map[string][]string{
		"OurOwnPage": {"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com"},
		"OldBrowser": {"Origin", "http://example.com"},
	} {
		w := ask(t, site, http.MethodPost, "/sign-in", form, from...)
		if w.Code != http.StatusSeeOther || !signedIn(w, token) {
			t.Errorf("%s: got %d and %v, want the session", name, w.Code, w.Header().Values("Set-Cookie"))
		}
	}
}

// Only the console uses the session: clients of the API send their own credentials, so no page can call the API in a
// browser's name.
func TestTheAPITakesNoCookies(t *testing.T) {
	t.Parallel()
	site, token := program(t)
	for header, want := range map[[2]string]int{
		{"Cookie", "__Host-dlq-session=1:id:" + token}: http.StatusUnauthorized, {"Authorization", "Bearer " + token}: http.StatusOK,
	} {
		if w := ask(t, site, http.MethodGet, "/api/v1/session", "", header[:]...); w.Code != want {
			t.Errorf("with %s: got %d, want %d", header[0], w.Code, want)
		}
	}
}

func TestTheConsoleKnowsWhomTheAPIKnows(t *testing.T) {
	t.Parallel()
	site, token := program(t)
	other, _ := auth.NewToken()
	good, bad := "__Host-dlq-session=1:id:"+token, "__Host-dlq-session=1:id:"+other.Reveal()
	for name, c := range map[string]struct {
		headers []string
		known   bool
	}{
		"Nobody":                 {nil, false},
		"Cookie":                 {[]string{"Cookie", good}, true},
		"CookieThatCountsNot":    {[]string{"Cookie", bad}, false},
		"Header":                 {[]string{"Authorization", "Bearer " + token}, true},
		"HeaderBesideAWrongOne":  {[]string{"Authorization", "Bearer " + token, "Cookie", bad}, true},
		"WrongHeaderBesideAGood": {[]string{"Authorization", "Bearer " + other.Reveal(), "Cookie", good}, false},
		"TwoHeaders":             {[]string{"Authorization", "Bearer " + token, "Authorization", "Bearer " + token, "Cookie", good}, false},
	} {
		w := ask(t, site, http.MethodGet, "/", "", c.headers...)
		if location := w.Header().Get("Location"); (location == "/sign-in?return=%2F") == c.known || c.known && w.Code != http.StatusOK {
			t.Errorf("%s: got %d to %q, want the page: %t", name, w.Code, location, c.known)
		}
	}
}

// signedIn reports whether an answer sets a session with the token.
func signedIn(w *httptest.ResponseRecorder, token string) bool {
	first := w.Result().Cookies()[0]
	parts := strings.Split(first.Value, ":")
	return first.Name == "__Host-dlq-session" && len(parts) == 3 && parts[0] == "1" && len(parts[1]) >= 22 && parts[2] == token
}
