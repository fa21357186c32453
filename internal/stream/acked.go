package stream

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// socket is the system's information about a connection.
type socket struct {
	acked  int64 // bytes acknowledged since the connection began
	queued int   // bytes written and not yet acknowledged
	ended  bool  // the connection was reset, so no more bytes will be acknowledged
}

// Meter measures one transfer over a connection. Its methods may be called concurrently.
type Meter struct {
	conn  *net.TCPConn
	start int64 // position on the connection at which the transfer begins

	mu   sync.Mutex // guards last
	last socket     // the last information, since the connection may be closed at any time
}

// NewMeter begins to measure the bytes that are written to the connection from now on. It returns
// nil if c is nil, or if the connection is closed.
func NewMeter(c *net.TCPConn) *Meter {
	if c == nil {
		return nil
	}
	s, ok := look(c)
	if !ok {
		return nil
	}
	return &Meter{conn: c, start: s.acked + int64(s.queued), last: s}
}

func (m *Meter) look() (s socket, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok = look(m.conn); ok {
		m.last = s
	}
	return m.last, ok
}

// Acked returns how many of the bytes written since NewMeter have been acknowledged. The end of the
// connection counts as one byte.
func (m *Meter) Acked() int64 {
	s, _ := m.look()
	return max(0, s.acked-m.start)
}

// Written returns how many bytes were written since NewMeter, acknowledged or not. known is false
// once the connection was reset: the system forgets the bytes that it had not sent.
func (m *Meter) Written() (bytes int64, known bool) {
	s, open := m.look()
	return s.acked + int64(s.queued) - m.start, open && !s.ended
}

// Taken describes the end of a transfer.
type Taken struct {
	Acked int64     // bytes acknowledged, as in Meter.Acked
	At    time.Time // when the last of these bytes was seen to be acknowledged
	Lost  bool      // the peer will not acknowledge the rest: it has broken off, or accepts nothing
}

// How often a connection is looked at. The measured time of a transfer may be wrong by this
// interval.
const (
	oftenest = time.Millisecond
	seldom   = 250 * time.Millisecond
	fraction = 50 // the interval is the time since the transfer's beginning divided by this, within these bounds
)

// stopTime is how long transfers that are followed still have when their Follower is closed.
const stopTime = time.Second

// Follower follows transfers in the background until their last byte is acknowledged. Its methods
// may be called concurrently.
type Follower struct {
	stop    context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
	places  chan struct{}
}

// mostFollowed is how many transfers are followed at once. For further transfers, Follow calls done
// at once.
const mostFollowed = 10_000

// NewFollower makes a follower, which must be closed.
func NewFollower() *Follower {
	f := &Follower{places: make(chan struct{}, mostFollowed)}
	f.stop, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close waits up to about stopTime until all followed transfers have ended. Follow must not be
// called any more.
func (f *Follower) Close() {
	time.AfterFunc(stopTime, f.cancel)
	f.working.Wait()
	f.cancel()
}

// Follow calls done once the peer has acknowledged all of the transfer's bytes, has acknowledged
// none for the time patience, or has ended its connection, or once f is closed. It calls done from
// another goroutine, or at once if the transfer has ended already. begun is when the transfer
// began.
func (f *Follower) Follow(m *Meter, begun time.Time, bytes int64, patience time.Duration, done func(Taken)) {
	r, over := m.verdict(bytes)
	if !over {
		select {
		case f.places <- struct{}{}:
			f.working.Go(func() {
				defer func() { <-f.places }()
				done(m.follow(f.stop, begun, bytes, patience))
			})
			return
		default:
		}
	}
	done(r)
}

func (m *Meter) verdict(bytes int64) (r Taken, over bool) {
	s, open := m.look()
	r = Taken{Acked: max(0, s.acked-m.start), At: time.Now()}
	r.Lost = r.Acked < bytes && (s.ended || !open)
	return r, r.Lost || r.Acked >= bytes
}

func (m *Meter) follow(stop context.Context, begun time.Time, bytes int64, patience time.Duration) Taken {
	moved, before := time.Now(), int64(-1)
	for {
		r, over := m.verdict(bytes)
		if r.Acked != before {
			moved, before = r.At, r.Acked
		}
		switch {
		case over:
			return r
		case r.At.Sub(moved) >= patience:
			r.Lost, r.At = true, moved
			return r
		}
		pause := time.NewTimer(min(max(time.Since(begun)/fraction, oftenest), seldom))
		select {
		case <-pause.C:
		case <-stop.Done():
			pause.Stop()
			return r
		}
	}
}

// Conn is an accepted TCP connection whose Close can be postponed. While a Meter needs the
// connection, it stays open after Close, until the client has acknowledged the last bytes. After a
// real close the kernel would go on sending, too, but would not tell its progress.
type Conn struct {
	*net.TCPConn // embedded, so that the kernel sends files

	mu     sync.Mutex // guards what follows
	held   int        // number of measures that need it open
	closed bool
}

// Listener returns a listener that turns the TCP connections from l into Conns.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok && err == nil {
		return &Conn{TCPConn: t}, nil
	}
	return c, err
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext. It returns a context in which ConnOf finds the
// connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// ConnOf returns the connection of a request; nil if the connection cannot be measured, as with
// TLS.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Hold postpones Close until release is called. Meanwhile Close shuts the connection down in both
// directions, so that its peer sees no difference.
func (c *Conn) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.held--; c.held == 0 && c.closed {
			c.TCPConn.Close()
		}
	})
}

// Close closes the connection, or shuts it down while it is held.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if c.held == 0 {
		return c.TCPConn.Close()
	}
	c.TCPConn.CloseRead() // wakes readers; an error says only that the peer was quicker
	return c.TCPConn.CloseWrite()
}

// tcpClosed is the state of a connection that was reset, or has ended on both sides.
const tcpClosed = 7

// look returns the system's information about a connection.
func look(c *net.TCPConn) (s socket, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return s, false
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			failed = err
			return
		}
		s.acked, s.ended = int64(info.Bytes_acked), info.State == tcpClosed
		s.queued, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	return s, err == nil && failed == nil
}
