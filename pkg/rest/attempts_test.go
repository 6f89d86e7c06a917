package rest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

func (f *fixture) guess(address, token string) *reply {
	if token == "" {
		return f.from(address, "GET", "/api/v1/topics")
	}
	return f.from(address, "GET", "/api/v1/topics", "Authorization", "Bearer "+token)
}

// Guessing tokens becomes slow for the guessing address; a client with a valid token is not affected, even from the
// same address.
func TestAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture().guarded(person("ana", "*", auth.Viewer))
	at := noon
	f.server.now = func() time.Time { return at }
	const guesser, other = "192.0.2.9:1", "198.51.100.1:1"
	for range maxAttempts {
		wantEnvelope(t, f.guess(guesser, "guess"), 401)
	}
	w := f.guess(guesser, "guess")
	wantEnvelope(t, w, 429, "Authorization")
	wantHeader(t, w.Header(), "Retry-After", "6")
	wantStatus(t, f.guess(guesser, "ana"), 200)
	wantEnvelope(t, f.guess(guesser, ""), 401)
	wantEnvelope(t, f.guess(other, "guess"), 401)
	at = at.Add(attemptPause)
	wantEnvelope(t, f.guess(guesser, "guess"), 401)
	wantEnvelope(t, f.guess(guesser, "guess"), 429)
	w = f.do("GET", "/api/v1/nowhere", "", "Authorization", "Bearer guess")
	wantEnvelope(t, w, 401)
	at = at.Add(maxAttempts * attemptPause)
	for range maxAttempts {
		wantEnvelope(t, f.guess(guesser, "guess"), 401)
	}
	wantEnvelope(t, f.guess(guesser, "guess"), 429)
}

// Failed sign-ins are counted together for each IPv6 /64 network, because one client can use all addresses of it.
func TestAttempts_OfOneNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture().guarded()
	for range maxAttempts {
		wantEnvelope(t, f.guess("[2001:db8::1]:1", "guess"), 401)
	}
	wantEnvelope(t, f.guess("[2001:db8::2]:1", "guess"), 429)
	wantEnvelope(t, f.guess("[2001:db8:0:1::1]:1", "guess"), 401)
}

func TestAttempts_AreForgottenInOrder(t *testing.T) {
	t.Parallel()
	a := newAttempts(func() time.Time { return noon })
	client := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	for range maxAttempts {
		a.failed(client(0))
	}
	for i := range maxAddresses {
		if a.failed(client(0)) { // the address still has too many failures, so this one is not counted
			t.Fatalf("after %d others the address is forgotten", i)
		}
		a.failed(client(i + 1))
		if i == maxAddresses-2 {
			break
		}
	}
	if len(a.clients) != maxAddresses || a.order.Len() != maxAddresses {
		t.Errorf("%d and %d addresses are remembered, want %d", len(a.clients), a.order.Len(), maxAddresses)
	}
	a.failed(client(maxAddresses + 1))
	if len(a.clients) != maxAddresses || a.wait(client(0)) != 0 {
		t.Errorf("%d addresses are remembered, the oldest has to wait %s, want it forgotten", len(a.clients), a.wait(client(0)))
	}
}
