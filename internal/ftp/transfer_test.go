package ftp

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

func TestDownload(t *testing.T) {
	m := newMemory(map[string]string{"/jp/a.tar.gz": "0123456789", "/empty": ""})
	big := strings.Repeat("local bytes ", 300_000)
	name := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(name, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m.local["/big"] = f

	c := login(t, start(t, m, nil).addr)
	check := func(want, command string) {
		t.Helper()
		if got := c.fetch(command); got != want {
			t.Errorf("%s gave %d bytes, want %d", command, len(got), len(want))
		}
	}
	check("0123456789", "RETR /jp/a.tar.gz")
	check("", "RETR /empty")
	check(big, "RETR /big")
	c.cmd("350", "REST 1000000")
	check(big[1000000:], "RETR big")
	c.cmd("250", "CWD jp")
	c.cmd("350", "REST 4")
	check("456789", "RETR a.tar.gz")
	check("0123456789", "RETR a.tar.gz")
	c.cmd("350", "REST 10")
	check("", "RETR a.tar.gz")

	c.cmd("425", "RETR a.tar.gz")
	c.data()
	c.cmd("350", "REST 11")
	c.cmd("554", "RETR a.tar.gz")
	c.cmd("550", "RETR /jp")
	c.cmd("550", "RETR none")
	c.cmd("501", "REST -1")
	c.cmd("501", "RETR")
}

func TestUploadResumes(t *testing.T) {
	m := newMemory(nil)
	c := login(t, start(t, m, nil).addr)
	c.store("226", "hello ", "STOR a")
	c.store("226", "world", "APPE a")
	if got, _ := m.file("/a"); got != "hello world" {
		t.Errorf("after STOR and APPE: %q", got)
	}
	c.cmd("350", "REST 6")
	c.store("226", "there", "STOR a")
	if got, _ := m.file("/a"); got != "hello there" {
		t.Errorf("after REST and STOR: %q", got)
	}
	c.cmd("350", "REST 99")
	c.data()
	c.cmd("554", "STOR a")
	c.cmd("350", "REST 6")
	c.cmd("503", "APPE a")
	c.cmd("226", "ABOR")
	c.cmd("425", "STOR a")
	if got, _ := m.file("/a"); got != "hello there" {
		t.Errorf("after refusals: %q", got)
	}
	c.data()
	c.cmd("550", "STOR /read-only/x")
}

func TestUploadFailures(t *testing.T) {
	m := newMemory(nil)
	c := login(t, start(t, m, nil).addr)
	c.store("452 No space", "x", "STOR full")
	c.store("451 Local error", "x", "STOR crash")
	if got := c.store("451", "x", "STOR leak"); strings.Contains(got, "secret") {
		t.Errorf("reply tells what is inside: %q", got)
	}
	c.cmd("200", "NOOP")
	if _, aborts := m.counts(); aborts != 2 {
		t.Errorf("%d aborts, want 2", aborts)
	}
}

// TestKilledUploads kills clients in the midst of STOR, as the kernel does for a dead process, in
// every order: none may be taken for complete. One whose two connections end further apart than
// secondLook cannot be told from one that lives: so on a machine that stops between the two.
func TestKilledUploads(t *testing.T) {
	const each = 20
	reset := func(c *net.TCPConn) { c.SetLinger(0); c.Close() }
	closed := func(c *net.TCPConn) { c.Close() }
	for name, kill := range map[string]func(control, data *net.TCPConn){
		"close, data first":    func(c, d *net.TCPConn) { closed(d); closed(c) },
		"close, control first": func(c, d *net.TCPConn) { closed(c); closed(d) },
		"control a moment later": func(c, d *net.TCPConn) {
			closed(d)
			c.SetReadDeadline(time.Now().Add(secondLook / 5))
			c.Read(make([]byte, 1)) // there is no reply
			closed(c)
		},
		"reset":         func(c, d *net.TCPConn) { reset(d); reset(c) },
		"control reset": func(c, d *net.TCPConn) { closed(d); reset(c) },
		"data reset":    func(c, d *net.TCPConn) { reset(d) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(nil)
			r := start(t, m, nil)
			var wg sync.WaitGroup
			var apart atomic.Int64
			for i := range each {
				c := login(t, r.addr)
				d := c.data()
				c.cmd("150", "STOR f%d", i)
				io.WriteString(d, strings.Repeat("x", 1000*i))
				wg.Go(func() {
					began := time.Now()
					kill(c.Conn.(*net.TCPConn), d)
					if time.Since(began) > secondLook/2 {
						apart.Add(1)
					}
				})
			}
			wg.Wait()
			testkit.Until(t, "all uploads have ended", func() bool {
				commits, aborts := m.counts()
				return commits+aborts == each
			})
			if commits, aborts := m.counts(); commits > int(apart.Load()) {
				t.Errorf("%d committed, %d aborted of %d killed, %d of them slowly", commits, aborts, each, apart.Load())
			}
		})
	}
}

func TestAbor(t *testing.T) {
	m := newMemory(map[string]string{"/slow": "never sent"})
	m.gate = make(chan struct{})
	c := login(t, start(t, m, nil).addr)

	d := c.data()
	c.cmd("150", "STOR a")
	io.WriteString(d, "half")
	io.WriteString(c, "\xff\xf4\xff\xf2ABOR\r\n")
	c.expect("426")
	c.expect("226")

	d = c.data()
	c.cmd("150", "RETR slow")
	io.WriteString(c, "NOOP\r\nabor\r\n")
	c.expect("426")
	if _, err := io.ReadAll(d); err == nil {
		t.Error("an aborted download looks like a whole one")
	}
	c.expect("200")
	c.expect("226")

	if commits, aborts := m.counts(); commits != 0 || aborts != 1 || !errors.Is(m.aborts[0], ErrAborted) {
		t.Errorf("%d commits, aborts %v", commits, m.aborts)
	}
	// Also while the data connection is still awaited.
	c.cmd("229", "EPSV")
	c.cmd("150", "STOR b")
	c.cmd("426", "ABOR")
	c.expect("226")
	c.cmd("226", "ABOR")
}

func TestStalledData(t *testing.T) {
	m := newMemory(nil)
	c := login(t, start(t, m, func(c *Config) { c.DataTimeout = 50 * time.Millisecond }).addr)
	c.data()
	c.cmd("150", "STOR a")
	c.expect("426")
	c.cmd("229", "EPSV")
	c.cmd("150", "STOR a")
	c.expect("425")
	if commits, aborts := m.counts(); commits != 0 || aborts != 2 {
		t.Errorf("%d commits, %d aborts", commits, aborts)
	}
}

func TestTransfersAreReported(t *testing.T) {
	m := newMemory(map[string]string{"/a": "12345"})
	c := login(t, start(t, m, nil).addr)
	c.fetch("RETR a")
	m.noted(t)
	c.store("226", "123", "STOR b")
	c.store("452", "123", "STOR full")
	want := []transferred{{Downloaded, "/a", 5, nil}, {Uploaded, "/b", 3, nil}, {Uploaded, "/full", 0, &Error{452, "No space"}}}
	if got := m.transfers; !reflect.DeepEqual(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}

func BenchmarkRETR(b *testing.B) {
	const size = 64 << 20
	name := filepath.Join(b.TempDir(), "big")
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m := newMemory(nil)
	m.local["/sendfile"] = f
	m.files["/copied"] = make([]byte, size)
	r := start(b, m, nil)
	for _, path := range []string{"sendfile", "copied"} {
		b.Run(path, func(b *testing.B) {
			c := login(b, r.addr)
			b.SetBytes(size)
			for b.Loop() {
				d := c.data()
				c.cmd("150", "RETR %s", path)
				if n, err := io.Copy(io.Discard, d); err != nil || n != size {
					b.Fatal(n, err)
				}
				d.Close()
				c.expect("226")
			}
		})
	}
}
