package batch

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// ProxyFunc returns the proxy for a URL, or nil for none.
type ProxyFunc func(*url.URL) (*url.URL, error)

// Proxies returns the proxies of a setting: the URL of one proxy for everything, or "direct" for
// none. If the setting is empty, it uses the environment: HTTP_PROXY, HTTPS_PROXY or FTP_PROXY by
// the URL's scheme, and ALL_PROXY if that is not set, in upper or lower case. Hosts in NO_PROXY and
// this machine need no proxy. A proxy's URL is http://, https:// (CONNECT) or socks5:// and may
// have a name and a password.
func Proxies(setting string) (ProxyFunc, error) {
	switch setting {
	case "direct":
		return func(*url.URL) (*url.URL, error) { return nil, nil }, nil
	case "":
		return fromEnvironment(), nil
	}
	u, err := url.Parse(setting)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return func(*url.URL) (*url.URL, error) { return u, nil }, nil
	}
	return nil, fmt.Errorf("proxy %s is not http, https or socks5", u.Redacted())
}

func fromEnvironment() ProxyFunc {
	env := func(name string) string {
		for _, n := range []string{name, strings.ToLower(name)} {
			if v := os.Getenv(n); v != "" {
				return v
			}
		}
		return ""
	}
	all := env("ALL_PROXY")
	orAll := func(v string) string {
		if v == "" {
			return all
		}
		return v
	}
	config := httpproxy.FromEnvironment()
	config.HTTPProxy, config.HTTPSProxy = orAll(config.HTTPProxy), orAll(config.HTTPSProxy)
	web := config.ProxyFunc()
	config.HTTPSProxy = orAll(env("FTP_PROXY"))
	ftp := config.ProxyFunc()
	return func(u *url.URL) (*url.URL, error) {
		if !strings.HasPrefix(u.Scheme, "ftp") {
			return web(u)
		}
		like := *u
		like.Scheme = "https" // the library only knows http and https
		return ftp(&like)
	}
}

// dialBy returns a dialer that connects through a proxy, or directly if through is nil.
func dialBy(through *url.URL, direct *net.Dialer) (proxy.ContextDialer, error) {
	if through == nil {
		return direct, nil
	}
	if through.Scheme == "http" || through.Scheme == "https" {
		return &connect{proxy: through, direct: direct}, nil
	}
	dialer, err := proxy.FromURL(through, direct)
	if err != nil {
		return nil, err
	}
	byContext, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return nil, fmt.Errorf("proxy %s: connecting cannot be cancelled", through.Redacted())
	}
	return byContext, nil
}

// connect is a dialer that uses CONNECT (RFC 9110, section 9.3.6).
type connect struct {
	proxy  *url.URL
	direct *net.Dialer
}

// DialContext connects to addr. The proxy resolves its name.
func (c *connect) DialContext(ctx context.Context, network, addr string) (_ net.Conn, err error) {
	port := c.proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[c.proxy.Scheme]
	}
	raw, err := c.direct.DialContext(ctx, network, net.JoinHostPort(c.proxy.Hostname(), port))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer func() {
		if !stop() || err != nil { // the time-out passed, perhaps just now
			raw.Close()
			err = errors.Join(err, ctx.Err())
		}
	}()
	conn := raw
	if c.proxy.Scheme == "https" {
		conn = tls.Client(raw, &tls.Config{ServerName: c.proxy.Hostname()})
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: make(http.Header)}
	if u := c.proxy.User; u != nil {
		password, _ := u.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", c.proxy.Redacted(), err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("proxy %s: CONNECT %s: %s", c.proxy.Redacted(), addr, resp.Status)
	}
	return &ahead{conn, r}, nil // an FTP server speaks first, perhaps in the same packet as the proxy's answer
}

// ahead is a connection whose first bytes are in a reader's buffer.
type ahead struct {
	net.Conn
	r *bufio.Reader
}

func (a *ahead) Read(p []byte) (int, error) { return a.r.Read(p) }
