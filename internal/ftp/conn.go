package ftp

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goftp "goftp.io/server/v2"

	"sheaf/internal/peer"
)

const (
	maxLine      = 4096             // bytes of one command, its line end included
	replyTimeout = 30 * time.Second // for a client to take a reply
	lastWords    = time.Second      // for a client to take the reply before we hang up
)

var (
	errLineTooLong = errors.New("command line too long")
	errStopped     = errors.New("the service has stopped")
)

// conn is a control connection: the net.Conn that goftp reads commands from,
// one line per Read, and the place of all state that goftp does not keep.
//
// Everything here belongs to the session's goroutine, but for what the mutex
// guards, and for pending, readErr and telnet, which a running watch owns.
type conn struct {
	net.Conn              // the TCP connection, below TLS; behind a proxy its PROXY header has been read
	tcp      *net.TCPConn // the same, as the system has it; nil where a test uses another kind
	engine   *engine
	log      *slog.Logger
	peer     netip.Addr   // the client's
	origin   netip.Prefix // what limits count as one client
	ctx      context.Context
	cancel   context.CancelCauseFunc
	since    time.Time

	tls     *tls.Conn // after AUTH
	private bool      // data channels are encrypted: PROT P

	pending []byte // read, but not yet handed out
	readErr error  // what came after pending
	telnet  telnet
	hangup  bool // no command is read any more

	mu       sync.Mutex // guards idle, farewell
	idle     bool       // Read waits for the client
	farewell *Error     // to be sent away with when idle; nil: may stay

	goftp    *goftp.Session // working directory and login state
	user     string         // named by USER, not yet proven
	tries    int            // failed logins
	account  string         // logged in as; guarded by engine.mu, as the next two
	stranger *list.Element  // in engine.strange; nil after the login
	placed   bool           // it counts among the connections of the server and of its address
	session  Session
	found    Entry   // what CWD is about to enter
	channel  channel // chosen for the next transfer, or nil
	onlyEPSV bool    // after EPSV ALL
	rest     int64   // from REST, for the next transfer
	facts    facts   // chosen by OPTS MLST
	closing  sync.Once
	followed atomic.Int32 // downloads that are sent and not yet acknowledged
}

func newConn(ctx context.Context, e *engine, raw net.Conn) *conn {
	c := &conn{Conn: raw, tcp: tcpOf(raw), engine: e, since: time.Now(), facts: allFacts}
	c.peer = addrOf(raw.RemoteAddr())
	c.origin = peer.Network(c.peer)
	if c.tcp != nil {
		if err := urgentInLine(c.tcp); err != nil {
			e.Log.Warn("ftp: an ABOR that is sent as urgent data may be missed", "remote", raw.RemoteAddr().String(), "error", err)
		}
	}
	c.log = e.Log.With("remote", raw.RemoteAddr().String())
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// addrOf is the IP address of a TCP address, IPv4 in its short form.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// address is how a command, which goftp gives its own session, finds ours: the
// session passes its connection's remote address through.
type address struct {
	net.Addr
	conn *conn
}

func connOf(s *goftp.Session) *conn { return s.RemoteAddr().(address).conn }

// RemoteAddr is the client's address, which also leads back to the connection.
func (c *conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

// stream is what carries commands and replies: TCP, or TLS above it.
func (c *conn) stream() net.Conn {
	if c.tls != nil {
		return c.tls
	}
	return c.Conn
}

// Write sends replies.
func (c *conn) Write(p []byte) (int, error) {
	c.Conn.SetWriteDeadline(time.Now().Add(replyTimeout))
	return c.stream().Write(p)
}

// reply sends one reply; a text of several lines becomes a multi-line one.
func (c *conn) reply(code int, format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\r\n")
	lines := strings.Split(text, "\n")
	var b strings.Builder
	for i, line := range lines {
		line = printable(line)
		switch {
		case i == len(lines)-1:
			fmt.Fprintf(&b, "%d %s\r\n", code, line)
		case i == 0:
			fmt.Fprintf(&b, "%d-%s\r\n", code, line)
		default:
			fmt.Fprintf(&b, " %s\r\n", line)
		}
	}
	io.WriteString(c, b.String())
}

// printable keeps control characters out of replies and listings.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// Read gives goftp one line at most, so that nothing stays behind in its buffer
// when TLS begins or a transfer needs to watch the connection.
func (c *conn) Read(p []byte) (int, error) {
	if c.hangup {
		return 0, io.EOF
	}
	if farewell := c.await(); farewell != nil {
		return 0, c.sayGoodbye(farewell.Code, "%s", farewell.Msg)
	}
	for {
		if i := bytes.IndexByte(c.pending, '\n'); i >= 0 && i < maxLine {
			c.mu.Lock()
			c.idle = false
			c.mu.Unlock()
			n := copy(p, c.pending[:i+1])
			c.pending = c.pending[n:]
			return n, nil
		}
		if len(c.pending) >= maxLine {
			return 0, c.sayGoodbye(500, "Command lines end within %d bytes", maxLine)
		}
		if err := c.readErr; err != nil {
			return 0, c.ended(err)
		}
		c.fill()
	}
}

// await sets the deadline for the next command, or gives the error with which
// the client must go.
func (c *conn) await() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.farewell != nil {
		return c.farewell
	}
	c.idle = true
	if c.session == nil {
		c.Conn.SetReadDeadline(c.loginDeadline())
	} else {
		c.Conn.SetReadDeadline(time.Now().Add(c.engine.IdleTimeout))
	}
	return nil
}

// fill reads once from the client.
func (c *conn) fill() {
	var b [maxLine]byte
	n, err := c.stream().Read(b[:])
	c.pending = append(c.pending, c.telnet.strip(b[:n])...)
	c.readErr = err
}

// ended says what can be said at the end of the client's commands.
func (c *conn) ended(err error) error {
	c.mu.Lock()
	farewell := c.farewell
	c.mu.Unlock()
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case farewell != nil:
		return c.sayGoodbye(farewell.Code, "%s", farewell.Msg)
	case c.session == nil:
		return c.sayGoodbye(421, "No login within %v", c.engine.LoginTimeout)
	default:
		return c.sayGoodbye(421, "No command for %v", c.engine.IdleTimeout)
	}
}

func (c *conn) sayGoodbye(code int, format string, args ...any) error {
	c.reply(code, format, args...)
	c.hangup = true
	return io.EOF
}

// dismiss sends the client away now if it is idle, and else after its command.
func (c *conn) dismiss(why *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.farewell == nil {
		c.farewell = why
	}
	if c.idle {
		c.Conn.SetReadDeadline(longAgo)
	}
}

// cut ends whatever the connection is doing.
func (c *conn) cut() {
	c.cancel(errStopped)
	c.Conn.Close()
}

// Close is called by goftp at the session's end, and ends ours.
func (c *conn) Close() error {
	c.closing.Do(func() {
		c.cancel(net.ErrClosed)
		if c.channel != nil {
			c.channel.Close()
		}
		if c.hangup {
			c.linger()
		}
		if c.tls != nil {
			c.tls.Close()
		}
		c.Conn.Close()
		if c.session != nil {
			if err := c.session.Close(); err != nil {
				c.log.Warn("ftp: closing a session", "user", c.account, "error", err)
			}
		}
		c.engine.forget(c)
	})
	return nil
}

// linger reads what a client is still sending for a moment: closing with bytes
// unread resets the connection, and the last reply would be lost.
func (c *conn) linger() {
	if c.tcp != nil && c.tls == nil {
		c.tcp.CloseWrite()
	}
	c.Conn.SetReadDeadline(time.Now().Add(lastWords))
	io.CopyN(io.Discard, c.Conn, 64<<10)
}
