package peer

import (
	"net/netip"
	"slices"
	"strings"
)

// private are the domains for which no public name server answers (RFC 6761, 6762 with its appendix
// G, 7686 and 8375, and ICANN's "internal").
var private = []string{"localhost", "local", "internal", "home.arpa", "invalid", "onion", "corp", "home", "intranet", "lan", "private"}

// IsPublicHost reports whether a host may be on the public Internet. It returns false for an
// address that is not public, a name without a domain, and a name in a private domain. The host is
// a name or an address, in lower case, with or without a port. No name is looked up, so a public
// name may still lead to a private address.
func IsPublicHost(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") && (host[0] == '[' || strings.IndexByte(host, ':') == i) {
		name = host[:i]
	}
	name = strings.TrimSuffix(name, ".")
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return IsPublic(addr)
	}
	if i := strings.LastIndexByte(name, '.'); i < 0 || i+1 == len(name) || name[i+1] >= '0' && name[i+1] <= '9' { // 0x7f.1 is an address
		return false
	}
	return !slices.ContainsFunc(private, func(d string) bool { return strings.HasSuffix(name, "."+d) })
}
