package stream

import (
	"context"
	"net"
	"sync"
)

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
