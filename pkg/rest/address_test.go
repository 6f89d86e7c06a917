package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestClientNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"the peer", "192.0.2.7:4711", nil, "192.0.2.7/32"},
		{"a peer that is no proxy says nothing of others", "192.0.2.7:4711", []string{"198.51.100.1"}, "192.0.2.7/32"},
		{"behind a proxy", "10.0.0.1:4711", []string{"198.51.100.1"}, "198.51.100.1/32"},
		{"what the client wrote itself does not count", "10.0.0.1:4711", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1/32"},
		{"in several headers", "10.0.0.1:4711", []string{"1.1.1.1", "198.51.100.1,10.9.9.9"}, "198.51.100.1/32"},
		{"behind two proxies", "10.0.0.1:4711", []string{"198.51.100.1, 203.0.113.9"}, "198.51.100.1/32"},
		{"with ports", "10.0.0.1:4711", []string{"198.51.100.1:99, [2001:db8:ffff::1]:80"}, "198.51.100.1/32"},
		{"a proxy that says nothing", "10.0.0.1:4711", nil, "10.0.0.1/32"},
		{"proxies alone", "10.0.0.1:4711", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3/32"},
		{"what is no address ends the way", "10.0.0.1:4711", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2/32"},
		{"IPv6 counts by /64", "[2001:db8:1:2:3:4:5:6]:4711", nil, "2001:db8:1:2::/64"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.7]:4711", nil, "192.0.2.7/32"},
		{"IPv4 in IPv6 of a proxy", "[::ffff:10.0.0.1]:4711", []string{"198.51.100.1"}, "198.51.100.1/32"},
		{"a zone", "[fe80::1%eth0]:4711", nil, "fe80::/64"},
		{"none", "@", []string{"198.51.100.1"}, "invalid Prefix"},
	} {
		f := newFixture()
		f.cfg.TrustedProxies = []string{"10.0.0.0/8", "203.0.113.9", "2001:db8:ffff::1"}
		f.open()
		var got string
		handler := f.server.instrumentation.observe(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = clientNetwork(r).String() }))
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.peer, c.forwarded
		if handler.ServeHTTP(httptest.NewRecorder(), r); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// Strict-Transport-Security is sent only where a trusted proxy reports that the client uses TLS.
func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.cfg.TrustedProxies = []string{"10.0.0.0/8"}
	f.open()
	for _, c := range []struct{ peer, proto, want string }{
		{"10.0.0.1:1", "https", "max-age=31536000"}, {"10.0.0.1:1", "http", ""}, {"10.0.0.1:1", "", ""}, {"192.0.2.7:1", "https", ""},
	} {
		w := f.from(c.peer, "GET", "/api/v1/nowhere", "X-Forwarded-Proto", c.proto)
		wantHeader(t, w.Header(), "Strict-Transport-Security", c.want)
		wantHeader(t, w.Header(), "Cross-Origin-Resource-Policy", "same-origin")
	}
}
