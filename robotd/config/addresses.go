package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ParseAddresses parses the addresses that are set for a host: IP addresses, with or without a
// port, with blanks between.
func ParseAddresses(text string) (all []netip.AddrPort, err error) {
	for one := range strings.FieldsSeq(text) {
		addr, err := netip.ParseAddrPort(one)
		if err != nil {
			var ip netip.Addr
			ip, err = netip.ParseAddr(one)
			addr = netip.AddrPortFrom(ip, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an IP address nor one with a port", one)
		}
		all = append(all, addr)
	}
	if len(all) == 0 {
		return nil, errors.New("no address")
	}
	return all, nil
}
