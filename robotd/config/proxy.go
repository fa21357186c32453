package config

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"
)

// Dial connects to an address, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls d, so that a Dial is a proxy.ContextDialer.
func (d Dial) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

// Dial calls d with a context that does not end.
func (d Dial) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

// Proxy is an HTTP or SOCKS5 proxy. Its methods may be called concurrently.
type Proxy struct {
	URL   *url.URL       // http, https, socks5 or socks5h, with a name and a password if the proxy needs them
	Roots *x509.CertPool // that certify an https proxy; nil: those of the system
	Dial  Dial           // connects to the proxy
}

// IsHTTP reports whether the proxy speaks HTTP, and not SOCKS5.
func (p *Proxy) IsHTTP() bool { return p.URL.Scheme == "http" || p.URL.Scheme == "https" }

// Authorization returns the value of the field Proxy-Authorization; empty: the proxy needs none.
func (p *Proxy) Authorization() string {
	if p.URL.User == nil {
		return ""
	}
	password, _ := p.URL.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.URL.User.Username()+":"+password))
}

// Connect connects to an HTTP proxy itself, with TLS if its URL is https.
func (p *Proxy) Connect(ctx context.Context) (net.Conn, error) {
	port := cmp.Or(p.URL.Port(), map[string]string{"http": "80", "https": "443"}[p.URL.Scheme])
	conn, err := p.Dial(ctx, "tcp", net.JoinHostPort(p.URL.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", p.URL.Redacted(), err)
	}
	if p.URL.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: p.URL.Hostname(), RootCAs: p.Roots})
	}
	return conn, nil
}

// DialContext connects to an address through the proxy. The proxy resolves the address's name.
func (p *Proxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if p.IsHTTP() {
		conn, err := p.Connect(ctx)
		if err != nil {
			return nil, err
		}
		return p.tunnel(ctx, conn, address)
	}
	dialer, err := proxy.FromURL(p.URL, p.Dial)
	if err != nil {
		return nil, err
	}
	return dialer.(proxy.ContextDialer).DialContext(ctx, network, address) // SOCKS5 has it
}

// maxAnswer is how long the header of an answer to CONNECT may be, in bytes.
const maxAnswer = 300 << 10

// tunnel asks the proxy for a connection to an address (CONNECT; RFC 9110, section 9.3.6).
func (p *Proxy) tunnel(ctx context.Context, conn net.Conn, address string) (_ net.Conn, err error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if !stop() || err != nil { // the time-out passed, perhaps just now
			conn.Close()
			err = errors.Join(err, ctx.Err())
		}
	}()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: make(http.Header)}
	if key := p.Authorization(); key != "" {
		req.Header.Set("Proxy-Authorization", key)
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxAnswer}
	r := bufio.NewReader(limited)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", p.URL.Redacted(), err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("proxy %s: CONNECT %s: %s", p.URL.Redacted(), address, resp.Status)
	}
	limited.N = math.MaxInt64
	return &ahead{conn, r}, nil // an FTP server speaks first, perhaps in the same packet as the proxy's answer
}

// ahead is a connection whose first bytes are in a reader's buffer.
type ahead struct {
	net.Conn
	r *bufio.Reader
}

func (a *ahead) Read(p []byte) (int, error) { return a.r.Read(p) }
