package service

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/peer"
)

// pipes is a listener whose connections are pipes, so that a synctest bubble holds both ends.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

const request = "GET / HTTP/1.1\r\nHost: archive.example\r\n"

// TestSilentClients: who sends nothing, or a header byte by byte, is let go after seconds,
// also in a second request; who is idle between two, after minutes.
func TestSilentClients(t *testing.T) {
	trickle := func(c net.Conn) error {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "X-%d: y\r\n", i); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
	}
	answered := func(c net.Conn) {
		io.WriteString(c, request+"\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(io.Discard, resp.Body)
	}
	for name, c := range map[string]struct {
		do    func(net.Conn)
		after time.Duration
	}{
		"nothing":          {func(net.Conn) {}, headerTime},
		"half a header":    {func(c net.Conn) { io.WriteString(c, request) }, headerTime},
		"trickling header": {func(c net.Conn) { io.WriteString(c, request); go trickle(c) }, headerTime},
		"idle":             {answered, idleTime},
		"second trickles":  {func(c net.Conn) { answered(c); io.WriteString(c, request); go trickle(c) }, headerTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := make(pipes)
				server := httpServer(peer.Limits{}, nil, hello, slog.New(slog.DiscardHandler))
				go server.Serve(listener)
				client, conn := net.Pipe()
				listener <- conn
				begun := time.Now()
				c.do(client)
				rest, err := io.ReadAll(client)
				if took := time.Since(begun); err != nil || took < c.after || took > c.after+2*time.Second || strings.Contains(string(rest), "200 OK") {
					t.Errorf("let go after %v with %q, %v", took, rest, err)
				}
				client.Close()
				server.Close()
				time.Sleep(time.Minute) // until who trickles has noticed
			})
		})
	}
}

// TestLargeHeaders: a header without end is refused before much of it is read.
func TestLargeHeaders(t *testing.T) {
	addr := listen(t, peer.Limits{})
	for name, text := range map[string]string{"many": strings.Repeat("X-A: b\r\n", maxHeader), "one": "X-A: " + strings.Repeat("b", 8*maxHeader)} {
		c := dial(t, addr)
		go io.WriteString(c, request+text+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}

// TestIdleConnections: connections that do nothing, before a request or after one, cost
// little each, and keep nobody out where there are as many as may be. By default there are
// 300; SHEAF_TEST_IDLE=10000 makes them ten thousand (both ends of them, in this process).
func TestIdleConnections(t *testing.T) {
	n := 300
	if text := os.Getenv("SHEAF_TEST_IDLE"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(limit.Cur-100) / 2; n > most {
		t.Logf("only %d connections: the system allows %d descriptors", most, limit.Cur)
		n = most
	}
	addr := listen(t, peer.Limits{Total: n})
	get := func(c net.Conn) error {
		if _, err := io.WriteString(c, request+"\r\n"); err != nil {
			return err
		}
		answer, small := []byte(nil), make([]byte, 512)
		for !strings.HasSuffix(string(answer), "ok") {
			k, err := c.Read(small)
			if err != nil {
				return err
			}
			answer = append(answer, small[:k]...)
		}
		return nil
	}
	before := inUse()
	idle := make([]net.Conn, n)
	for i := range idle {
		idle[i] = dial(t, addr)
		if i%2 == 0 {
			if err := get(idle[i]); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	after := inUse()
	each := (max(before, after) - before) / uint64(n)
	t.Logf("%d idle connections cost %d bytes each, the clients' ends included", n, each)
	if each > 64<<10 {
		t.Errorf("an idle connection costs %d bytes", each)
	}
	for range 10 {
		if err := get(dial(t, addr)); err != nil {
			t.Fatalf("beside %d idle connections: %v", n, err)
		}
	}
	if err := get(idle[(n-2)&^1]); err != nil {
		t.Errorf("one that was idle for a short time was let go: %v", err)
	}
	gone := 0
	for _, c := range idle {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Read(func(fd uintptr) bool {
			_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if err != unix.EAGAIN {
				gone++
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if gone != 10 {
		t.Errorf("%d idle connections were let go for 10 new ones", gone)
	}
}

// inUse is the memory of the process, stacks and all, in bytes.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// listen serves on loopback until the test ends.
func listen(t *testing.T, limits peer.Limits) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpServer(limits, nil, hello, slog.New(slog.DiscardHandler))
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	return c
}
