package upload_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/robotd/batch"
	"sheaf/test/batchtest"
)

// serviceName is the service's name, which only the proxies can resolve. The certificate of
// httptest is for it.
const serviceName = "example.com"

// relay is a proxy that authenticates its clients and knows where serviceName is.
type relay struct {
	net.Listener
	through atomic.Int64 // connections that it has made
}

const proxyUser, proxyPassword = "robot", "pass:word"

func newRelay(t *testing.T, serve func(*relay, net.Conn)) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r := &relay{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); serve(r, c) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return r
}

func (r *relay) url(scheme string) *url.URL {
	return &url.URL{Scheme: scheme, Host: r.Addr().String(), User: url.UserPassword(proxyUser, proxyPassword)}
}

// dial connects to a port of the service.
func (r *relay) dial(addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != serviceName {
		return nil, fmt.Errorf("the proxy does not lead to %s", addr)
	}
	r.through.Add(1)
	return net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
}

// join copies in both directions, and ends each by itself.
func join(a, b net.Conn, fromA io.Reader) {
	var both sync.WaitGroup
	both.Go(func() { io.Copy(b, fromA); b.(*net.TCPConn).CloseWrite() })
	both.Go(func() { io.Copy(a, b); a.(*net.TCPConn).CloseWrite() })
	both.Wait()
	b.Close()
}

// connectProxy speaks CONNECT.
func connectProxy(r *relay, c net.Conn) {
	in := bufio.NewReader(c)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword))
	if req.Method != "CONNECT" || req.Header.Get("Proxy-Authorization") != want {
		io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	to, err := r.dial(req.Host)
	if err != nil {
		io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	join(c, to, in)
}

// socksProxy speaks SOCKS5 (RFC 1928) with name and password (RFC 1929).
func socksProxy(r *relay, c net.Conn) {
	in := bufio.NewReader(c)
	take := func(n int) []byte {
		b := make([]byte, n)
		io.ReadFull(in, b)
		return b
	}
	take(int(take(2)[1]))
	c.Write([]byte{5, 2})
	user := string(take(int(take(2)[1])))
	password := string(take(int(take(1)[0])))
	if user != proxyUser || password != proxyPassword {
		c.Write([]byte{1, 1})
		return
	}
	c.Write([]byte{1, 0})
	if kind := take(4)[3]; kind != 3 { // a name
		c.Write([]byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	name := string(take(int(take(1)[0])))
	to, err := r.dial(fmt.Sprintf("%s:%d", name, binary.BigEndian.Uint16(take(2))))
	if err != nil {
		c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	join(c, to, in)
}

// TestProxies: batches go by HTTPS and by FTP, plain and with TLS, through a CONNECT
// proxy and through a SOCKS5 proxy, named by a setting or by the environment.
func TestProxies(t *testing.T) {
	testkit.Slow(t)
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	server := &tls.Config{Certificates: certified.TLS.Certificates}
	client := &tls.Config{RootCAs: roots}

	for _, p := range []struct {
		name, scheme string
		serve        func(*relay, net.Conn)
	}{{"connect", "http", connectProxy}, {"socks", "socks5", socksProxy}} {
		for _, from := range []string{"setting", "environment"} {
			t.Run(p.name+" from "+from, func(t *testing.T) {
				h := newInstallation(t, setup{ftpTLS: server})
				web := httptest.NewUnstartedServer(h.router)
				web.TLS = server
				web.StartTLS()
				defer web.Close()
				relay := newRelay(t, p.serve)
				setting := relay.url(p.scheme).String()
				if from == "environment" {
					for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy"} {
						t.Setenv(name, "")
					}
					t.Setenv("ALL_PROXY", setting)
					setting = ""
				}
				proxies, err := batch.Proxies(setting)
				testkit.Must(t, err)
				at := func(addr string) string {
					_, port, err := net.SplitHostPort(addr)
					testkit.Must(t, err)
					return net.JoinHostPort(serviceName, port)
				}
				service := h.service()
				service.Base = "https://" + at(web.Listener.Addr().String())
				service.Client = &http.Client{Transport: &http.Transport{
					TLSClientConfig: client, Proxy: func(r *http.Request) (*url.URL, error) { return proxies(r.URL) },
				}}
				plain, secure := h.drop(), h.drop()
				for _, f := range []*batch.FTP{plain, secure} {
					f.Addr = at(h.ftp)
					f.Proxy, err = proxies(&url.URL{Scheme: "ftp", Host: f.Addr})
					testkit.Must(t, err)
				}
				secure.TLS = client
				for n, way := range []way{service, plain, secure} {
					b := batchtest.Make(t, h.robots, int64(n+1), batchtest.Site(fmt.Sprintf("www%d.example.jp", n), 20))
					h.put(b)
					before := relay.through.Load()
					h.drain(way)
					h.wantPublished(b)
					if relay.through.Load() == before {
						t.Errorf("%s did not go through the proxy", way.Name())
					}
				}
				wrong := *relay.url(p.scheme)
				wrong.User = url.UserPassword(proxyUser, "wrong")
				plain.Proxy = &wrong
				if _, err := plain.Receipt(t.Context(), batchtest.ID(1), ""); err == nil || strings.Contains(err.Error(), "wrong") {
					t.Errorf("with a wrong password for the proxy: %v", err)
				}
			})
		}
	}
}

func TestProxySettings(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://web.example:3128")
	t.Setenv("FTP_PROXY", "socks5://files.example:1080")
	t.Setenv("NO_PROXY", ".near.example")
	for target, want := range map[string]string{
		"https://far.example/":       "http://web.example:3128",
		"ftp://far.example:21":       "socks5://files.example:1080",
		"https://a.near.example/":    "",
		"ftp://a.near.example:21":    "",
		"https://127.0.0.1:8443/":    "",
		"ftps://far.example:21":      "socks5://files.example:1080",
		"https://nearby.example:80/": "http://web.example:3128",
	} {
		u, err := url.Parse(target)
		testkit.Must(t, err)
		for setting, want := range map[string]string{"": want, "direct": "", "http://one.example:8080": "http://one.example:8080"} {
			proxies, err := batch.Proxies(setting)
			testkit.Must(t, err)
			got, err := proxies(u)
			testkit.Must(t, err)
			if got == nil && want != "" || got != nil && got.String() != want {
				t.Errorf("setting %q: %s goes by %v, want %q", setting, target, got, want)
			}
		}
	}
	if _, err := batch.Proxies("gopher://one.example"); err == nil {
		t.Error("a gopher proxy was taken")
	}
}
