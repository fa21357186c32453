package mirror

import (
	"bufio"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sheaf/internal/ftp"
)

// TestSecure mirrors by HTTPS and by FTP with TLS on all channels, from a service whose
// certificate is of an authority that only a file tells of.
func TestSecure(t *testing.T) {
	s := newSite(t)
	s.publish(day, 2, 50_000, "www.waseda.ac.jp", "www.keio.ac.jp")
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	secure := s.serveFTP(ftp.Config{TLS: server.TLS, RequireTLS: true})
	for _, url := range []string{
		strings.Replace(server.URL, "https://", "https://alice:alice@", 1),
		"ftpes://alice:alice@" + secure,
	} {
		opt := s.options("http", t.TempDir())
		opt.URL, opt.CAFile = url, authority
		opt.Forms = append(opt.Forms, "current.tar.gz")
		if sum := s.mirror(opt); sum.Fetched != 6 {
			t.Errorf("%s: %+v", url, sum)
		}
		s.equal(opt.Dir, japan, opt.Forms...)

		opt.Dir, opt.CAFile = t.TempDir(), ""
		if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%s, of an authority that is not trusted: %v", url, err)
		}
	}
	opt := s.options("ftp", t.TempDir())
	opt.URL = "ftp://alice:alice@" + secure
	if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("in clear text: %v", err)
	}
	opt.URL = "ftpes://alice:alice@" + s.ftp
	if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "no TLS") {
		t.Errorf("of a service without TLS: %v", err)
	}
	opt = s.options("ftp", t.TempDir())
	opt.CAFile = filepath.Join(opt.Dir, "none.pem")
	if err := os.WriteFile(opt.CAFile, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("an authority that is none: %v", err)
	}
}

// TestPassive mirrors from a service that tells in its replies to PASV an address where nobody
// can reach it: once with EPSV, which names none, and once where something on the way refuses EPSV.
func TestPassive(t *testing.T) {
	s := newSite(t)
	s.publish(day, 1, 1000, "www.waseda.ac.jp")
	inner := s.serveFTP(ftp.Config{PublicIP: netip.MustParseAddr("192.0.2.1")})
	for name, refused := range map[string]string{"EPSV": "PASV", "PASV": "EPSV"} {
		var sent, kept atomic.Int64
		opt := s.options("ftp", t.TempDir())
		opt.URL = "ftp://alice:alice@" + between(t, inner, func(command string) string {
			switch command {
			case name:
				sent.Add(1)
			case refused:
				kept.Add(1)
				return "502 Not known here\r\n"
			}
			return ""
		})
		s.mirror(opt)
		s.equal(opt.Dir, japan)
		if sent.Load() == 0 || name == "PASV" && kept.Load() == 0 {
			t.Errorf("%s was used %d times, %s refused %d times", name, sent.Load(), refused, kept.Load())
		}
	}
}

// between stands before an FTP service and answers those commands itself to which answer has one.
func between(t *testing.T, inner string, answer func(command string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	speak := func(client, server net.Conn) {
		defer client.Close()
		defer server.Close()
		running.Go(func() { io.Copy(client, server); client.Close() })
		for in := bufio.NewReader(client); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			command, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			to, text := server, line
			if reply := answer(command); reply != "" {
				to, text = client, reply
			}
			if _, err := io.WriteString(to, text); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", inner)
			if err != nil {
				client.Close()
				return
			}
			running.Go(func() { speak(client, server) })
		}
	})
	return l.Addr().String()
}
