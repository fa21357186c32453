package ftp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"sheaf/internal/acked"
	"sheaf/internal/extent"
	"sheaf/internal/peer"
)

const (
	copyBuffer   = 128 << 10 // bytes read from a File or a client at a time
	sendfileStep = 1 << 20   // bytes handed to the kernel between two looks at the clock
)

// channel is a data connection that the client has chosen but not yet used.
type channel interface {
	// connect makes the connection, once, and ends early with the context. It is a TCP
	// connection, or one behind a proxy whose PROXY header has been read.
	connect(ctx context.Context) (net.Conn, error)
	Close() error
}

// passive waits for the client to connect, itself or through a trusted proxy. Any other
// peer is turned away.
type passive struct {
	*net.TCPListener
	peer    netip.Addr
	trusted peer.Proxies
	timeout time.Duration
}

// listenPassive opens a port on the address that the client has reached. The port is
// random, also where any will do: the system's own choice looks through all that
// wait after their last use (TIME_WAIT), which after thousands of transfers takes longer than they.
func (c *conn) listenPassive() (*passive, error) {
	c.dropChannel()
	ip := local(c.Conn)
	lo, hi := c.engine.PassivePorts[0], c.engine.PassivePorts[1]
	tries, last := hi-lo+1, 0
	if hi == 0 {
		lo, hi = c.engine.anyPorts[0], c.engine.anyPorts[1]
		tries, last = min(hi-lo+1, anyTries), 1
	}
	n := hi - lo + 1
	first := rand.IntN(n)
	var err error
	for i := range tries + last {
		port := lo + (first+i)%n
		if i == tries {
			port = 0
		}
		var l *net.TCPListener
		if l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port)))); err == nil {
			p := &passive{l, c.peer, c.engine.Proxies, c.engine.DataTimeout}
			c.channel = p
			return p, nil
		}
	}
	return nil, fmt.Errorf("no passive port free in %d-%d: %w", lo, hi, err)
}

// anyTries is how many ports are tried before the system is asked for one.
const anyTries = 10

// ephemeralPorts are those that the system takes where none is named: Linux's
// setting, or what IANA sets aside (RFC 6335).
func ephemeralPorts() [2]int {
	var lo, hi int
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if _, scanned := fmt.Sscan(string(text), &lo, &hi); err != nil || scanned != nil || lo < 1024 || hi > 65535 || lo >= hi {
		return [2]int{49152, 65535}
	}
	return [2]int{lo, hi}
}

func (p *passive) port() int { return p.Addr().(*net.TCPAddr).Port }

func (p *passive) connect(ctx context.Context) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { p.Close() })()
	p.SetDeadline(time.Now().Add(p.timeout))
	for {
		d, err := p.Accept()
		if err != nil {
			return nil, err
		}
		if p.trusted.Trust(addrOf(d.RemoteAddr())) {
			if d = unwrap(d); d == nil {
				continue
			}
		}
		if addrOf(d.RemoteAddr()) == p.peer {
			return d, nil
		}
		d.Close()
	}
}

// active connects to a port of the client's.
type active struct {
	from    netip.Addr // the server's end of the control connection
	to      netip.AddrPort
	timeout time.Duration
}

func (a *active) connect(ctx context.Context) (net.Conn, error) {
	local := net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.from, 0))
	d := net.Dialer{LocalAddr: local, Timeout: a.timeout}
	return d.DialContext(ctx, "tcp", a.to.String())
}

func (a *active) Close() error { return nil }

// dropChannel gives up a chosen data channel.
func (c *conn) dropChannel() {
	if c.channel != nil {
		c.channel.Close()
		c.channel = nil
	}
}

// errCut is not io.ErrUnexpectedEOF, which crypto/tls turns into io.EOF.
var errCut = errors.New("encrypted data ended without close_notify")

// errNoData is why a data channel did not come about.
type errNoData struct{ error }

func (e errNoData) Unwrap() error { return e.error }

// errData is a failure on an open data channel.
type errData struct{ error }

func (e errData) Unwrap() error { return e.error }

// data is an open data channel. It ends when a client sends nothing for the timeout,
// or does not take a piece of copyBuffer bytes in it.
type data struct {
	net.Conn // the connection, or TLS above it
	tcp      *net.TCPConn
	plain    bool // not encrypted: the kernel may send files
	timeout  time.Duration

	meter *acked.Meter // of a download whose client acknowledges it itself; else nil
	moved atomic.Int64 // bytes read or written
}

// openData makes the chosen data connection, with TLS after PROT P.
func (c *conn) openData(ctx context.Context, ch channel) (*data, error) {
	nc, err := ch.connect(ctx)
	if err != nil {
		return nil, errNoData{err}
	}
	d := &data{Conn: nc, tcp: tcpOf(nc), plain: !c.private, timeout: c.engine.DataTimeout}
	if !c.private {
		return d, nil
	}
	secure := tls.Server(wholeTLS{nc}, c.engine.TLS)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		d.reset()
		return nil, errNoData{err}
	}
	d.Conn = secure
	return d, nil
}

// wholeTLS lies below TLS and takes the end of TCP for a failure: only
// close_notify ends encrypted data, and crypto/tls would let both pass.
type wholeTLS struct{ net.Conn }

func (w wholeTLS) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err == io.EOF {
		err = errCut
	}
	return n, err
}

func (d *data) Read(p []byte) (int, error) {
	d.SetReadDeadline(time.Now().Add(d.timeout))
	n, err := d.Conn.Read(p)
	d.moved.Add(int64(n))
	if err != nil && err != io.EOF {
		err = errData{err}
	}
	return n, err
}

func (d *data) Write(p []byte) (int, error) {
	d.SetWriteDeadline(time.Now().Add(d.timeout))
	n, err := d.Conn.Write(p)
	d.moved.Add(int64(n))
	if err != nil {
		err = errData{err}
	}
	return n, err
}

// send copies a file out, by the kernel alone where that can be.
func (d *data) send(ctx context.Context, f File) (sent int64, err error) {
	want := int64(-1)
	if sized, ok := f.(Sized); ok {
		want = sized.Remaining()
	}
	var extents extent.Reader
	if local, ok := f.(Local); ok && d.plain {
		if extents, err = local.Extents(); err != nil {
			return 0, err
		}
	}
	if extents != nil {
		defer extents.Close()
		sent, err = d.sendfile(ctx, extents, f)
	} else {
		sent, err = io.CopyBuffer(struct{ io.Writer }{d}, struct{ io.Reader }{f}, make([]byte, copyBuffer))
	}
	if err == nil && want >= 0 && sent != want {
		err = fmt.Errorf("file ended after %d of %d bytes: %w", sent, want, io.ErrUnexpectedEOF)
	}
	return sent, err
}

// sendfile sends extents, those of files by sendfile(2).
func (d *data) sendfile(ctx context.Context, extents extent.Reader, f File) (int64, error) {
	pace := func(_ context.Context, n int64) (int64, error) { return n, nil }
	if paced, ok := f.(Paced); ok {
		pace = paced.Pace
	}
	return extent.Send(ctx, d, extents, func(ctx context.Context, n int64) (int64, error) {
		return pace(ctx, min(sendfileStep, n))
	})
}

// ReadFrom implements extent.Writer: it sends the next bytes of a file.
func (d *data) ReadFrom(r io.Reader) (sent int64, err error) {
	section := r.(*io.LimitedReader)
	f, want := section.R.(*os.File), section.N
	off, err := f.Seek(0, io.SeekCurrent)
	for sent < want && err == nil {
		d.SetWriteDeadline(time.Now().Add(d.timeout))
		var n int64
		n, err = d.tcp.ReadFrom(section)
		sent += n
		d.moved.Add(n)
		switch {
		case n >= copyBuffer && errors.Is(err, os.ErrDeadlineExceeded): // slow, but it moves
			section.N = want - sent
			_, err = f.Seek(off+sent, io.SeekStart)
		case err != nil:
			err = errData{err}
		case section.N > 0:
			return sent, nil // the file ends
		}
	}
	return sent, err
}

// receive copies what the client sends to w.
func (d *data) receive(w io.Writer) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{d}, make([]byte, copyBuffer))
}

// measure has a download be measured by what its client acknowledges, where that is the other
// end of the connection, and not a proxy, and TLS adds nothing to it.
func (d *data) measure() {
	if d.plain && d.Conn == net.Conn(d.tcp) {
		d.meter = acked.Begin(d.tcp)
	}
}

// progress is how many bytes have been moved so far.
func (d *data) progress() int64 {
	moved := d.moved.Load()
	if d.meter == nil {
		return moved
	}
	n := d.meter.Acked() // may be ahead of moved, of which the system tells now and then
	if n == moved+1 {
		return moved // the end of the connection counts as a byte
	}
	return n
}

// finish ends the channel after its last byte. One that is measured stays open on our side until
// that is acknowledged.
func (d *data) finish() {
	if d.meter != nil {
		d.tcp.CloseWrite()
	} else {
		d.Close() // an error here says only that the client was quicker
	}
}

// reset ends the channel so that the client cannot take it for the file's end.
func (d *data) reset() {
	if d.meter != nil {
		d.meter.Acked() // it remembers what it saw last
	}
	d.tcp.SetLinger(0)
	d.tcp.Close()
}
