package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const anonymous = auth.Anonymous

// people authenticates principals by their names, which they send instead of a token.
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

// person returns a principal with the roles on the topics; "*" means all topics.
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

// grants returns a principal with this name that has the grants of all the principals in the parameter of.
func grants(name string, of ...auth.Principal) auth.Principal {
	p := auth.Principal{Name: name}
	for _, one := range of {
		p.Grants = append(p.Grants, one.Grants...)
	}
	return p
}

// guarded starts the fixture with an authenticator that knows these principals.
func (f *fixture) guarded(list ...auth.Principal) *fixture {
	known := people{}
	for _, p := range list {
		known[p.Name] = p
	}
	f.with(WithAuth(known, auth.ModeToken)).open()
	return f
}

// by sends a request as a principal.
func (f *fixture) by(name, method, target, body string, headers ...string) *reply {
	return f.do(method, target, body, append(headers, "Authorization", "Bearer "+name)...)
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	logs := f.logs(zap.InfoLevel)
	f.guarded(person("ana", "orders.*", auth.Viewer))
	for _, target := range []string{"/api/v1/dlq/orders.dlq.v1", "/api/v1/session", "/api/v1/nothing", "/api/v2", "/%61pi/v1/session"} {
		w := f.do("GET", target, "")
		e := wantEnvelope(t, w, 401)
		wantHeader(t, w.Header(), "WWW-Authenticate", "Bearer")
		if strings.Contains(e.Message, "secret") || len(e.Details) != 0 {
			t.Errorf("GET %s: got %+v, want nothing of the reason", target, e)
		}
	}
	// The answer to another method does not reveal which methods the route has.
	wantEnvelope(t, f.do("PATCH", "/api/v1/session", ""), 401)
	if got := logs.FilterMessage("request was not authenticated").Len(); got != 6 {
		t.Errorf("logged %d refusals, want 6", got)
	}
	wantEnvelope(t, f.by("ana", "GET", "/api/v1/nothing", ""), 404)
	wantEnvelope(t, f.by("nobody can tell", "GET", "/api/v1/session", ""), 503)
	for _, target := range []string{"/healthz", "/readyz", "/metrics"} {
		wantStatus(t, f.do("GET", target, ""), 200)
	}
	wantStatus(t, f.by("ana", "GET", oneA, ""), 200)
}

func TestSession(t *testing.T) {
	t.Parallel()
	f := newFixture().guarded(person("ana", "orders.*,payments.*", auth.Operator), person("root", "*", auth.Admin, auth.Unmask),
		person("new", "*"))
	wantAnswer(t, f.by("ana", "GET", "/api/v1/session", ""), 200,
		`{"name":"ana","mode":"token","grants":[{"role":"operator","topics":["orders.*","payments.*"]}],"masking":false}`)
	wantAnswer(t, f.by("root", "GET", "/api/v1/session", ""), 200,
		`{"name":"root","mode":"token","grants":[{"role":"admin","topics":["*"]},{"role":"unmask","topics":["*"]}],"masking":false}`)
	wantAnswer(t, f.by("new", "GET", "/api/v1/session", ""), 200, `{"name":"new","mode":"token","grants":[],"masking":false}`)

	// Without authentication, the session says that requests need no credentials.
	wantAnswer(t, newFixture().open().do("GET", "/api/v1/session", ""), 200,
		`{"name":"anonymous","mode":"none","grants":[{"role":"admin","topics":["*"]},{"role":"unmask","topics":["*"]}],"masking":false}`)
}

// A page of another site must not make a browser change anything, whether or not requests need a token.
func TestCrossSiteChangesAreRefused(t *testing.T) {
	t.Parallel()
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
		for mode, f := range map[string]*fixture{
			"none":  newFixture(message(idA)).open(),
			"token": newFixture(message(idA)).guarded(person("root", "*", auth.Admin)),
		} {
			if w := f.by("root", c.method, oneA+"/dead", "", c.headers...); (w.Code == 403) != c.refused {
				t.Errorf("%s, mode %s: got %d %s, want it refused: %t", c.name, mode, w.Code, w.Body, c.refused)
			} else if c.refused {
				wantEnvelope(t, w, 403)
			}
		}
	}
}

// The audit trail names the principal that made a change, and different principals may use the same idempotency key.
func TestPrincipalIsTheActor(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB)).guarded(person("ana", "*", auth.Admin), person("bob", "*", auth.Admin))
	dead := func(name string, id uuid.UUID, replayed string) {
		w := f.by(name, "POST", "/api/v1/dlq/messages/"+id.String()+"/dead", "", keyHeader, "k")
		wantStatus(t, w, 200)
		wantHeader(t, w.Header(), replayHeader, replayed)
	}
	dead("ana", idA, "")
	dead("bob", idB, "")
	dead("ana", idA, "true")
	for name, id := range map[string]uuid.UUID{"ana": idA, "bob": idB} {
		wantStatus(t, f.by("ana", "GET", "/api/v1/audit?object_id="+id.String(), ""), 200, `"actor":"`+name+`"`)
	}
}

// When a request to restore a message is repeated with the same Idempotency-Key, the server sends the stored answer
// again. It does not look for the message, which is no longer in the archive: to callers with limited roles, a 404
// would say that the message is lost.
func TestStoredAnswerIsSentAgainWithoutALookAtTheObject(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).guarded(person("ana", "orders.*", auth.Operator), person("bob", "orders.*", auth.Operator))
	f.memory.Archive(idA)
	restore := func(who, key string) *reply {
		return f.by(who, "POST", "/api/v1/archive/"+idA.String()+"/restore", "", keyHeader, key)
	}
	first := wantStatus(t, restore("ana", "k"), 200)
	again := restore("ana", "k")
	wantAnswer(t, again, 200, first)
	wantHeader(t, again.Header(), replayHeader, "true")
	wantEnvelope(t, restore("ana", "other"), 404)
	wantEnvelope(t, restore("bob", "k"), 404)
	wantEnvelope(t, restore("ana", "other"), 404)
}

// When a first request erased a message and its process died before it stored an answer, the next request with its
// Idempotency-Key completes the work. The key gives no access to other messages.
func TestErasureContinuesWithLimitedRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB), message(idGone)).guarded(person("ana", "orders.*", auth.Admin), person("eve", "payments.*", auth.Admin))
	f.memory.Archive(idA)
	f.memory.Archive(idB)
	const body = `{"reason":"request of the customer"}`
	erase := func(who string, id uuid.UUID) *reply {
		return f.by(who, "DELETE", "/api/v1/archive/"+id.String(), body, keyHeader, id.String())
	}
	begun := func(who string, id uuid.UUID) uuid.UUID {
		return f.beginAs(t, who, "DELETE", "/api/v1/archive/"+id.String(), body, id.String())
	}
	operation := begun("ana", idA)
	check.NoError(t, check.Err(f.memory.Erase(t.Context(), idA, entity.AuditInfo{Actor: "ana", Operation: operation})))
	wantStatus(t, erase("ana", idA), 200, "erased")
	wantEnvelope(t, erase("eve", idA), 404)

	begun("eve", idB)
	wantEnvelope(t, erase("eve", idB), 404)
	check.NoError(t, check.Err(f.memory.Erase(t.Context(), idB, entity.AuditInfo{Actor: "bob"})))
	begun("ana", idB)
	wantEnvelope(t, erase("ana", idB), 404)
	begun("ana", idGone) // a live message
	wantEnvelope(t, erase("ana", idGone), 404)
	check.NoError(t, check.Err(f.memory.Get(t.Context(), idGone, 0)))
}

// A refused request does not use up its Idempotency-Key. A caller who repeats such a request with its key still gets no
// access to the message, until the caller's roles allow it.
func TestKeyOfARefusedRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).guarded(person("ana", "payments.*", auth.Operator), person("eve", "*", auth.Viewer))
	dead := func(name string, status int) {
		w := f.by(name, "POST", oneA+"/dead", "", keyHeader, "k")
		wantStatus(t, w, status)
		wantHeader(t, w.Header(), replayHeader, "")
	}
	for range 2 {
		dead("ana", 404)
		dead("eve", 403)
	}
	WithAuth(people{"ana": person("ana", "orders.*", auth.Operator)}, auth.ModeToken)(f.server)
	dead("ana", 200)
}
