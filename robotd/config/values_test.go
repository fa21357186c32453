package config

import (
	"net/netip"
	"testing"
)

func TestRanges(t *testing.T) {
	group, err := Ranges([]string{"192.0.2.0/24", "192.0.2.16/28", "2001:db8::/64"})
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.0", "192.0.2.200": "192.0.2.0", "192.0.2.17": "192.0.2.16",
		"198.51.100.1": "198.51.100.1", "2001:db8::5": "2001:db8::", "2001:db8:1::5": "2001:db8:1::5",
	} {
		if got := group(netip.MustParseAddr(addr)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts as %s, want %s", addr, got, want)
		}
	}
	if _, err := Ranges([]string{"192.0.2.0"}); err == nil {
		t.Error("an address without a prefix length was accepted as a range")
	}
}
