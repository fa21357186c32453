package fetch

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// wireConn counts what passes and ends a connection that is too slow. The rate
// is judged window by window, so that a fast start does not pay for an endless
// trickle. Only one goroutine reads.
type wireConn struct {
	net.Conn
	in, out atomic.Int64

	window    time.Duration
	minimum   int64 // bytes that each window must bring
	windowEnd time.Time
	windowIn  int64
}

func newWireConn(c net.Conn, minRate int64, window time.Duration) *wireConn {
	return &wireConn{
		Conn:      c,
		window:    window,
		minimum:   max(1, int64(float64(minRate)*window.Seconds())),
		windowEnd: time.Now().Add(window),
	}
}

func (c *wireConn) Read(p []byte) (int, error) {
	for {
		if err := c.Conn.SetReadDeadline(c.windowEnd); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		c.in.Add(int64(n))
		c.windowIn += int64(n)
		if now := time.Now(); !now.Before(c.windowEnd) {
			if c.windowIn < c.minimum {
				return n, errTooSlow
			}
			c.windowEnd, c.windowIn = now.Add(c.window), 0
		}
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		return n, err
	}
}

func (c *wireConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}
