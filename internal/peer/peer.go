// Package peer finds the client of a connection or a request: which addresses count as one client,
// and, behind trusted proxies, the client's own address.
//
// # Public addresses
//
// IsPublic distinguishes addresses of the public Internet from those that lead to a private
// network, to the machine itself, or nowhere; IsPublicHost does the same for names of hosts.
// Strangers choose the addresses to which robots and webhooks connect, so only public addresses are
// allowed there.
//
// # Connections
//
// Guard limits the connections of an HTTP server, in total and from one address. If there is no
// room for a new connection, the connection that has been idle longest is closed or, if no
// connection is idle, the new one. So thousands of connections that are opened and left idle lock
// nobody out.
package peer

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Addr returns the IP address in a text such as "192.0.2.1:7" or "192.0.2.1": IPv4 in its short
// form, IPv6 without a zone. It returns the zero Addr if the text has no address.
func Addr(remote string) netip.Addr {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	a, _ := netip.ParseAddr(remote) // the zero Addr after an error
	return a.Unmap().WithZone("")
}

// Network returns the network that limits count as one client: an IPv4 address, or an IPv6 /64,
// since one customer has a whole /64. For the zero Addr it returns the zero Prefix.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	p, _ := a.Prefix(min(a.BitLen(), 64)) // fails only for the zero Addr
	return p
}

// Neighbourhood returns a larger network around a client, an IPv4 /24 or an IPv6 /56, for limits
// that one owner of many addresses must not use up. It returns the zero Prefix for the zero Addr
// and for loopback, where a proxy may be.
func Neighbourhood(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 56
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // fails only for the zero Addr
	return p
}

// block is a range of addresses that no public server has.
type block struct {
	prefix string
	rfc    string // RFC that reserves it
}

// special lists the blocks of IANA's registries of special-purpose addresses, and those reserved
// for multicast or for later use:
//
//	https://www.iana.org/assignments/iana-ipv4-special-registry
//	https://www.iana.org/assignments/iana-ipv6-special-registry
//
// The registries call some of them reachable, such as the anycast addresses of 192.0.0.0/24 and
// the AS112 servers of 192.175.48.0/24. No web page or webhook is there.
var special = []block{
	{"0.0.0.0/8", "RFC 791"},        // this network
	{"10.0.0.0/8", "RFC 1918"},      // private use
	{"100.64.0.0/10", "RFC 6598"},   // carriers' translators; some clouds' metadata services
	{"127.0.0.0/8", "RFC 1122"},     // loopback
	{"169.254.0.0/16", "RFC 3927"},  // link-local; clouds' metadata services
	{"172.16.0.0/12", "RFC 1918"},   // private use
	{"192.0.0.0/24", "RFC 6890"},    // protocol assignments
	{"192.0.2.0/24", "RFC 5737"},    // documentation
	{"192.31.196.0/24", "RFC 7535"}, // AS112
	{"192.52.193.0/24", "RFC 7450"}, // AMT
	{"192.88.99.0/24", "RFC 7526"},  // relays of 6to4
	{"192.168.0.0/16", "RFC 1918"},  // private use
	{"192.175.48.0/24", "RFC 7534"}, // AS112
	{"198.18.0.0/15", "RFC 2544"},   // benchmarks
	{"198.51.100.0/24", "RFC 5737"}, // documentation
	{"203.0.113.0/24", "RFC 5737"},  // documentation
	{"224.0.0.0/4", "RFC 5771"},     // multicast
	{"240.0.0.0/4", "RFC 1112"},     // reserved, and the limited broadcast (RFC 919)

	// Only the special blocks of IPv6 within global: all addresses outside are special or not
	// assigned.
	{"2001::/23", "RFC 2928"},         // protocol assignments: Teredo (RFC 4380), benchmarks (RFC 5180), ORCHID (RFC 7343)
	{"2001:db8::/32", "RFC 3849"},     // documentation
	{"2620:4f:8000::/48", "RFC 7534"}, // AS112
	{"3fff::/20", "RFC 9637"},         // documentation
}

var (
	blocks = parse(special)

	// global is the only part of IPv6 from which addresses are assigned (RFC 4291, section 2.4;
	// https://www.iana.org/assignments/ipv6-address-space). Outside are ::/96 (RFC 4291),
	// 64:ff9b:1::/48 (RFC 8215), 100::/64 (RFC 6666), 5f00::/16 (RFC 9602), fc00::/7 (RFC 4193),
	// fe80::/10 (RFC 4291), fec0::/10 (RFC 3879), ff00::/8 (RFC 4291), and nobody's addresses.
	global = netip.MustParsePrefix("2000::/3")

	// Addresses with these prefixes contain an IPv4 address. A translator or relay forwards packets
	// to it.
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: in the last four bytes
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056: in the four bytes after the prefix
)

func parse(list []block) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, b := range list {
		out[i] = netip.MustParsePrefix(b.prefix)
	}
	return out
}

// IsPublic reports whether an address is public. An IPv6 address that contains an IPv4 address is
// public if the IPv4 address is. An address with a zone is not public.
func IsPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	if addr.Is6() {
		b := addr.As16()
		switch {
		case nat64.Contains(addr):
			return IsPublic(netip.AddrFrom4([4]byte(b[12:16])))
		case sixTo4.Contains(addr):
			return IsPublic(netip.AddrFrom4([4]byte(b[2:6])))
		case !global.Contains(addr):
			return false
		}
	}
	return !slices.ContainsFunc(blocks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

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

// Announce returns the host:port at which clients reach a server, by its listen address and by
// host, the name or address of this machine or "". The result is empty if the server is on loopback
// and host is not, or if neither of the two names an address.
func Announce(listens, host string) string {
	at, port, err := net.SplitHostPort(listens)
	switch {
	case err != nil || IsLoopback(at) && !IsLoopback(host):
		return ""
	case at != "" && !Addr(at).IsUnspecified():
		return listens
	case host == "" || Addr(host).IsUnspecified(): // the address is not known
		return ""
	}
	return net.JoinHostPort(host, port)
}

// IsLoopback reports whether a host is a name or an address of this machine that other machines
// cannot use.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || Addr(host).IsLoopback()
}

// Elsewhere reports whether a request that arrived by loopback comes from another machine, through
// a proxy.
func Elsewhere(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !Addr(local.String()).IsLoopback() {
		return false
	}
	from := Addr(r.RemoteAddr)
	return from != netip.Addr{} && !from.IsLoopback() || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
}
