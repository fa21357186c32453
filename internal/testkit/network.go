package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Addresses returns n unused host:port pairs, for servers that get their address from a setting.
// They are on a random loopback address, so that no other program takes a port before its server
// listens, or while the server is down.
func Addresses(t testing.TB, n int) (list []string) {
	t.Helper()
	ip := fmt.Sprintf("127.%d.%d.%d", 128+rand.N(64), rand.N(256), 1+rand.N(254))
	for range n {
		l, err := net.Listen("tcp", ip+":0")
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0") // for systems with one loopback address
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

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

// Tests send requests by http.DefaultClient, over connections of its own. The end of any
// httptest.Server closes the unused connections of http.DefaultTransport, also those to other
// servers. A request of another test then fails if it reads an answer without a body at this
// moment.
func init() {
	http.DefaultClient.Transport = http.DefaultTransport.(*http.Transport).Clone()
}

// Tests ask no name server, because names of hosts in tests mean nothing outside them. Names of
// this machine, such as localhost, are still found.
func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("tests ask no name server")
	}}
}
