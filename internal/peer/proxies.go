package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pires/go-proxyproto"
)

// Proxies are the networks of trusted proxies: the server believes what they say about their
// clients' addresses.
type Proxies []netip.Prefix

// ParseProxies reads a list of networks such as 192.0.2.0/24, and of single addresses.
func ParseProxies(list []string) (Proxies, error) {
	var proxies Proxies
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			proxies = append(proxies, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no network such as 192.0.2.0/24 and no address", text)
		}
		proxies = append(proxies, p.Masked())
	}
	return proxies, nil
}

// Trust reports whether a is a proxy's address.
func (p Proxies) Trust(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

// Unknown is the RemoteAddr of a request if its proxy does not name the client's address. Addr
// returns the zero Addr for it, so no rule about addresses lets it pass.
const Unknown = "unknown"

// Handler passes each request on to next with its client's address as RemoteAddr (with port 0, if
// the proxy does not name the port). If a proxy sends the request, the address comes from
// X-Forwarded-For or Forwarded (RFC 7239): it is the last address there that is not a proxy's,
// since the client itself may have written the addresses before that. A request with neither header
// is the proxy's own. The address is Unknown if a header names no address, or if both headers are
// there and differ: one of the two may be the client's own.
func (p Proxies) Handler(next http.Handler) http.Handler {
	if len(p) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.Trust(Addr(r.RemoteAddr)) {
			next.ServeHTTP(w, r)
			return
		}
		behind := r.WithContext(context.WithValue(r.Context(), proxiedKey{}, true))
		x, rfc := r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")
		if len(x)+len(rfc) > 0 {
			behind.RemoteAddr = p.client(x, rfc)
		}
		next.ServeHTTP(w, behind)
	})
}

type proxiedKey struct{}

// Proxied reports whether the request with this context came through a trusted proxy.
func Proxied(ctx context.Context) bool { return ctx.Value(proxiedKey{}) != nil }

// client returns the address that the headers X-Forwarded-For and Forwarded name, or Unknown.
func (p Proxies) client(x, rfc []string) string {
	byX, byRFC := p.last(x, plainHop), p.last(rfc, forwardedHop)
	at := byRFC
	if len(rfc) == 0 {
		at = byX
	} else if len(x) > 0 && byX.Addr() != byRFC.Addr() {
		return Unknown
	}
	if !at.IsValid() {
		return Unknown
	}
	return at.String()
}

// last goes through a header's hops from the nearest hop on, and returns the first hop that is not
// a proxy. If a hop cannot be read, or no hop is left, it returns the hop before.
func (p Proxies) last(values []string, parse func(string) netip.AddrPort) (client netip.AddrPort) {
	hops := strings.Split(strings.Join(values, ","), ",")
	for _, hop := range slices.Backward(hops) {
		at := parse(strings.TrimSpace(hop))
		if !at.IsValid() {
			return client
		}
		client = at
		if !p.Trust(at.Addr()) {
			return client
		}
	}
	return client
}

// plainHop reads an address with or without a port.
func plainHop(text string) netip.AddrPort {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	}
	host := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if h, _, err := net.SplitHostPort(text); err == nil { // RFC 7239 allows ports that are names
		host = h
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap().WithZone(""), 0)
}

// forwardedHop reads the address of an element such as for="[2001:db8::1]:47";proto=https. No
// address has a comma, so a cut at a comma within quotes cannot produce a wrong address.
func forwardedHop(text string) netip.AddrPort {
	for pair := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			return plainHop(strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return netip.AddrPort{}
}

// headerTimeout is how long a proxy may take to send the PROXY header. Proxies send it at once.
const headerTimeout = 5 * time.Second

// Listener returns a listener over l for a protocol without headers of its own, such as FTP. Each
// connection from a proxy must begin with a PROXY header (version 1 or 2) with the client's
// address, which RemoteAddr then returns. A connection from a proxy without the header is closed.
// Connections from elsewhere are returned unread. A slow header does not delay other connections.
func (p Proxies) Listener(l net.Listener) net.Listener {
	if len(p) == 0 {
		return l
	}
	h := &headerListener{Listener: l, proxies: p, accepted: make(chan accepted)}
	h.closed, h.stop = context.WithCancel(context.Background())
	go h.run()
	return h
}

// Accepted returns the connection c with its client's address. If c comes from a proxy and does not
// begin with a PROXY header, Accepted closes c and returns nil.
func (p Proxies) Accepted(c net.Conn) net.Conn {
	if !p.Trust(AddrOf(c.RemoteAddr())) {
		return c
	}
	proxied := proxyproto.NewConn(c, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(headerTimeout))
	if proxied.ProxyHeader() == nil {
		c.Close()
		return nil
	}
	return proxied
}

// headerListener reads the PROXY headers of several connections at once.
type headerListener struct {
	net.Listener
	proxies  Proxies
	accepted chan accepted
	closed   context.Context
	stop     context.CancelFunc
}

type accepted struct {
	conn net.Conn
	err  error
}

func (h *headerListener) run() {
	for {
		c, err := h.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			h.stop()
			return
		case err == nil && h.proxies.Trust(AddrOf(c.RemoteAddr())):
			go func() {
				if c := h.proxies.Accepted(c); c != nil {
					h.deliver(accepted{c, nil})
				}
			}()
		default:
			h.deliver(accepted{c, err})
		}
	}
}

func (h *headerListener) deliver(a accepted) {
	select {
	case h.accepted <- a:
	case <-h.closed.Done():
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

func (h *headerListener) Accept() (net.Conn, error) {
	select {
	case a := <-h.accepted:
		return a.conn, a.err
	case <-h.closed.Done():
		return nil, net.ErrClosed
	}
}

func (h *headerListener) Close() error {
	h.stop()
	return h.Listener.Close()
}

// TCP returns the TCP connection below c, or nil if there is none.
func TCP(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case *proxyproto.Conn:
		t, _ := c.TCPConn() // nil if it fails
		return t
	}
	return nil
}

// Local returns this machine's own address on c, also behind a proxy. (The PROXY header names the
// proxy's address, which the client has reached.)
func Local(c net.Conn) netip.Addr {
	if t := TCP(c); t != nil {
		return AddrOf(t.LocalAddr())
	}
	return AddrOf(c.LocalAddr())
}

// AddrOf returns the IP address of a TCP address, IPv4 in its short form. For other addresses it
// returns the zero Addr.
func AddrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
