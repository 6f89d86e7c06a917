package rest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the networks of server.trusted_proxies.
type proxies []netip.Prefix

// parseProxies reads addresses and networks. Its error begins with the key below server.
func parseProxies(texts []string) (proxies, error) {
	var all proxies
	for i, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, bad := netip.ParseAddr(text)
			if bad != nil || address.Zone() != "" {
				return nil, fmt.Errorf("trusted_proxies[%d]: must be an address or a network such as 10.0.0.0/8, is %q", i, text)
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

func (p proxies) has(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// client returns the address of the client: the peer's or, of a trusted proxy, the last address in X-Forwarded-For that
// is not one; a client can forge those to the left. A peer without an address, such as a socket, has the zero Addr.
func (p proxies) client(r *http.Request) netip.Addr {
	address := parseAddress(r.RemoteAddr)
	if !p.has(address) {
		return address
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := parseAddress(strings.TrimSpace(hops[i]))
		if !hop.IsValid() {
			break
		}
		if address = hop; !p.has(hop) {
			break
		}
	}
	return address
}

// parseAddress reads an address with or without a port; other text is the zero Addr.
func parseAddress(text string) netip.Addr {
	if both, err := netip.ParseAddrPort(text); err == nil {
		return both.Addr().Unmap().WithZone("")
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}

// clientNetwork returns what attempts are counted by: the client's address, or its /64 of IPv6, which usually belongs
// to one customer.
func clientNetwork(r *http.Request) netip.Prefix {
	address := exchangeOf(r).address
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	network, err := address.Prefix(bits)
	if err != nil { // of the zero Addr
		return netip.Prefix{}
	}
	return network
}

// secure reports whether the client's connection is encrypted, by the header of a trusted proxy that terminates TLS.
func (p proxies) secure(r *http.Request) bool {
	return r.TLS != nil || p.has(parseAddress(r.RemoteAddr)) && r.Header.Get("X-Forwarded-Proto") == "https"
}
