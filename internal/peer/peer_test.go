package peer_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"sheaf/internal/peer"
	"sheaf/internal/testkit"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:7": "192.0.2.1/32", "[::ffff:192.0.2.1]:7": "192.0.2.1/32", "192.0.2.1": "192.0.2.1/32",
		"[2001:db8::1%eth0]:7": "2001:db8::/64", "[2001:db8:0:1:2::3]:7": "2001:db8:0:1::/64", "pipe": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := peer.Network(peer.Addr(remote)).String(); got != want {
			t.Errorf("%q is of %s, want %s", remote, got, want)
		}
	}
}

// What a trusted proxy says is believed, and nothing that it only passes on.
func TestProxies(t *testing.T) {
	t.Parallel()
	proxies, err := peer.ParseProxies([]string{"127.0.0.0/8", "::1", "10.0.0.0/8"})
	testkit.Must(t, err)
	var seen string
	var proxied bool
	h := proxies.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen, proxied = r.RemoteAddr, peer.Proxied(r.Context())
	}))
	const x, f = "X-Forwarded-For", "Forwarded"
	for name, c := range map[string]struct {
		remote string
		header []string
		want   string
	}{
		"no proxy":                   {"192.0.2.9:5", []string{x, "192.0.2.1"}, "192.0.2.9:5"},
		"says nothing":               {"127.0.0.1:5", nil, "127.0.0.1:5"},
		"X-Forwarded-For":            {"127.0.0.1:5", []string{x, "192.0.2.1"}, "192.0.2.1:0"},
		"with port":                  {"[::1]:5", []string{x, "192.0.2.1:99"}, "192.0.2.1:99"},
		"the client lies":            {"127.0.0.1:5", []string{x, "198.51.100.1, 192.0.2.1"}, "192.0.2.1:0"},
		"in a line of its own":       {"127.0.0.1:5", []string{x, "198.51.100.1", x, "192.0.2.1"}, "192.0.2.1:0"},
		"several proxies":            {"127.0.0.1:5", []string{x, "198.51.100.1, 192.0.2.1, 10.1.1.1"}, "192.0.2.1:0"},
		"a proxy asks":               {"127.0.0.1:5", []string{x, "10.2.2.2, 10.1.1.1"}, "10.2.2.2:0"},
		"no address":                 {"127.0.0.1:5", []string{x, "192.0.2.1, unknown"}, peer.Unknown},
		"Forwarded":                  {"127.0.0.1:5", []string{f, `proto=https;For="[2001:db8::1]:47"`}, "[2001:db8::1]:47"},
		"Forwarded, the client lies": {"127.0.0.1:5", []string{f, `for=198.51.100.1, for="x,for=192.0.2.66`, f, `for=192.0.2.1`}, "192.0.2.1:0"},
		"both agree":                 {"127.0.0.1:5", []string{x, "192.0.2.1", f, "for=192.0.2.1"}, "192.0.2.1:0"},
		"both, one is the client's":  {"127.0.0.1:5", []string{x, "192.0.2.1", f, "for=198.51.100.1"}, peer.Unknown},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Add(c.header[i], c.header[i+1])
		}
		h.ServeHTTP(nil, r)
		if seen != c.want || proxied != proxies.Trust(netip.MustParseAddrPort(c.remote).Addr()) {
			t.Errorf("%s: the client is %s, want %s; proxied: %v", name, seen, c.want, proxied)
		}
	}
	if _, err := peer.ParseProxies([]string{"example.jp"}); err == nil {
		t.Error("a name is taken for a network")
	}
}

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

func TestIsPublicHost(t *testing.T) {
	for host, want := range map[string]bool{
		"www.example.jp": true, "www.example.jp.": true, "www.example.jp:8080": true, "localhost.example.jp": true, "notlocal": false, "www.notlocal.jp": true,
		"192.0.32.7": true, "192.0.32.7:81": true, "[2606:4700::1111]:80": true, "2606:4700::1111": true, "": false,
		"localhost": false, "localhost:8080": false, "a.localhost": false, "localhost.": false, "printer.local": false, "nas.home.arpa": false, "wiki.internal": false,
		"wiki.corp:8080": false, "intranet": false, "127.0.0.1": false, "127.0.0.1:8080": false, "10.1.2.3": false, "192.168.1.1": false, "169.254.169.254": false,
		"[::1]": false, "[::1]:80": false, "[fc00::1]": false, "::1": false, "0x7f.1:99": false, "127.1": false, "[::ffff:10.0.0.1]:80": false,
	} {
		if got := peer.IsPublicHost(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

// Nobody elsewhere is told a loopback address, and "every address" becomes one that leads here.
func TestAnnounce(t *testing.T) {
	for _, c := range []struct{ listens, host, want string }{
		{"[::]:2121", "archive.example.jp", "archive.example.jp:2121"}, {"0.0.0.0:2121", "192.0.2.7", "192.0.2.7:2121"}, {":2121", "2001:db8::1", "[2001:db8::1]:2121"},
		{"127.0.0.1:2121", "archive.example.jp", ""}, {"[::1]:2121", "192.0.2.7", ""}, {"localhost:2121", "archive.example.jp", ""},
		{"127.0.0.1:2121", "127.0.0.1", "127.0.0.1:2121"}, {"127.0.0.1:2121", "localhost", "127.0.0.1:2121"}, {"192.0.2.9:2121", "archive.example.jp", "192.0.2.9:2121"},
		{"[::]:2121", "", ""}, {"", "archive.example.jp", ""}, {"127.0.0.1:1", "", ""}, {"[::]:2121", "::", ""}, {"192.0.2.9:1", "", "192.0.2.9:1"},
	} {
		if got := peer.Announce(c.listens, c.host); got != c.want {
			t.Errorf("a server at %q for clients of %q is %q, want %q", c.listens, c.host, got, c.want)
		}
	}
}

// A request through a proxy on this machine is from elsewhere, whether or not the proxy is
// believed.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		local, remote, header string
		want                  bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:5", "", false}, {"192.0.2.1:8080", "198.51.100.7:5", "", false}, {"127.0.0.1:8080", "198.51.100.7:5", "", true},
		{"127.0.0.1:8080", "127.0.0.1:5", "X-Forwarded-For", true}, {"[::1]:8080", "[::1]:5", "Forwarded", true}, {"192.0.2.1:8080", "127.0.0.1:5", "Forwarded", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		if c.header != "" {
			r.Header.Set(c.header, "198.51.100.7")
		}
		local, _ := net.ResolveTCPAddr("tcp", c.local)
		if got := peer.Elsewhere(r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
