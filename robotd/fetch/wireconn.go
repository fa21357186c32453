package fetch

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// wireConn counts bytes, keeps to the bandwidth, and ends a connection that is too slow. The rate
// is judged in windows of time, so a fast start does not allow an endless trickle. Only one
// goroutine reads.
type wireConn struct {
	net.Conn
	in, out atomic.Int64 // of the current exchange

	limit   *rate.Limiter
	window  time.Duration
	minimum int64 // bytes required in each window

	mu        sync.Mutex // guards all below: HTTP/2 reads in a goroutine of its own
	windowEnd time.Time
	windowIn  int64
	ctx       context.Context
	progress  func()
}

func (f *Fetcher) newWireConn(ctx context.Context, c net.Conn) *wireConn {
	return &wireConn{
		Conn: c, limit: f.opt.Limit, window: f.opt.RateWindow,
		minimum:   max(1, int64(float64(f.opt.MinRate)*f.opt.RateWindow.Seconds())),
		windowEnd: time.Now().Add(f.opt.RateWindow), ctx: ctx,
	}
}

// begin starts an exchange that is bounded by ctx and reports its progress.
func (c *wireConn) begin(ctx context.Context, progress func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.progress = ctx, progress
	c.windowEnd, c.windowIn = time.Now().Add(c.window), 0
}

func (c *wireConn) Read(p []byte) (int, error) {
	if c.limit != nil {
		p = p[:min(len(p), c.limit.Burst())]
	}
	for {
		if err := c.Conn.SetReadDeadline(c.deadline()); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		c.in.Add(int64(n))
		if !c.count(n) {
			return n, errTooSlow
		}
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if n > 0 {
			c.passed(n)
		}
		return n, err
	}
}

func (c *wireConn) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.windowEnd
}

// count counts n received bytes, and reports whether the connection is fast enough.
func (c *wireConn) count(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windowIn += int64(n)
	if now := time.Now(); !now.Before(c.windowEnd) {
		if c.windowIn < c.minimum {
			return false
		}
		c.windowEnd, c.windowIn = now.Add(c.window), 0
	}
	return true
}

// passed reports progress and waits until the bandwidth allows the bytes that came. The server is
// held up because nothing is read. That is not its fault, so the window becomes longer by the wait.
func (c *wireConn) passed(n int) {
	c.mu.Lock()
	ctx, progress := c.ctx, c.progress
	c.mu.Unlock()
	if c.limit != nil {
		began := time.Now()
		if c.limit.WaitN(ctx, n) == nil {
			c.mu.Lock()
			c.windowEnd = c.windowEnd.Add(time.Since(began))
			c.mu.Unlock()
		}
	}
	if progress != nil {
		progress()
	}
}

func (c *wireConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}
