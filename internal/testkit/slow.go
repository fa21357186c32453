package testkit

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SmallBuffer is the receive buffer of DialSmall's connections, as the system counts it.
const SmallBuffer = 64 << 10

// DialSmall connects to a TCP address with a small receive buffer, so that hardly more bytes are
// acknowledged than the test has read.
func DialSmall(t testing.TB, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, SmallBuffer/2) // Linux doubles it
		})
		if err != nil {
			return err
		}
		return failed
	}}
	c, err := d.DialContext(context.Background(), "tcp", addr)
	Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Trickle writes bytes one by one, with a pause after each, until all are written or a write fails.
func Trickle(w io.Writer, bytes []byte, pause time.Duration) {
	for _, b := range bytes {
		if _, err := w.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// ReadSlowly reads up to n bytes, evenly spread over the duration within, and returns how many it
// has read.
func ReadSlowly(t testing.TB, r io.Reader, n int64, within time.Duration) int64 {
	t.Helper()
	const step = 32 << 10
	begun, got := time.Now(), int64(0)
	for got < n {
		m, err := io.CopyN(io.Discard, r, min(step, n-got))
		got += m
		if err != nil {
			return got
		}
		time.Sleep(time.Until(begun.Add(time.Duration(float64(within) * float64(got) / float64(n)))))
	}
	return got
}
