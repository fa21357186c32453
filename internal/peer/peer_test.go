package peer_test

import (
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
