package peer_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/internal/peer"
)

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
