package batch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"sheaf/robotd/config"

	"github.com/jlaffaye/ftp"
)

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
