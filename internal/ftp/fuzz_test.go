package ftp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pipes is a listener of connections within the process.
type pipes struct {
	next chan net.Conn
	done chan struct{}
}

// pipe is one of them. Its addresses are TCP's, as the engine wants them.
type pipe struct{ net.Conn }

func (pipe) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 21} }
func (pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.next:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.done); return nil }
func (l *pipes) Addr() net.Addr { return pipe{}.LocalAddr() }

// guarded is memory that checks what the engine asks it for.
type guarded struct{ *memorySession }

func (g guarded) check(name string) {
	if !path.IsAbs(name) || path.Clean(name) != name || Printable(name) != name {
		panic("the engine asks for the path " + name)
	}
}

func (g guarded) Stat(ctx context.Context, name string) (Entry, error) {
	g.check(name)
	return g.memorySession.stat(name)
}

func (g guarded) Open(ctx context.Context, name string, offset int64) (File, error) {
	g.check(name)
	if offset < 0 {
		panic("a negative offset")
	}
	return io.NopCloser(strings.NewReader("text")), nil
}

func (g guarded) Create(ctx context.Context, name string, offset int64) (Upload, error) {
	g.check(name)
	if offset < Append {
		panic("a negative offset")
	}
	return nil, &Error{452, "No room"}
}

func (g guarded) Allocate(_ context.Context, n int64) error {
	if n < 0 {
		panic("room for less than nothing")
	}
	return nil
}

type guardedLogin struct{ *memory }

func (g guardedLogin) Login(context.Context, string, string, net.Addr) (Session, error) {
	return guarded{&memorySession{g.memory}}, nil
}

// crashes notes what the engine logs as its own failures.
type crashes struct{ bytes.Buffer }

// replyLine is a line of a reply: a code, or the inside of one of many lines.
var replyLine = regexp.MustCompile(`^([1-5][0-5][0-9][ -]| |[a-z]+=)`)

// FuzzControl says anything over the control connection, before the login or after it.
// Nothing may crash, every reply is a line of FTP, and what the session is asked for is
// an absolute, clean path, an offset or a size.
func FuzzControl(f *testing.F) {
	for _, text := range []string{
		"FEAT\r\nSYST\r\nOPTS MLST type;size;\r\nMLST /\r\n",
		"PORT 127,0,0,1,4,1\r\nLIST -la\r\n", "PORT 1,2,3,4,5\r\nPORT 256,0,0,1,4,1\r\n",
		"EPRT |1|127.0.0.1|2000|\r\nRETR a.txt\r\n", "EPRT |2|::1|2000|\r\n", "EPRT |\r\nEPRT ||||\r\nEPRT xxxxx\r\n",
		"EPSV ALL\r\nEPSV 2\r\nPASV\r\n", "ALLO 9223372036854775807\r\nALLO -1\r\nALLO 10 R 5\r\nALLO 1e9\r\n",
		"REST 18446744073709551615\r\nREST 5\r\nSTOR ../../etc/passwd\r\n", "REST 3\r\nAPPE x\r\n",
		"CWD ..//./dir/../..\r\nPWD\r\nCDUP\r\nSIZE dir/../a.txt\r\nMDTM ~root\r\n",
		"\xff\xf4\xff\xf2ABOR\r\n", "\xff\xfa\x01\x02\xff\xf0NOOP\r\n", "USER x\r\nPASS y\r\nPASS\r\n",
		"AUTH TLS\r\nPBSZ 0\r\nPROT P\r\n", "HASH a.txt\r\nXSHA256 \"a.txt\" 0 5\r\nSITE CHMOD 777 x\r\nSTAT a.txt\r\n",
		"TYPE L 8\r\nMODE B\r\nSTRU R\r\nNLST *\r\nMLSD nowhere\r\n", strings.Repeat("x", MaxLine+1) + "\r\n",
	} {
		f.Add(true, []byte(text))
		f.Add(false, []byte(text))
	}
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	var log crashes
	start(f, guardedLogin{newMemory(map[string]string{"/a.txt": "text", "/dir/b.txt": "more"})}, func(c *Config) {
		c.Listener, c.Log = l, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		c.IdleTimeout, c.LoginTimeout, c.DataTimeout = 100*time.Millisecond, 100*time.Millisecond, time.Millisecond
		c.MaxPerAddr, c.MaxPerAccount = 1000, 1000
	})
	f.Fuzz(func(t *testing.T, login bool, said []byte) {
		t.Parallel()
		if login {
			said = append([]byte("USER u\r\nPASS secret\r\n"), said...)
		}
		client, server := net.Pipe()
		l.next <- pipe{server}
		go func() {
			client.Write(append(said, "\r\nQUIT\r\n"...)) // fails where the engine has had enough
		}()
		for r := bufio.NewReader(client); ; {
			line, err := r.ReadString('\n')
			if line == "" {
				break
			}
			text, ended := strings.CutSuffix(line, "\r\n")
			if err == nil && (!ended || Printable(text) != text || !replyLine.MatchString(text)) {
				t.Errorf("reply %q", line)
			}
			if err != nil {
				break
			}
		}
		client.Close()
		if log.Len() > 0 {
			t.Fatal(log.String())
		}
	})
}
