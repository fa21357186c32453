package stream_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sheaf/internal/stream"
	"sheaf/internal/testkit"
)

// pair returns both ends of a connection, of which the client's receive buffer is small.
func pair(t *testing.T) (server *stream.Conn, client net.Conn) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer raw.Close()
	client = testkit.DialSmall(t, raw.Addr().String())
	c, err := stream.Listener(raw).Accept()
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*stream.Conn), client
}

// write writes what the client's buffer cannot hold and the server's can.
func write(t *testing.T, c *stream.Conn) (size int64) {
	t.Helper()
	n, err := io.WriteString(c, strings.Repeat("x", 1<<20))
	testkit.Must(t, err)
	return int64(n)
}

// A peer that takes nothing, or has broken off, is not waited for for ever.
func TestDeadPeers(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(net.Conn){
		"takes nothing": func(net.Conn) {}, "breaks off": func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := pair(t)
			m := stream.NewMeter(server.TCPConn)
			size, begun := write(t, server), time.Now()
			f := stream.NewFollower()
			results := make(chan stream.Taken, 1)
			f.Follow(m, begun, size, 100*time.Millisecond, func(r stream.Taken) { results <- r })
			die(client)
			if r := testkit.Receive(t, "the end", results); !r.Lost || r.Acked >= size || r.At.Before(begun) {
				t.Errorf("%+v", r)
			}
			f.Close()
		})
	}
}

// A connection that is closed while it is held sends all it has, and its end, and is closed when it
// is let go.
func TestClosedWhileHeld(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	m := stream.NewMeter(server.TCPConn)
	size := write(t, server)
	release := server.Hold()
	testkit.Must(t, server.Close())
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("a closed connection can be read")
	}
	results := make(chan stream.Taken, 1)
	f := stream.NewFollower()
	f.Follow(m, time.Now(), size, time.Minute, func(r stream.Taken) {
		release()
		results <- r
	})
	got, err := io.ReadAll(client)
	if err != nil || int64(len(got)) != size {
		t.Errorf("the client read %d bytes of %d, %v", len(got), size, err)
	}
	if r := testkit.Receive(t, "the end", results); r.Lost || r.Acked < size {
		t.Errorf("%+v of %d", r, size)
	}
	if err := server.SetDeadline(time.Now()); err == nil {
		t.Error("the connection is still open")
	}
	f.Close()
}

// What was written is not guessed after a reset.
func TestWrittenIsUnknownAfterReset(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	m := stream.NewMeter(server.TCPConn)
	size := write(t, server)
	if n, known := m.Written(); n != size || !known {
		t.Errorf("%d bytes written, known %t; want %d", n, known, size)
	}
	testkit.Must(t, client.(*net.TCPConn).SetLinger(0))
	client.Close()
	testkit.Until(t, "the reset is seen", func() bool {
		_, known := m.Written()
		return !known
	})
}
