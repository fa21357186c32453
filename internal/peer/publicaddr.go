package peer

import (
	"net/netip"
	"slices"
)

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
