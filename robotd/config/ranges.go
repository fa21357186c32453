package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// Ranges returns a Group function for a gate from ranges of addresses such as "192.0.2.0/28", each
// of which counts as one address: the machines of a hosting company behind one line, or an IPv6
// network of one server. The narrowest range that contains an address applies.
func Ranges(texts []string) (func(netip.Addr) netip.Addr, error) {
	ranges := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses such as 192.0.2.0/28", text)
		}
		ranges = append(ranges, p.Masked())
	}
	slices.SortStableFunc(ranges, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	return func(a netip.Addr) netip.Addr {
		for _, p := range ranges {
			if p.Contains(a) {
				return p.Addr()
			}
		}
		return a
	}, nil
}
