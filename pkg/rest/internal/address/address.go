// Package address finds the address of a client whose requests come through proxies, and checks for which host names a
// server answers.
package address

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Proxies are the networks of server.trusted_proxies.
type Proxies []netip.Prefix

// ParseProxies reads addresses and networks. Its error begins with the name of the setting, without the prefix server.
func ParseProxies(texts []string) (Proxies, error) {
	var all Proxies
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

func (p Proxies) has(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Client returns the address of the client: the peer's address or, if the peer is a trusted proxy, the last address in
// X-Forwarded-For that is no trusted proxy (or the first one, if all are). A client can forge the addresses to the left
// of that address. For a peer without an address, such as a Unix socket, it returns the zero Addr.
func (p Proxies) Client(r *http.Request) netip.Addr {
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

// Secure reports whether the client's connection is encrypted: up to this server or, by the header of a trusted proxy,
// up to that proxy.
func (p Proxies) Secure(r *http.Request) bool {
	return r.TLS != nil || p.has(parseAddress(r.RemoteAddr)) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// Hosts are the host names that a server without authentication accepts. Without this check, a page of a foreign site
// could send requests to this server through a user's browser, once the site's name resolves to this server (DNS
// rebinding). IP addresses and localhost are always accepted, because DNS rebinding cannot use them.
type Hosts []*regexp.Regexp

var hostPattern = regexp.MustCompile(`^[a-z0-9*]([a-z0-9._*-]*[a-z0-9*])?$`)

// ParseHosts reads host names in which a star matches any text. Its error begins with the name of the setting, without
// the prefix server.
func ParseHosts(globs []string) (Hosts, error) {
	var all Hosts
	for i, glob := range globs {
		glob = strings.ToLower(strings.TrimSuffix(glob, "."))
		if !hostPattern.MatchString(glob) {
			return nil, fmt.Errorf("hosts[%d]: must be a host name without a port, a star for any text, is %q", i, globs[i])
		}
		all = append(all, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*")+"$"))
	}
	return all, nil
}

// Answer reports whether requests with this Host header are answered: IP addresses, localhost, and names that h
// contains.
func (h Hosts) Answer(header string) bool {
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" ||
		slices.ContainsFunc(h, func(pattern *regexp.Regexp) bool { return pattern.MatchString(name) })
}
