package fetch

import "net/netip"

// Public reports whether an address belongs to the public Internet: not to a
// private or local network, a host's own, a cloud's metadata service, a
// reserved block, or one of those in IPv6 clothes.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Zone() != "" {
		return false
	}
	for _, special := range specialBlocks() {
		if special.Contains(addr) {
			return false
		}
	}
	b := addr.As16()
	switch {
	case netip.PrefixFrom(netip.MustParseAddr("64:ff9b::"), 96).Contains(addr): // NAT64
		return Public(netip.AddrFrom4([4]byte(b[12:16])))
	case netip.PrefixFrom(netip.MustParseAddr("2002::"), 16).Contains(addr): // 6to4
		return Public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return true
}

// specialBlocks are those of the IANA's special-purpose registries that netip's own tests
// leave out.
func specialBlocks() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{0, 0, 0, 0}), 8),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, 0, 0}), 10), // carriers' NAT, some clouds' metadata
		netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 0, 0}), 24),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{240, 0, 0, 0}), 4),
		netip.PrefixFrom(netip.MustParseAddr("::"), 96),
		netip.PrefixFrom(netip.MustParseAddr("64:ff9b:1::"), 48),
		netip.PrefixFrom(netip.MustParseAddr("100::"), 64),
		netip.PrefixFrom(netip.MustParseAddr("2001::"), 32), // Teredo
		netip.PrefixFrom(netip.MustParseAddr("fec0::"), 10),
	}
}
