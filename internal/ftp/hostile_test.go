package ftp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/testkit"
)

// inUse is the memory of the process, stacks and all, in bytes.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// Connections that do nothing after the login cost little each, keep nobody else out,
// and are all told when the service stops. By default there are 300;
// SHEAF_TEST_IDLE=10000 makes them ten thousand (both ends of them, in this process).
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
	r := start(t, newMemory(map[string]string{"/a": "12345"}), func(c *Config) {
		c.MaxConns, c.MaxPerAddr, c.MaxPerAccount, c.StopTimeout = n+1, n+1, n+1, 30*time.Second
	})
	before := inUse()
	idle := make([]net.Conn, n)
	greeting, small := "220 sheaf FTP service\r\n331 User name ok, password required\r\n230 Password ok, continue\r\n", make([]byte, 256)
	for i := range idle {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		io.WriteString(c, "USER alice\r\nPASS secret\r\n")
		if _, err := io.ReadFull(c, small[:len(greeting)]); err != nil || string(small[:len(greeting)]) != greeting {
			t.Fatalf("connection %d: %q, %v", i, small, err)
		}
		idle[i] = c
	}
	each := (inUse() - before) / uint64(n)
	t.Logf("%d idle connections cost %d bytes each, the clients' ends included", n, each)
	if each > 64<<10 {
		t.Errorf("an idle connection costs %d bytes", each)
	}
	c := login(t, r.addr)
	if got := c.fetch("RETR a"); got != "12345" {
		t.Errorf("fetched %q", got)
	}
	dial(t, r.addr).expect("421 Too many connections")
	r.stop()
	for i, c := range idle {
		if rest, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(rest, []byte("421 The service is stopping")) {
			t.Fatalf("connection %d is told %q, %v", i, rest, err)
		}
	}
}

// A client that opens data channels and never uses them holds one at a time.
func TestUnusedDataChannels(t *testing.T) {
	c := login(t, start(t, newMemory(nil), nil).addr)
	descriptors := func() int {
		all, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := descriptors()
	for range 300 {
		c.cmd("229", "EPSV")
		c.cmd("227", "PASV")
	}
	if n := descriptors() - before; n > 3 {
		t.Errorf("%d descriptors are open", n)
	}
}

// A client that takes next to nothing is let go, though a byte moves now and then.
func TestTricklingReader(t *testing.T) {
	testkit.Slow(t)
	name := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(name, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := newMemory(map[string]string{"/copied": string(make([]byte, 16<<20))})
	m.local["/sendfile"] = f
	r := start(t, m, func(c *Config) { c.DataTimeout = 500 * time.Millisecond })
	for _, path := range []string{"sendfile", "copied"} {
		t.Run(path, func(t *testing.T) {
			c := login(t, r.addr)
			d := c.data()
			d.SetReadBuffer(4 << 10)
			c.cmd("150", "RETR %s", path)
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				testkit.ReadSlowly(t, d, 64<<20, 10*time.Minute)
			}()
			c.expect("426 ")
			<-stop
			c.cmd("200", "NOOP")
		})
	}
}

// Who sends commands and reads no replies is let go, and does not fill the memory.
func TestRepliesNotTaken(t *testing.T) {
	testkit.Slow(t)
	r := start(t, newMemory(nil), nil)
	c := login(t, r.addr)
	c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	before := inUse()
	c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	sent := 0
	for {
		n, err := fmt.Fprintf(c, "HELP\r\n")
		sent += n
		if err != nil {
			break // the service takes no more before its replies are taken
		}
	}
	if now := inUse(); now > before+16<<20 {
		t.Errorf("%d bytes of commands cost %d bytes", sent, now-before)
	}
	login(t, r.addr).cmd("200", "NOOP")
}
