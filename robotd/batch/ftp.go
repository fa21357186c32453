package batch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jlaffaye/ftp"
	"golang.org/x/net/http/httpproxy"

	"sheaf/internal/stream"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// FTP is a Target and a ReceiptSource. It stores the batch and then its manifest in a folder of an
// FTP server, and reads the receipt from there.
type FTP struct {
	Addr          string // host:port
	Robot, Secret string
	Dir           string        // folder on the server; empty: the login folder
	TLS           *tls.Config   // not nil: AUTH TLS, also for data; a missing server name is added
	Proxy         *url.URL      // HTTP or SOCKS5, for control and data connections; nil: none
	Key           wire.Verifier // of receipts
	Timeout       time.Duration // for connecting, for each answer, and for a stalled transfer; default 30 s

	Moved func(at int64, first bool) // receives the progress of a batch; may be nil: see Uploader.Moved
}

// Name returns the server's URL.
func (f *FTP) Name() string {
	if f.TLS != nil {
		return "ftps://" + f.Addr
	}
	return "ftp://" + f.Addr
}

// Send stores the batch, continuing after the bytes that the server has, and then the manifest.
func (f *FTP) Send(ctx context.Context, b Spooled) error {
	return f.session(ctx, func(conn *ftp.ServerConn) error {
		if err := f.store(ctx, conn, b); err != nil {
			return fmt.Errorf("%s: %w", path.Base(b.Path), err)
		}
		name := path.Join(f.Dir, string(b.ID)+".manifest")
		if err := conn.Stor(name, bytes.NewReader(b.Signed)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// Receipt reads the receipt of a batch and checks its signature and batch ID.
func (f *FTP) Receipt(ctx context.Context, id wire.BatchID, sha256 string) (receipt *wire.Receipt, err error) {
	err = f.session(ctx, func(conn *ftp.ServerConn) error {
		name := path.Join(f.Dir, string(id)+"."+sha256+".receipt")
		r, err := conn.Retr(name)
		if err != nil {
			if code, _ := reply(err); code == ftp.StatusFileUnavailable {
				return fmt.Errorf("%w: %s: %w", ErrUnknown, name, err)
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		data, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		receipt, err = openReceipt(ctx, data, f.Key, id)
		return err
	})
	return receipt, err
}

// session logs in, calls work and logs out.
func (f *FTP) session(ctx context.Context, work func(*ftp.ServerConn) error) error {
	d := &ftpDialer{ctx: ctx, target: f, timeout: f.Timeout}
	d.timeout = cmp.Or(d.timeout, 30*time.Second)
	conn, err := d.login()
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), &DownError{err})
	}
	// If ctx is cancelled, do not wait for a server that does not answer.
	stop := context.AfterFunc(ctx, d.cut)
	err = work(conn)
	if stop() {
		_ = conn.Quit() // work has returned; its error, if any, says more
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), judged(err))
	}
	return nil
}

// reply returns the code and text of an FTP reply that is an error.
func reply(err error) (int, string) {
	if r, ok := errors.AsType[*textproto.Error](err); ok {
		return r.Code, r.Msg
	}
	return 0, ""
}

var againIn = regexp.MustCompile(`again in ([0-9]{1,9}) s`)

// judged wraps err in a *LaterError, *DownError or *RefusedError if the server's reply says so.
func judged(err error) error {
	code, text := reply(err)
	if m := againIn.FindStringSubmatch(text); code == 452 && m != nil {
		n, _ := strconv.Atoi(m[1]) // at most nine digits
		return &LaterError{After: time.Duration(min(n, 7*24*3600)) * time.Second, Err: err}
	}
	if code == ftp.StatusNotAvailable {
		return &DownError{err}
	}
	if word, _, ok := strings.Cut(text, ": "); ok && code >= 500 {
		if reason, ok := refusal(word); ok {
			return &RefusedError{reason, err}
		}
	}
	return err
}

func (f *FTP) store(ctx context.Context, conn *ftp.ServerConn, b Spooled) error {
	name := path.Join(f.Dir, string(b.ID)+".tar.gz")
	have, err := conn.FileSize(name)
	if err != nil {
		if code, _ := reply(err); code < 500 {
			return err
		}
		have = 0 // there is no file, or the server does not say
	}
	if have == b.Size {
		return nil
	}
	if have > b.Size {
		have = 0
	}
	file, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	body := stream.UntilDone(ctx, moving(io.NewSectionReader(file, have, b.Size-have), have, f.Moved))
	if have > 0 {
		return conn.StorFrom(name, body, uint64(have))
	}
	return conn.Stor(name, body)
}

// ftpDialer makes the connections of one FTP session: the control connection first, then one for
// each transfer. It always connects to the host of the control connection, whatever address the
// server names: behind a proxy or NAT the server may name an address that cannot be reached.
type ftpDialer struct {
	ctx     context.Context
	target  *FTP
	timeout time.Duration
	dialer  config.Dial

	mu    sync.Mutex // guards conns
	conns []net.Conn // the first is the control connection
}

func (d *ftpDialer) login() (*ftp.ServerConn, error) {
	d.dialer = new(net.Dialer).DialContext
	if through := d.target.Proxy; through != nil {
		d.dialer = (&config.Proxy{URL: through, Dial: d.dialer}).DialContext
	}
	opts := []ftp.DialOption{ftp.DialWithDialFunc(d.dial), ftp.DialWithShutTimeout(d.timeout)}
	if d.target.TLS != nil {
		opts = append(opts, ftp.DialWithExplicitTLS(d.tls()))
	}
	stop := context.AfterFunc(d.ctx, d.cut)
	defer stop()
	conn, err := ftp.Dial(d.target.Addr, opts...)
	if err != nil {
		d.cut()
		return nil, err
	}
	if err := conn.Login(d.target.Robot, d.target.Secret); err != nil {
		return nil, errors.Join(err, conn.Quit())
	}
	return conn, nil
}

func (d *ftpDialer) tls() *tls.Config {
	config := d.target.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(d.target.Addr) // an invalid address makes dialling fail
	}
	return config
}

func (d *ftpDialer) dial(network, addr string) (net.Conn, error) {
	d.mu.Lock()
	control := len(d.conns) == 0
	d.mu.Unlock()
	if control {
		addr = d.target.Addr
	} else {
		host, _, err := net.SplitHostPort(d.target.Addr)
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		addr = net.JoinHostPort(host, port)
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	conn, err := d.dialer(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.conns = append(d.conns, conn)
	d.mu.Unlock()
	conn = &patient{Conn: conn, timeout: d.timeout}
	if !control && d.target.TLS != nil {
		return tls.Client(conn, d.tls()), nil
	}
	return conn, nil
}

// cut closes all connections of the session.
func (d *ftpDialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		conn.Close()
	}
}

// patient is a connection with a time-out for each operation: a server that vanishes must not block
// the uploader for ever.
type patient struct {
	net.Conn
	timeout time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

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
	env := func(name string) string { return cmp.Or(os.Getenv(name), os.Getenv(strings.ToLower(name))) }
	all := env("ALL_PROXY")
	config := httpproxy.FromEnvironment()
	config.HTTPProxy, config.HTTPSProxy = cmp.Or(config.HTTPProxy, all), cmp.Or(config.HTTPSProxy, all)
	web := config.ProxyFunc()
	config.HTTPSProxy = cmp.Or(env("FTP_PROXY"), all)
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
