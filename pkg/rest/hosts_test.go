package rest

import (
	"net/http/httptest"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// A page that had its own name lead here (DNS rebinding) sends requests with that
// name as Host and as Origin, which is then no other site's.
func TestHosts_OfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	r := httptest.NewRequest("POST", "/api/v1/dlq/messages/"+idA.String()+"/dead", nil)
	r.Host = "attacker.example"
	r.Header.Set("Origin", "http://attacker.example")
	w := f.send(r)
	e := wantEnvelope(t, w, 421, codeMisdirected)
	if want := `this program does not answer for the host "attacker.example": server.hosts does not list it`; e.Message != want {
		t.Errorf("message = %q, want %q", e.Message, want)
	}
	if m, err := f.memory.Get(t.Context(), idA, 0); err != nil || m.Status != entity.Pending {
		t.Errorf("the message is %s, %v, want it unchanged", m.Status, err)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.cfg.Hosts = []string{"dlq-manager.k1s0", "*.Internal.example", "named."}
	f.open()
	for host, answered := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "127.0.0.1:8080": true, "10.1.2.3": true, "[::1]:8080": true, "[::1]": true,
		"dlq-manager.k1s0": true, "DLQ-Manager.K1s0:80": true, "dlq-manager.k1s0.": true, "a.b.internal.example": true, "named": true,
		"attacker.example": false, "dlq-manager.k1s0.attacker.example": false, "x-dlq-manager.k1s0": false, "internal.example": false,
		"localhost.attacker.example": false, "127.0.0.1.attacker.example": false, "": false, "dlq-managerxk1s0": false,
	} {
		r := httptest.NewRequest("GET", "/api/v1/topics", nil)
		r.Host = host
		if w := f.send(r); (w.Code == 200) != answered || !answered && w.Code != 421 {
			t.Errorf("Host %q got %d, want it answered: %t", host, w.Code, answered)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "attacker.example"
		if w := f.send(r); w.Code != 200 {
			t.Errorf("GET %s with any Host = %d, want 200", path, w.Code)
		}
	}
}

// Who has to present a token cannot be used by a page that does not have it.
func TestHosts_AnyNameWhereTokensAreAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	WithAuth(people{}, auth.ModeToken)(f.server)
	r := httptest.NewRequest("GET", "/api/v1/topics", nil)
	r.Host = "dlq.example"
	wantEnvelope(t, f.send(r), 401, codeUnauthenticated)
}
