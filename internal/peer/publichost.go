package peer

import (
	"net/netip"
	"slices"
	"strings"
)

// private are the domains that no public name server answers for (RFC 6761, 6762 with its appendix
// G, 7686 and 8375, and ICANN's "internal").
var private = []string{"localhost", "local", "internal", "home.arpa", "invalid", "onion", "corp", "home", "intranet", "lan", "private"}

// IsPublicHost reports whether a host may be one of the public Internet. It is not if it is an
// address that is not public, a name without a domain, or a name in a domain that is private by
// definition. The host is a name or an address, in lower case, with or without a port. No name is
// looked up: a public name may still lead to a private address.
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
