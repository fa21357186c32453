package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"sheaf/internal/peer"
	"sheaf/internal/weburl"
	"sheaf/robotd/config"
)

// Resolve returns the address of a host, written as in a URL: "name", "name:port", "[v6]:port". The
// port is zero if the URL's scheme decides. IPv4 is preferred: more hosts share such an address, so
// politeness by address covers more. Of several addresses it is the lowest, by which the manager
// too groups hosts.
func (f *Fetcher) Resolve(ctx context.Context, host string) (netip.AddrPort, error) {
	return f.ResolveAgain(ctx, host, netip.Addr{})
}

// ResolveAgain is Resolve for a host that had an address. It keeps that address as long as it is
// one of the host's. Otherwise name servers that shuffle their answers would make the host move. It
// returns an address that is among the dead only if the host has no other.
func (f *Fetcher) ResolveAgain(ctx context.Context, host string, had netip.Addr, dead ...netip.Addr) (netip.AddrPort, error) {
	addr, err := f.resolve(ctx, host, had, dead)
	if err == nil {
		err = f.check(addr.Addr())
	}
	if err != nil {
		return netip.AddrPort{}, classify(ctx, ctx, host, err)
	}
	return addr, nil
}

func (f *Fetcher) resolve(ctx context.Context, host string, had netip.Addr, dead []netip.Addr) (netip.AddrPort, error) {
	all, err := f.addresses(ctx, host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	rank := func(a netip.AddrPort) (n int) { // the lowest is the best
		if slices.Contains(dead, a.Addr()) {
			n += 2
		}
		if a.Addr() != had {
			n++
		}
		return n
	}
	return slices.MinFunc(all, func(a, b netip.AddrPort) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Compare(b))
	}), nil
}

// addresses returns all addresses of a host, at least one.
func (f *Fetcher) addresses(ctx context.Context, host string) ([]netip.AddrPort, error) {
	name, portText, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	for _, key := range []string{host, name} {
		if to, ok := f.opt.Overrides[key]; ok {
			all, err := config.ParseAddresses(to)
			if err != nil {
				err = &kindError{Local, fmt.Errorf("the address set for %s: %w", key, err)}
			}
			return all, err
		}
	}
	ips, err := []netip.Addr(nil), error(nil)
	if ip, notIP := netip.ParseAddr(name); notIP == nil {
		ips = []netip.Addr{ip}
	} else if ips, err = f.opt.Resolver.LookupNetIP(ctx, "ip", name); err != nil {
		return nil, &kindError{DNS, err}
	}
	if len(ips) == 0 {
		return nil, &kindError{DNS, fmt.Errorf("%s has no address", name)}
	}
	port, _ := strconv.ParseUint(portText, 10, 16)
	all := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		all[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return all, nil
}

// connection is one connection, ready for one request.
type connection struct {
	net.Conn           // carries HTTP
	wire     *wireConn // carries the bytes of the network
	ip       netip.Addr
	h2       *http.ClientConn // nil for HTTP/1
	reader   *bufio.Reader    // of HTTP/1, for all answers of a run
	again    bool             // asks the server to keep the connection
	absolute bool             // the request names the whole URL, for an HTTP proxy
	proxyKey string           // Proxy-Authorization for it

	certificate string // as Response.Certificate
}

// connect connects, through the proxy if there is one, and begins TLS for https.
func (f *Fetcher) connect(ctx context.Context, u *weburl.URL, addr netip.AddrPort) (*connection, error) {
	if !addr.IsValid() {
		var err error
		if addr, err = f.resolve(ctx, u.Host(), netip.Addr{}, nil); err != nil {
			return nil, err
		}
	}
	if err := f.check(addr.Addr()); err != nil {
		return nil, err
	}
	if addr.Port() == 0 {
		port, _ := strconv.ParseUint(u.Port(), 10, 16)
		addr = netip.AddrPortFrom(addr.Addr(), uint16(port))
	}
	c, err := f.dial(ctx, u, addr)
	if err != nil {
		return nil, err
	}
	if u.Scheme() == "https" {
		if err := f.encrypt(ctx, c, u.Hostname()); err != nil {
			c.wire.Close()
			return nil, err
		}
	}
	if c.h2 == nil {
		c.reader = f.readers.Get().(*bufio.Reader)
		c.reader.Reset(c.Conn)
	}
	return c, nil
}

// close closes a connection whose answers have been read, and keeps its reader for another
// connection.
func (f *Fetcher) close(c *connection) {
	c.Close()
	if c.reader != nil {
		c.reader.Reset(nil)
		f.readers.Put(c.reader)
		c.reader = nil
	}
}

func (f *Fetcher) dial(ctx context.Context, u *weburl.URL, addr netip.AddrPort) (*connection, error) {
	dialer := &net.Dialer{Timeout: f.opt.Connect, KeepAlive: -1} // the rate is checked instead
	if f.opt.Proxy == nil {
		dialer.Control = f.control
		dial := dialer.DialContext
		if f.opt.Dial != nil {
			dial = f.opt.Dial
		}
		connecting, cancel := context.WithTimeout(ctx, f.opt.Connect)
		defer cancel()
		conn, err := dial(connecting, "tcp", addr.String())
		if err != nil {
			return nil, &kindError{Connect, err}
		}
		wire := f.newWireConn(ctx, conn)
		return &connection{Conn: wire, wire: wire, ip: addr.Addr()}, nil
	}
	var wire *wireConn
	p := config.Proxy{URL: f.opt.Proxy, Roots: f.opt.RootCAs, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		wire = f.newWireConn(ctx, conn)
		return wire, nil
	}}
	c := new(connection)
	var err error
	switch {
	case !p.IsHTTP():
		c.ip = addr.Addr()
		c.Conn, err = p.DialContext(ctx, "tcp", addr.String())
	case u.Scheme() == "http":
		c.absolute, c.proxyKey = true, p.Authorization()
		c.Conn, err = p.Connect(ctx)
	default:
		c.Conn, err = p.DialContext(ctx, "tcp", withPort(u.Host(), u.Port()))
	}
	if err != nil {
		return nil, &kindError{Proxy, err}
	}
	c.wire = wire
	return c, nil
}

// encrypt begins TLS, as old as 1.0, with the cipher suites that old servers have, but none that is
// broken. It never renegotiates. A certificate that does not verify ends the connection or, with
// Options.AnyCertificate, is noted. Connections to proxies and to the service are made elsewhere
// and always verify.
func (f *Fetcher) encrypt(ctx context.Context, c *connection, name string) error {
	name = strings.TrimSuffix(name, ".")
	conn := tls.Client(c.Conn, &tls.Config{
		ServerName:         name,
		NextProtos:         []string{protoHTTP2, "http/1.1"},
		MinVersion:         tls.VersionTLS10,
		CipherSuites:       cipherSuites(),
		InsecureSkipVerify: f.opt.AnyCertificate,
		RootCAs:            f.opt.RootCAs,
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return &kindError{TLS, err}
	}
	if f.opt.AnyCertificate {
		c.certificate = wrongWith(conn.ConnectionState(), name, f.opt.RootCAs)
	}
	c.Conn = conn
	if conn.ConnectionState().NegotiatedProtocol != protoHTTP2 {
		return nil
	}
	transport := &http.Transport{
		DialTLSContext:         func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		MaxResponseHeaderBytes: int64(f.opt.MaxHeader),
	}
	transport.Protocols.SetHTTP2(true)
	var err error
	if c.h2, err = transport.NewClientConn(ctx, "https", conn.RemoteAddr().String()); err != nil {
		return &kindError{Protocol, err}
	}
	return nil
}

// protoHTTP2 is the protocol that a server chooses for HTTP/2 over TLS (RFC 9113, 3.2).
const protoHTTP2 = "h2"

// cipherSuites returns Go's secure suites and the old ones with AES, which many old servers need.
// RC4 and 3DES are not used.
func cipherSuites() []uint16 {
	var ids []uint16
	for _, s := range tls.CipherSuites() {
		ids = append(ids, s.ID)
	}
	for _, s := range tls.InsecureCipherSuites() {
		if strings.Contains(s.Name, "_AES_") {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port)
}

// control refuses forbidden addresses. It is called with the address of the connection, whatever
// name was looked up.
func (f *Fetcher) control(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return f.check(addr.Addr())
}

func (f *Fetcher) check(addr netip.Addr) error {
	if f.opt.AllowPrivate || peer.IsPublic(addr) {
		return nil
	}
	return fmt.Errorf("%s: %w", addr, errRefused)
}

// Source gets pages: a Fetcher by itself, a Head by its hands.
type Source interface {
	Get(ctx context.Context, req Request) (*Response, error)
	Run() Session
}

// Session is a run at a Source, as Run is at a Fetcher.
type Session interface {
	Get(ctx context.Context, req Request) (*Response, error)
	Live() bool
	Close()
}

// Run fetches pages of one host, one after another, over one connection, as long as the server
// keeps it (Keep-Alive or HTTP/2). It must not be used concurrently.
type Run struct {
	f    *Fetcher
	conn *connection // nil before the first page, and once the server has closed it
	host string      // scheme and authority that conn leads to
	over bool        // the connection is closed, and no second one is made
}

// errRunOver means that the run has no connection for the page: it is closed, or leads to another
// host.
var errRunOver = errors.New("the server has closed the connection")

// Run begins a run. Close must be called.
func (f *Fetcher) Run() Session { return &Run{f: f} }

// Get fetches the next page of the run. If the server has closed the connection meanwhile, the
// error's kind is Over: no request was sent, and the page may be fetched in another run.
func (r *Run) Get(ctx context.Context, req Request) (*Response, error) {
	return r.f.timed(ctx, req, r)
}

// Live reports whether the connection can carry another page.
func (r *Run) Live() bool { return r.conn != nil }

// Close ends the run and closes its connection. It may be called again.
func (r *Run) Close() {
	if r.conn != nil {
		r.f.close(r.conn)
		r.conn = nil
	}
	r.over = true
}

// connection returns the connection of the run, or makes the first one; used tells which. A nil Run
// makes one for a single fetch.
func (r *Run) connection(ctx context.Context, f *Fetcher, u *weburl.URL, req Request) (c *connection, used bool, err error) {
	if r == nil {
		c, err = f.connect(ctx, u, req.Addr)
		return c, false, err
	}
	if c = r.conn; c != nil && r.host == origin(u) {
		r.conn = nil
		c.wire.in.Store(0)
		c.wire.out.Store(0)
		return c, true, nil
	}
	if r.over || r.conn != nil {
		return nil, true, errRunOver
	}
	r.over = true // no second connection is made
	if c, err = f.connect(ctx, u, req.Addr); err == nil {
		c.again = true
	}
	return c, false, err
}

func (r *Run) keep(c *connection, u *weburl.URL) {
	r.conn, r.host = c, origin(u)
}

func origin(u *weburl.URL) string { return u.Scheme() + "://" + u.Host() }

// What is wrong with a server's certificate: values of Response.Certificate.
const (
	CertExpired    = "expired"     // or not valid yet
	CertHost       = "host"        // it is for another host
	CertSelfSigned = "self-signed" // it is signed by itself
	CertIncomplete = "incomplete"  // the server does not send the certificates that lead to an authority
	CertAuthority  = "authority"   // the authority is unknown
	CertInvalid    = "invalid"     // anything else
)

// wrongWith verifies the certificates of a server, and returns one of the Cert constants; empty:
// they are valid.
func wrongWith(shown tls.ConnectionState, name string, roots *x509.CertPool) string {
	if len(shown.PeerCertificates) == 0 {
		return CertInvalid
	}
	leaf, others := shown.PeerCertificates[0], x509.NewCertPool()
	for _, c := range shown.PeerCertificates[1:] {
		others.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: others})
	var (
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return CertExpired
	case errors.As(err, &host):
		return CertHost
	case !errors.As(err, &unknown):
		return CertInvalid
	}
	last := shown.PeerCertificates[len(shown.PeerCertificates)-1]
	switch {
	case !bytes.Equal(last.RawIssuer, last.RawSubject):
		return CertIncomplete
	case last == leaf:
		return CertSelfSigned
	}
	return CertAuthority
}
