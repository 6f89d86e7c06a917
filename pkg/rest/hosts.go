package rest

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// hosts are the host names that a server without authentication accepts. Without this check, a foreign site whose
// name resolves to this server (DNS rebinding) could have its pages send requests through a user's browser. Addresses
// and localhost cannot be rebound.
type hosts []*regexp.Regexp

var hostPattern = regexp.MustCompile(`^[a-z0-9*]([a-z0-9._*-]*[a-z0-9*])?$`)

// parseHosts reads globs, whose star is any text. Its error begins with the key below server.
func parseHosts(globs []string) (hosts, error) {
	var all hosts
	for i, glob := range globs {
		glob = strings.ToLower(strings.TrimSuffix(glob, "."))
		if !hostPattern.MatchString(glob) {
			return nil, fmt.Errorf("hosts[%d]: must be a host name without a port, a star for any text, is %q", i, globs[i])
		}
		all = append(all, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*")+"$"))
	}
	return all, nil
}

// answer reports whether requests with this Host header are answered.
func (h hosts) answer(header string) bool {
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" ||
		slices.ContainsFunc(h, func(pattern *regexp.Regexp) bool { return pattern.MatchString(name) })
}
