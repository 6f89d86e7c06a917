package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const anonymous = auth.Anonymous

// people are known by their names, which they send in place of a token.
type people map[string]auth.Principal

func (p people) Authenticate(_ context.Context, r *http.Request) (auth.Principal, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name == "nobody can tell" {
		return auth.Principal{}, fmt.Errorf("ask https://issuer.internal: %w", entity.ErrUnavailable)
	}
	found, known := p[name]
	if !known {
		return auth.Principal{}, fmt.Errorf("the token is unknown for a secret reason: %w", auth.ErrUnauthenticated)
	}
	return found, nil
}

// person is somebody with the roles on the topics; "*" is everything.
func person(name string, topics string, roles ...auth.Role) auth.Principal {
	p := auth.Principal{Name: name}
	for _, role := range roles {
		g := auth.Grant{Role: role, All: topics == "*"}
		if !g.All {
			patterns, err := entity.ParseTopicPatterns("topics", strings.Split(topics, ",")...)
			if err != nil {
				panic(err)
			}
			g.Topics = patterns
		}
		p.Grants = append(p.Grants, g)
	}
	return p
}

// guarded is the fixture, open, with an authenticator.
func (f *fixture) guarded(list ...auth.Principal) *fixture {
	known := people{}
	for _, p := range list {
		known[p.Name] = p
	}
	f.open()
	WithAuth(known, auth.ModeToken)(f.server)
	return f
}

// by sends a request as somebody.
func (f *fixture) by(name, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	return f.do(method, target, body, append(headers, "Authorization", "Bearer "+name)...)
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	f := newFixture(message(idA))
	f.logger = zap.New(core)
	f.guarded(person("ana", "orders.*", auth.Viewer))

	for _, target := range []string{"/api/v1/dlq/orders.dlq.v1", "/api/v1/session", "/api/v1/nothing", "/api/v2", "/%61pi/v1/session"} {
		w := f.do("GET", target, "")
		e := wantEnvelope(t, w, 401, codeUnauthenticated)
		if strings.Contains(e.Message, "secret") || len(e.Details) != 0 || w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("GET %s: got %+v, WWW-Authenticate %q, want nothing of the reason, and Bearer", target, e, w.Header().Get("WWW-Authenticate"))
		}
	}
	wantEnvelope(t, f.do("PATCH", "/api/v1/session", ""), 401, codeUnauthenticated) // nor which methods there are
	if got := logs.FilterMessage("request was not authenticated").Len(); got != 6 {
		t.Errorf("logged %d refusals, want 6", got)
	}
	wantEnvelope(t, f.by("ana", "GET", "/api/v1/nothing", ""), 404, codeNotFound)
	wantEnvelope(t, f.by("nobody can tell", "GET", "/api/v1/session", ""), 503, codeUnavailable)
	for _, target := range []string{"/healthz", "/readyz", "/metrics"} {
		if w := f.do("GET", target, ""); w.Code != 200 {
			t.Errorf("GET %s without a token = %d, want 200", target, w.Code)
		}
	}
	if w := f.by("ana", "GET", "/api/v1/dlq/messages/"+idA.String(), ""); w.Code != 200 {
		t.Errorf("ana's message = %d %s, want 200", w.Code, w.Body)
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	f := newFixture().guarded(person("ana", "orders.*,payments.*", auth.Operator), person("root", "*", auth.Admin, auth.Unmask), person("new", "*"))
	wantAnswer(t, f.by("ana", "GET", "/api/v1/session", ""), 200,
		`{"name":"ana","mode":"token","grants":[{"role":"operator","topics":["orders.*","payments.*"]}],"masking":false}`)
	wantAnswer(t, f.by("root", "GET", "/api/v1/session", ""), 200,
		`{"name":"root","mode":"token","grants":[{"role":"admin","topics":["*"]},{"role":"unmask","topics":["*"]}],"masking":false}`)
	wantAnswer(t, f.by("new", "GET", "/api/v1/session", ""), 200, `{"name":"new","mode":"token","grants":[],"masking":false}`)

	// Whoever looks at this without having said who they are sees that nobody has to.
	wantAnswer(t, newFixture().open().do("GET", "/api/v1/session", ""), 200,
		`{"name":"anonymous","mode":"none","grants":[{"role":"admin","topics":["*"]},{"role":"unmask","topics":["*"]}],"masking":false}`)
}

// A page of another site must not make somebody's browser change anything,
// whether or not anybody has to say who they are.
func TestCrossSiteChangesAreRefused(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/messages/" + idA.String() + "/dead"
	for _, c := range []struct {
		name, method string
		headers      []string
		refused      bool
	}{
		{"Program", "POST", nil, false},
		{"SameOrigin", "POST", []string{"Sec-Fetch-Site", "same-origin"}, false},
		{"TypedIn", "POST", []string{"Sec-Fetch-Site", "none"}, false},
		{"OtherSite", "POST", []string{"Sec-Fetch-Site", "cross-site"}, true},
		{"OtherOriginOfTheSite", "POST", []string{"Sec-Fetch-Site", "same-site"}, true},
		{"OldBrowser", "POST", []string{"Origin", "https://evil.example.com"}, true},
		{"OldBrowserAtHome", "POST", []string{"Origin", "https://example.com"}, false},
		{"NullOrigin", "POST", []string{"Origin", "null"}, true},
		{"Delete", "DELETE", []string{"Sec-Fetch-Site", "cross-site"}, true},
		{"Put", "PUT", []string{"Sec-Fetch-Site", "cross-site"}, true},
		{"Patch", "PATCH", []string{"Sec-Fetch-Site", "cross-site"}, true},
		{"Question", "GET", []string{"Sec-Fetch-Site", "cross-site"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for mode, f := range map[string]*fixture{
				"none":  newFixture(message(idA)).open(),
				"token": newFixture(message(idA)).guarded(person("root", "*", auth.Admin)),
			} {
				w := f.by("root", c.method, target, "", c.headers...)
				if c.refused {
					wantEnvelope(t, w, 403, codeForbidden)
				} else if w.Code == 403 {
					t.Errorf("mode %s: got %d %s, want it let through", mode, w.Code, w.Body)
				}
			}
		})
	}
}

// What somebody did is theirs: in the trail, and under their idempotency keys.
func TestPrincipalIsTheActor(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB)).guarded(person("ana", "*", auth.Admin), person("bob", "*", auth.Admin))
	dead := func(name string, id fmt.Stringer) *httptest.ResponseRecorder {
		return f.by(name, "POST", "/api/v1/dlq/messages/"+id.String()+"/dead", "", keyHeader, "k")
	}
	if w := dead("ana", idA); w.Code != 200 {
		t.Fatalf("ana: %d %s", w.Code, w.Body)
	}
	if w := dead("bob", idB); w.Code != 200 || w.Header().Get(replayHeader) != "" {
		t.Errorf("bob with ana's key = %d %s, want work of his own", w.Code, w.Body)
	}
	if w := dead("ana", idA); w.Code != 200 || w.Header().Get(replayHeader) != "true" {
		t.Errorf("ana again = %d %s, want her answer again", w.Code, w.Body)
	}
	for name, id := range map[string]fmt.Stringer{"ana": idA, "bob": idB} {
		w := f.by("ana", "GET", "/api/v1/audit?object_id="+id.String(), "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"actor":"`+name+`"`) {
			t.Errorf("the trail of %s = %d %s, want the actor %s", id, w.Code, w.Body, name)
		}
	}
}

// An answer that was stored is sent again also when its object is not where it
// was: for those with limits everything else would look as if it was lost.
func TestStoredAnswerIsSentAgainWithoutALookAtTheObject(t *testing.T) {
	t.Parallel()
	ana, root := person("ana", "orders.*", auth.Operator), person("root", "*", auth.Admin)
	f := newFixture(message(idA)).guarded(ana, root, person("bob", "orders.*", auth.Operator))
	f.memory.Archive(idA)
	target := "/api/v1/archive/" + idA.String() + "/restore"
	first := f.by("ana", "POST", target, "", keyHeader, "k")
	if first.Code != 200 {
		t.Fatalf("restore = %d %s", first.Code, first.Body)
	}
	again := f.by("ana", "POST", target, "", keyHeader, "k")
	if again.Code != 200 || again.Header().Get(replayHeader) != "true" || again.Body.String() != first.Body.String() {
		t.Errorf("again with the same key = %d %s, want %s again", again.Code, again.Body, first.Body)
	}
	wantEnvelope(t, f.by("ana", "POST", target, "", keyHeader, "other"), 404, codeNotFound)
	wantEnvelope(t, f.by("bob", "POST", target, "", keyHeader, "k"), 404, codeNotFound)
	wantEnvelope(t, f.by("ana", "POST", target, "", keyHeader, "other"), 404, codeNotFound)
}

// What a refused request was sent with is not used up, and no key opens what is
// not allowed.
func TestKeyOfARefusedRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).guarded(person("ana", "payments.*", auth.Operator), person("eve", "*", auth.Viewer))
	target := "/api/v1/dlq/messages/" + idA.String() + "/dead"
	for name, status := range map[string]int{"ana": 404, "eve": 403} {
		for range 2 {
			if w := f.by(name, "POST", target, "", keyHeader, "k"); w.Code != status || w.Header().Get(replayHeader) != "" {
				t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, status)
			}
		}
	}
	WithAuth(people{"ana": person("ana", "orders.*", auth.Operator)}, auth.ModeToken)(f.server)
	if w := f.by("ana", "POST", target, "", keyHeader, "k"); w.Code != 200 || w.Header().Get(replayHeader) != "" {
		t.Errorf("once it is allowed: got %d %s, want the work done", w.Code, w.Body)
	}
}
