package rest

import (
	"net/http/httptest"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// By DNS rebinding, the host name of an attacker's page can resolve to this server. Requests of the page then have that
// name as Host and as Origin, so that they look like requests of the same site.
func TestHosts_OfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	w := f.named("attacker.example", "POST", oneA+"/dead", "Origin", "http://attacker.example")
	wantEnvelope(t, w, 421)
	wantStatus(t, w, 421, `"this program does not answer for the host \"attacker.example\": server.hosts does not list it"`)
	if m, err := f.memory.Get(t.Context(), idA, 0); err != nil || m.Status != entity.Pending {
		t.Errorf("the message is %s, %v, want it unchanged", m.Status, err)
	}
}

// named sends a request with that Host.
func (f *fixture) named(host, method, target string, headers ...string) *reply {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	setHeaders(r, headers)
	return f.send(r)
}

func TestHosts(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.cfg.Hosts = []string{"dlq-manager.k1s0", "*.Internal.example", "named."}
	f.open()
	for _, host := range []string{
		"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "[::1]", "dlq-manager.k1s0", "DLQ-Manager.K1s0:80",
		"dlq-manager.k1s0.", "a.b.internal.example", "named",
	} {
		wantStatus(t, f.named(host, "GET", "/api/v1/topics"), 200)
	}
	for _, host := range []string{
		"attacker.example", "dlq-manager.k1s0.attacker.example", "x-dlq-manager.k1s0", "internal.example", "localhost.attacker.example",
		"127.0.0.1.attacker.example", "", "dlq-managerxk1s0",
	} {
		wantEnvelope(t, f.named(host, "GET", "/api/v1/topics"), 421, "Host")
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		wantStatus(t, f.named("attacker.example", "GET", path), 200)
	}
}

// With authentication every host name is accepted, because a page without the token cannot use the API.
func TestHosts_AnyNameWhereTokensAreAskedFor(t *testing.T) {
	t.Parallel()
	wantEnvelope(t, newFixture().guarded().named("dlq.example", "GET", "/api/v1/topics"), 401)
}
