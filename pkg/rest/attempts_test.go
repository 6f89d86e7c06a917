package rest

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

func (f *fixture) guess(address, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/api/v1/topics", nil)
	r.RemoteAddr = address
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return f.send(r)
}

// Guessing tokens becomes slow, for the address that guesses; whoever has a token that
// counts does not notice, from the same address either.
func TestAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture().guarded(person("ana", "*", auth.Viewer))
	at := noon
	f.server.now = func() time.Time { return at }
	const guesser, other = "192.0.2.9:1", "198.51.100.1:1"
	for range maxAttempts {
		wantEnvelope(t, f.guess(guesser, "guess"), 401, codeUnauthenticated)
	}
	w := f.guess(guesser, "guess")
	if e := wantEnvelope(t, w, 429, codeRateLimited); firstField(e.Details) != "Authorization" || w.Header().Get("Retry-After") != "6" {
		t.Errorf("got %s, Retry-After %q, want the header named and 6 seconds", w.Body, w.Header().Get("Retry-After"))
	}
	if w := f.guess(guesser, "ana"); w.Code != 200 {
		t.Errorf("a token that counts, from the same address: got %d, want 200", w.Code)
	}
	wantEnvelope(t, f.guess(guesser, ""), 401, codeUnauthenticated)
	wantEnvelope(t, f.guess(other, "guess"), 401, codeUnauthenticated)
	at = at.Add(attemptPause)
	wantEnvelope(t, f.guess(guesser, "guess"), 401, codeUnauthenticated)
	wantEnvelope(t, f.guess(guesser, "guess"), 429, codeRateLimited)
	w = f.do("GET", "/api/v1/nowhere", "", "Authorization", "Bearer guess")
	wantEnvelope(t, w, 401, codeUnauthenticated)
	at = at.Add(maxAttempts * attemptPause)
	for range maxAttempts {
		wantEnvelope(t, f.guess(guesser, "guess"), 401, codeUnauthenticated)
	}
	wantEnvelope(t, f.guess(guesser, "guess"), 429, codeRateLimited)
}

// Who has a /64 has as many addresses as he likes.
func TestAttempts_OfOneNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture().guarded()
	for range maxAttempts {
		wantEnvelope(t, f.guess("[2001:db8::1]:1", "guess"), 401, codeUnauthenticated)
	}
	wantEnvelope(t, f.guess("[2001:db8::2]:1", "guess"), 429, codeRateLimited)
	wantEnvelope(t, f.guess("[2001:db8:0:1::1]:1", "guess"), 401, codeUnauthenticated)
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
		if a.failed(client(0)) { // is still limited, but does not fail again
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
