package ftp

import (
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sheaf/internal/testkit"
)

// urgently sends text as urgent data: its last byte is what the kernel takes out of the stream
// where nobody has asked for it.
func urgently(t *testing.T, c net.Conn, text string) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	testkit.Must(t, err)
	var failed error
	testkit.Must(t, raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), []byte(text), unix.MSG_OOB, nil)
		return failed != unix.EAGAIN
	}))
	testkit.Must(t, failed)
}

// The ways in which clients send an ABOR: as RFC 959 says, as Python's ftplib, and as others do.
var aborts = map[string]func(t *testing.T, c net.Conn){
	"IP and Synch": func(t *testing.T, c net.Conn) {
		io.WriteString(c, "\xff\xf4")
		urgently(t, c, "\xff\xf2")
		io.WriteString(c, "ABOR\r\n")
	},
	"IP and Synch at once": func(t *testing.T, c net.Conn) { urgently(t, c, "\xff\xf4\xff\xf2"); io.WriteString(c, "ABOR\r\n") },
	"Synch cut in two": func(t *testing.T, c net.Conn) {
		urgently(t, c, "\xff\xf4\xff")
		io.WriteString(c, "\xf2ABOR\r\n")
	},
	"all of it urgent": func(t *testing.T, c net.Conn) { urgently(t, c, "ABOR\r\n") },
	"not urgent":       func(t *testing.T, c net.Conn) { io.WriteString(c, "\xff\xf4\xff\xf2ABOR\r\n") },
}

// A download that its client aborts ends with 426, and the session goes on.
func TestUrgentAbortOfADownload(t *testing.T) {
	t.Parallel()
	for name, abort := range aborts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(map[string]string{"/slow": "12345"})
			m.gate = make(chan struct{})
			defer close(m.gate)
			c := login(t, start(t, m, nil).addr)
			c.data()
			c.cmd("150", "RETR slow")
			abort(t, c.Conn)
			c.expect("426")
			c.expect("226")
			c.cmd("257", "PWD")
		})
	}
}

// An upload that its client aborts, and then closes, is not taken for a whole one, also where the
// handler vouches for what is whole and the engine waits for nothing.
func TestUrgentAbortOfAnUpload(t *testing.T) {
	t.Parallel()
	for name, abort := range aborts {
		for kind, h := range map[string]func(*memory) Handler{
			"upload": func(m *memory) Handler { return m }, "self-proving upload": func(m *memory) Handler { return proving{m} },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				m := newMemory(nil)
				c := login(t, start(t, h(m), nil).addr)
				d := c.data()
				c.cmd("150", "STOR half")
				io.WriteString(d, "half of i")
				abort(t, c.Conn)
				d.Close()
				c.expect("426")
				c.expect("226")
				if commits, aborts := m.counts(); commits != 0 || aborts != 1 {
					t.Errorf("%d commits and %d aborts, want an abort", commits, aborts)
				}
				c.cmd("257", "PWD")
			})
		}
	}
}

// proving is a handler whose uploads prove themselves.
type proving struct{ *memory }

type provingSession struct{ Session }

type provingUpload struct{ Upload }

func (provingUpload) SelfProving() {}

// Python's ftplib sends its ABOR as urgent data, the line end too, and goes on after it.
func TestFtplibAborts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	python := testkit.Tool(t, "python3")
	m := newMemory(map[string]string{"/big": strings.Repeat("x", 8<<20)})
	r := start(t, m, nil)
	host, port, err := net.SplitHostPort(r.addr)
	testkit.Must(t, err)
	script := `
import ftplib, sys
f = ftplib.FTP(); f.connect(sys.argv[1], int(sys.argv[2]), timeout=20); f.login("alice", "secret")
d = f.transfercmd("RETR /big"); d.recv(1000)
print(f.abort()[:3]); d.close(); print(f.voidresp()[:3], f.pwd())
d = f.transfercmd("STOR /half"); d.sendall(b"half of i")
print(f.abort()[:3]); d.close(); print(f.voidresp()[:3], f.pwd())
f.quit()
`
	out, err := exec.CommandContext(t.Context(), python, "-c", script, host, port).CombinedOutput()
	if want := "426\n226 /\n426\n226 /\n"; err != nil || string(out) != want {
		t.Errorf("ftplib: %v, it printed %q, want %q", err, out, want)
	}
	if _, ok := m.file("/half"); ok {
		t.Error("the aborted upload is there")
	}
}

func (p proving) Login(ctx context.Context, user, password string, remote net.Addr) (Session, error) {
	s, err := p.memory.Login(ctx, user, password, remote)
	return provingSession{s}, err
}

func (s provingSession) Create(ctx context.Context, path string, offset int64) (Upload, error) {
	u, err := s.Session.Create(ctx, path, offset)
	return provingUpload{u}, err
}
