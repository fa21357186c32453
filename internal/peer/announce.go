package peer

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Announce returns the host:port at which clients reach a server, by its listen address and by
// host, the name or address of this machine or "". The result is empty if the server is on loopback
// and host is not, or if neither of the two names an address.
func Announce(listens, host string) string {
	at, port, err := net.SplitHostPort(listens)
	switch {
	case err != nil || IsLoopback(at) && !IsLoopback(host):
		return ""
	case at != "" && !Addr(at).IsUnspecified():
		return listens
	case host == "" || Addr(host).IsUnspecified(): // the address is not known
		return ""
	}
	return net.JoinHostPort(host, port)
}

// IsLoopback reports whether a host is a name or an address of this machine that other machines
// cannot use.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || Addr(host).IsLoopback()
}

// Elsewhere reports whether a request that arrived by loopback comes from another machine, through
// a proxy.
func Elsewhere(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !Addr(local.String()).IsLoopback() {
		return false
	}
	from := Addr(r.RemoteAddr)
	return from != netip.Addr{} && !from.IsLoopback() || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
}
