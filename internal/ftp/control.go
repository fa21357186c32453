package ftp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"sheaf/internal/peer"
)

// MaxLine is the longest command, in bytes, with its line end.
const MaxLine = 4096

const (
	replyTimeout = 30 * time.Second // for a client to take a reply
	lingerTime   = time.Second      // for a client to take the last reply before the connection is closed
)

// Timeouts limit how long a client may be silent.
type Timeouts struct {
	Login time.Duration // from the connection to the login
	Idle  time.Duration // between two commands, after the login
}

// controlConn is a control connection in the form in which goftp reads it: a net.Conn whose Read
// returns at most one command. So nothing stays behind in goftp's buffer when TLS begins or a
// transfer starts.
//
// Its methods belong to the connection's goroutine, except Dismiss and Cut, which any goroutine may
// call. While a Watch runs, only the Watch reads.
type controlConn struct {
	net.Conn              // the TCP connection, below TLS; a PROXY header has been read from it
	tcp      *net.TCPConn // the same connection without the reader of PROXY headers; nil in some tests
	tls      *tls.Conn    // nil before AUTH
	timeouts Timeouts
	opened   time.Time
	loggedIn bool

	pending []byte // read, but not yet returned by Read
	readErr error  // error of the read after pending
	telnet  telnet
	hungUp  bool // no command is read any more

	mu      sync.Mutex // guards idle and dismiss
	idle    bool       // true while Read waits for the client
	dismiss *reply     // to be sent as soon as the connection is idle; nil: the client may stay
}

type reply struct {
	code int
	text string
}

// newControl returns the control connection over c. Its error is not fatal: it means that an ABOR
// as urgent data may be missed.
func newControl(c net.Conn, timeouts Timeouts) (*controlConn, error) {
	conn := &controlConn{Conn: c, tcp: peer.TCP(c), timeouts: timeouts, opened: time.Now()}
	if conn.tcp == nil {
		return conn, nil
	}
	return conn, urgentInLine(conn.tcp)
}

// LoggedIn notes a successful login: from now on the idle timeout applies.
func (c *controlConn) LoggedIn() { c.loggedIn = true }

// Encrypted reports whether commands and replies are sent over TLS.
func (c *controlConn) Encrypted() bool { return c.tls != nil }

// StartTLS sends all further bytes over secure. The handshake of secure over c.Conn is done before,
// or by the first reply.
func (c *controlConn) StartTLS(secure *tls.Conn) { c.tls = secure }

// Pipelined reports whether the client has sent bytes behind the current command.
func (c *controlConn) Pipelined() bool { return len(c.pending) > 0 }

// stream returns the connection for commands and replies: TCP, or TLS over it.
func (c *controlConn) stream() net.Conn {
	if c.tls != nil {
		return c.tls
	}
	return c.Conn
}

// Write sends bytes of replies. It fails if the client does not take them within replyTimeout.
func (c *controlConn) Write(p []byte) (int, error) {
	c.Conn.SetWriteDeadline(time.Now().Add(replyTimeout))
	return c.stream().Write(p)
}

// Reply sends one reply. A text of several lines becomes a multi-line reply (RFC 959, 4.2).
func (c *controlConn) Reply(code int, text string) {
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	var b strings.Builder
	for i, line := range lines {
		line = Printable(line)
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

// Printable returns s with a question mark for each control character, which could forge lines of
// replies and listings.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// HangUp makes the next Read return io.EOF, so that goftp closes the connection after the current
// command.
func (c *controlConn) HangUp() { c.hungUp = true }

// Goodbye sends a last reply and hangs up. It returns io.EOF.
func (c *controlConn) Goodbye(code int, text string) error {
	c.Reply(code, text)
	c.HangUp()
	return io.EOF
}

// Dismiss says goodbye with the given reply: at once if the client is idle, otherwise after the
// current command. Only the first call counts.
func (c *controlConn) Dismiss(code int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismiss == nil {
		c.dismiss = &reply{code, text}
	}
	if c.idle {
		c.Conn.SetReadDeadline(longAgo)
	}
}

// Read returns one command with its line end, or io.EOF after the last command. If the client is
// dismissed, is silent for too long or sends too long a line, it gets a reply before io.EOF.
func (c *controlConn) Read(p []byte) (int, error) {
	if c.hungUp {
		return 0, io.EOF
	}
	if d := c.awaitCommand(); d != nil {
		return 0, c.Goodbye(d.code, d.text)
	}
	for {
		if i := bytes.IndexByte(c.pending, '\n'); i >= 0 && i < MaxLine {
			c.mu.Lock()
			c.idle = false
			c.mu.Unlock()
			n := copy(p, c.pending[:i+1])
			c.pending = c.pending[n:]
			return n, nil
		}
		if len(c.pending) >= MaxLine {
			return 0, c.Goodbye(500, fmt.Sprintf("Command lines end within %d bytes", MaxLine))
		}
		if c.readErr != nil {
			return 0, c.ended(c.readErr)
		}
		c.fill()
	}
}

// awaitCommand sets the deadline for the next command. If the client has been dismissed it returns
// the reply to send instead.
func (c *controlConn) awaitCommand() *reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismiss != nil {
		return c.dismiss
	}
	c.idle = true
	if c.loggedIn {
		c.Conn.SetReadDeadline(time.Now().Add(c.timeouts.Idle))
	} else {
		c.Conn.SetReadDeadline(c.opened.Add(c.timeouts.Login))
	}
	return nil
}

// fill reads once from the client, into pending.
func (c *controlConn) fill() {
	var b [MaxLine]byte
	n, err := c.stream().Read(b[:])
	c.pending = append(c.pending, c.telnet.strip(b[:n])...)
	c.readErr = err
}

// ended returns the error for Read after err. After a deadline it says goodbye first.
func (c *controlConn) ended(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	d := c.dismiss
	c.mu.Unlock()
	switch {
	case d != nil:
		return c.Goodbye(d.code, d.text)
	case c.loggedIn:
		return c.Goodbye(421, fmt.Sprintf("No command for %v", c.timeouts.Idle))
	}
	return c.Goodbye(421, fmt.Sprintf("No login within %v", c.timeouts.Login))
}

// Cut closes the TCP connection at once.
func (c *controlConn) Cut() { c.Conn.Close() }

// Close closes the connection. After a goodbye it first reads what the client is still sending: if
// bytes were unread, closing would reset the connection, and the client would lose the last reply.
func (c *controlConn) Close() error {
	if c.hungUp {
		if c.tcp != nil && c.tls == nil {
			c.tcp.CloseWrite()
		}
		c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
		io.CopyN(io.Discard, c.Conn, 64<<10)
	}
	if c.tls != nil {
		c.tls.Close()
	}
	return c.Conn.Close()
}

// Command bytes of Telnet (RFC 854), which clients put around an urgent ABOR.
const (
	telnetSE   = 240
	telnetSB   = 250
	telnetWILL = 251
	telnetDONT = 254
	telnetIAC  = 255
)

// telnet removes Telnet commands from the bytes of a control connection. A command may be spread
// over several calls.
type telnet struct{ state telnetState }

type telnetState int8

const (
	inData       telnetState = iota
	afterIAC                 // the next byte is a command
	beforeOption             // the next byte is the option of WILL, WONT, DO or DONT
	inSub                    // between IAC SB and IAC SE
	inSubIAC                 // after an IAC between IAC SB and IAC SE
)

// strip removes the commands from b, in place.
func (t *telnet) strip(b []byte) []byte {
	out := b[:0]
	for _, x := range b {
		switch t.state {
		case inData:
			if x == telnetIAC {
				t.state = afterIAC
			} else {
				out = append(out, x)
			}
		case afterIAC:
			switch {
			case x == telnetSB:
				t.state = inSub
			case x >= telnetWILL && x <= telnetDONT:
				t.state = beforeOption
			case x >= telnetSE && x != telnetIAC:
				t.state = inData
			default:
				// IAC IAC stands for one byte 255. A byte that is not a command is text after a
				// Data Mark that was sent as urgent data.
				out = append(out, x)
				t.state = inData
			}
		case beforeOption:
			t.state = inData
		case inSub:
			if x == telnetIAC {
				t.state = inSubIAC
			}
		case inSubIAC:
			t.state = inSub
			if x == telnetSE {
				t.state = inData
			}
		}
	}
	return out
}
