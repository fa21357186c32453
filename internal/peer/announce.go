package peer

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Announce returns the address by which clients reach a server that listens at listens (host:port),
// if host is the name or address by which they reach this machine. It is empty if they cannot: the
// server is on loopback, and host is not.
func Announce(listens, host string) string {
	at, port, err := net.SplitHostPort(listens)
	switch {
	case err != nil || IsLoopback(at) && !IsLoopback(host):
		return ""
	case at != "" && !Addr(at).IsUnspecified():
		return listens
	case host == "" || Addr(host).IsUnspecified(): // nobody knows
		return ""
	}
	return net.JoinHostPort(host, port)
}

// IsLoopback reports whether a host is this machine and no other can mean it by that name.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || Addr(host).IsLoopback()
}

// Elsewhere reports whether a request that has reached this machine by loopback comes from another
// one: a proxy has passed it on.
func Elsewhere(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !Addr(local.String()).IsLoopback() {
		return false
	}
	from := Addr(r.RemoteAddr)
	return from != netip.Addr{} && !from.IsLoopback() || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
}
