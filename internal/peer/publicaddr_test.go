package peer_test

import (
	"net/netip"
	"testing"

	"sheaf/internal/peer"
)

// TestIs: the first and the last address of every special block is refused, and its neighbours
// outside are not, where they are public.
func TestIs(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"133.9.1.1": true, "8.8.8.8": true, "1.0.0.0": true, "9.255.255.255": true, "11.0.0.0": true,
		"0.0.0.0": false, "0.1.2.3": false, "0.255.255.255": false, "10.0.0.0": false, "10.255.255.255": false,
		"100.63.255.255": true, "100.64.0.0": false, "100.100.100.200": false, "100.127.255.255": false, "100.128.0.0": true,
		"126.255.255.255": true, "127.0.0.1": false, "127.255.255.255": false, "128.0.0.0": true,
		"169.253.255.255": true, "169.254.169.254": false, "169.255.0.0": true,
		"172.15.255.255": true, "172.16.0.0": false, "172.31.255.255": false, "172.32.0.0": true,
		"192.0.0.0": false, "192.0.0.9": false, "192.0.0.255": false, "192.0.1.0": true, "192.0.2.1": false, "192.0.3.0": true,
		"192.31.196.1": false, "192.52.193.1": false, "192.88.98.255": true, "192.88.99.1": false, "192.88.100.0": true,
		"192.167.255.255": true, "192.168.1.1": false, "192.169.0.0": true, "192.175.48.1": false,
		"198.17.255.255": true, "198.18.0.0": false, "198.19.255.255": false, "198.20.0.0": true,
		"198.51.100.1": false, "203.0.113.255": false, "203.0.114.0": true,
		"223.255.255.255": true, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,

		"2001:200::1": true, "2400::1": true, "2606:4700::1111": true, "2a00:1450::1": true,
		"::": false, "::1": false, "::127.0.0.1": false, "::8.8.8.8": false,
		"::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true,
		"64:ff9b::808:808": true, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "64:ff9b:1::808:808": false,
		"2002:808:808::1": true, "2002:7f00:1::": false, "2002:c0a8:101::1": false,
		"2001::1": false, "2001:0:808:808::1": false, "2001:2::1": false, "2001:20::1": false, "2001:1ff:ffff::": false,
		"2001:db8::1": false, "2001:db9::": true, "2620:4f:8000::1": false, "3fff::1": false, "3fff:fff::1": false, "3fff:1000::": true,
		"100::1": false, "100:0:0:1::1": false, "4000::1": false, "5f00::1": false, "fc00::1": false, "fd00:ec2::254": false,
		"fe80::1": false, "fe80::1%eth0": false, "2001:200::1%eth0": false, "fec0::1": false, "ff02::1": false,
	} {
		if got := peer.IsPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: public %v, want %v", addr, got, want)
		}
	}
	if peer.IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}
