package stream

import (
	"context"
	"net"
	"sync"
)

// Conn is an accepted TCP connection whose Close can be put off. While a measure needs the
// connection, it stays open after Close, until the client has acknowledged the last bytes. The
// kernel also goes on sending after a close, but does not say how far it has come.
type Conn struct {
	*net.TCPConn // what it sends of files, the kernel does

	mu     sync.Mutex // guards what follows
	held   int        // measures that need it open
	closed bool
}

// Listener makes the TCP connections that l accepts Conns.
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

// ConnContext is for http.Server.ConnContext: ConnOf finds the connection of a request in it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// ConnOf returns the connection that a request came by; nil where it cannot be measured, as under
// TLS.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Hold keeps the connection from being closed altogether until release is called: it is shut in
// both directions instead, so that its peer sees what it would see otherwise.
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

// Close closes the connection, or shuts it where it is held.
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
	c.TCPConn.CloseRead() // whoever reads is woken; an error says that the peer was quicker
	return c.TCPConn.CloseWrite()
}
