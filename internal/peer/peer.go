package peer

import "net/netip"

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
