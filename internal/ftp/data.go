package ftp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"sheaf/internal/peer"
	"sheaf/internal/stream"
)

const (
	copyBuffer = 128 << 10 // bytes that are copied at a time

	// The kernel sends at a time as many bytes as the client takes in stepTime, in these bounds.
	leastStep = 1 << 20
	mostStep  = 16 << 20
	stepTime  = 250 * time.Millisecond
	// lookTime is the interval at which a longer step asks whether it may go on.
	lookTime = time.Second
)

// errNoCloseNotify says that TCP ended before TLS did. It is not io.ErrUnexpectedEOF, which
// crypto/tls would turn into io.EOF.
var errNoCloseNotify = errors.New("encrypted data ended without close_notify")

// Errors of data connections. An errBroken is also an os.ErrDeadlineExceeded if the client moved no
// bytes, or almost none, for the data timeout.
var (
	errUnopened = errors.New("the data connection could not be opened")
	errBroken   = errors.New("the data connection is broken")
)

// dataConn is an open data connection. It fails if the client sends nothing for the timeout, or
// does not accept copyBuffer bytes within the timeout.
type dataConn struct {
	net.Conn // the TCP connection, or TLS over it
	tcp      *net.TCPConn
	timeout  time.Duration
	Plain    bool          // not encrypted: SendExtents can be used
	Meter    *stream.Meter // counts the bytes that the client acknowledges; nil: not measured
	moved    atomic.Int64  // bytes read or written
	allowed  func() error  // why a step may not go on; set by SendExtents
}

// openData connects the channel, with TLS if a configuration is given. Its errors are
// errUnopened.
func openData(ctx context.Context, ch *channel, timeout time.Duration, tlsConfig *tls.Config) (*dataConn, error) {
	nc, err := ch.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnopened, err)
	}
	c := &dataConn{Conn: nc, tcp: peer.TCP(nc), Plain: tlsConfig == nil, timeout: timeout}
	if c.Plain {
		return c, nil
	}
	if c.Conn, err = Handshake(ctx, wholeTLS{nc}, tlsConfig); err != nil {
		c.Reset()
		return nil, fmt.Errorf("%w: %w", errUnopened, err)
	}
	return c, nil
}

// HandshakeTime limits a client's TLS handshake.
const HandshakeTime = 10 * time.Second

// Handshake begins TLS over c, as its server. It fails after HandshakeTime.
func Handshake(ctx context.Context, c net.Conn, config *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTime)
	defer cancel()
	secure := tls.Server(c, config)
	return secure, secure.HandshakeContext(ctx)
}

// Resumed reports whether the connection resumed the TLS session of another connection.
func (c *dataConn) Resumed() bool {
	secure, ok := c.Conn.(*tls.Conn)
	return ok && secure.ConnectionState().DidResume
}

// wholeTLS is a connection below TLS. It returns an error when TCP ends, because crypto/tls would
// accept that as the end of the data. Only close_notify may end encrypted data.
type wholeTLS struct{ net.Conn }

func (w wholeTLS) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err == io.EOF {
		err = errNoCloseNotify
	}
	return n, err
}

func (c *dataConn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.timeout))
	n, err := c.Conn.Read(p)
	c.moved.Add(int64(n))
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errBroken, err)
	}
	return n, err
}

func (c *dataConn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.timeout))
	n, err := c.Conn.Write(p)
	c.moved.Add(int64(n))
	if err != nil {
		err = fmt.Errorf("%w: %w", errBroken, err)
	}
	return n, err
}

// Send sends all bytes of r, and returns their number.
func (c *dataConn) Send(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, make([]byte, copyBuffer))
}

// Receive writes all bytes from the client to w, and returns their number.
func (c *dataConn) Receive(w io.Writer) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{c}, make([]byte, copyBuffer))
}

// SendExtents sends extents as fast as take allows. It sends extents of files by sendfile(2), and
// calls take for each step. During a step it calls take each lookTime for no bytes.
func (c *dataConn) SendExtents(ctx context.Context, extents stream.Reader, take stream.Taker) (int64, error) {
	c.allowed = func() error {
		if _, err := take(ctx, 0); err != nil {
			return &stream.SourceError{Err: err}
		}
		return nil
	}
	return stream.Send(ctx, c, extents, inSteps(take))
}

// inSteps returns a Taker that takes from take as much as can be sent in stepTime. It measures the
// time from the end of each call to the next.
func inSteps(take stream.Taker) stream.Taker {
	step, granted, began := int64(leastStep), int64(0), time.Time{}
	return func(ctx context.Context, n int64) (_ int64, err error) {
		if granted > 0 {
			fit := granted * int64(stepTime) / max(1, int64(time.Since(began)))
			step = min(max(leastStep, min(2*granted, fit)), mostStep)
		}
		granted, err = take(ctx, min(step, n))
		began = time.Now()
		return granted, err
	}
}

// ReadFrom implements stream.Writer: it sends the next bytes of a file.
func (c *dataConn) ReadFrom(r io.Reader) (sent int64, err error) {
	section := r.(*io.LimitedReader)
	f, want := section.R.(*os.File), section.N
	off, err := f.Seek(0, io.SeekCurrent)
	accepted, since := int64(0), time.Now() // the client has had the timeout for the bytes after accepted since then
	for sent < want && err == nil {
		c.SetWriteDeadline(time.Now().Add(min(lookTime, c.timeout-time.Since(since))))
		var n int64
		n, err = c.tcp.ReadFrom(section)
		sent += n
		c.moved.Add(n)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && (sent-accepted >= copyBuffer || time.Since(since) < c.timeout):
			if sent-accepted >= copyBuffer {
				accepted, since = sent, time.Now()
			}
			section.N = want - sent
			if _, err = f.Seek(off+sent, io.SeekStart); err == nil {
				err = c.allowed()
			}
		case err != nil:
			err = fmt.Errorf("%w: %w", errBroken, err)
		case section.N > 0:
			return sent, nil // the file ends
		}
	}
	return sent, err
}

// Measure begins to count the bytes that the client acknowledges. It does nothing over TLS, which
// adds bytes of its own, or through a proxy.
func (c *dataConn) Measure() {
	if c.Plain && c.Conn == net.Conn(c.tcp) {
		c.Meter = stream.NewMeter(c.tcp)
	}
}

// Progress returns how many bytes have been moved so far. If the connection is measured, it counts
// only bytes that the client has acknowledged. It may be called from any goroutine.
func (c *dataConn) Progress() int64 {
	moved := c.moved.Load()
	if c.Meter == nil {
		return moved
	}
	n := c.Meter.Acked() // may be higher than moved, which lags behind during sendfile
	if n == moved+1 {
		return moved // the end of the connection counts as a byte
	}
	return n
}

// Finish ends the connection after its last byte. If the connection is measured, it stays half open
// until the caller closes it, so that the client's acknowledgements can be counted.
func (c *dataConn) Finish() {
	if c.Meter != nil {
		c.tcp.CloseWrite()
	} else {
		c.Close() // an error here says only that the client was quicker
	}
}

// Reset resets the connection, so that the client does not take its end for the file's end.
func (c *dataConn) Reset() {
	if c.Meter != nil {
		c.Meter.Acked() // the meter keeps the number, which the system does not tell after the reset
	}
	c.tcp.SetLinger(0)
	c.tcp.Close()
}
