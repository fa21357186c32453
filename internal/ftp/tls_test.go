package ftp

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	jlaffaye "github.com/jlaffaye/ftp"

	"sheaf/internal/testkit"
)

// secureServer is a server with explicit and implicit TLS, and what it has counted.
type secureServer struct {
	*running
	host, port string // of the explicit one
	implicit   string // host:port
	counts     *Counts
	pool       *x509.CertPool
}

func startSecure(t *testing.T, h Handler, change func(*Config)) *secureServer {
	t.Helper()
	config, pool := certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := &secureServer{implicit: l.Addr().String(), counts: new(Counts), pool: pool}
	s.running = start(t, h, func(c *Config) {
		c.TLS, c.Implicit, c.Counts, c.RequireTLS = config, l, s.counts, true
		if change != nil {
			change(c)
		}
	})
	s.host, s.port, _ = net.SplitHostPort(s.addr)
	return s
}

// resumed expects that all data connections so far, at least n, continued a session.
func (s *secureServer) resumed(t *testing.T, n int64) {
	t.Helper()
	if secured, resumed := s.counts.Secured.Load(), s.counts.Resumed.Load(); secured < n || resumed != secured {
		t.Errorf("of %d data connections %d continued a session, want all of at least %d", secured, resumed, n)
	}
}

// Clients that continue the control connection's TLS session on data connections, as lftp and
// FileZilla do to be sure that both have the same server, can do so in both versions of TLS, by
// AUTH and without.
func TestSessionReuse(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		m, big := sampleTree()
		s := startSecure(t, m, func(c *Config) { c.TLS.MaxVersion = version })
		for name, dial := range map[string]func(c *tls.Config) (*jlaffaye.ServerConn, error){
			"explicit": func(c *tls.Config) (*jlaffaye.ServerConn, error) {
				return jlaffaye.Dial(s.addr, jlaffaye.DialWithExplicitTLS(c))
			},
			"implicit": func(c *tls.Config) (*jlaffaye.ServerConn, error) {
				return jlaffaye.Dial(s.implicit, jlaffaye.DialWithTLS(c))
			},
		} {
			c, err := dial(&tls.Config{RootCAs: s.pool, ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(4)})
			testkit.Must(t, err)
			testkit.Must(t, c.Login("alice", "secret"))
			testkit.Must(t, c.Stor("/up", strings.NewReader(big)))
			f, err := c.Retr("/up")
			testkit.Must(t, err)
			if b, err := io.ReadAll(f); err != nil || string(b) != big {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
			testkit.Must(t, f.Close())
			testkit.Must(t, c.Quit())
		}
		s.resumed(t, 4)
	}
}

func TestSessionReuseByLftp(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m, big := sampleTree()
	s, dir := startSecure(t, m, nil), t.TempDir()
	for i, url := range []string{"ftp://" + s.addr, "ftps://" + s.implicit} {
		got := fmt.Sprint("got", i)
		testkit.Run(t, dir, "lftp", "-u", "alice,secret", url, "-e",
			"set net:max-retries 1; set ssl:verify-certificate no; set ftp:ssl-force true; set ftp:ssl-protect-data true; mirror --parallel=1 /jp "+got+"; put -O /lftp "+got+"/ac/a.tar.gz; bye")
		wantFile(t, dir+"/"+got+"/ac/a.tar.gz", big)
		if up, _ := m.file("/lftp/a.tar.gz"); up != big {
			t.Errorf("lftp uploaded %d bytes", len(up))
		}
	}
	s.resumed(t, 8)
}

// Python's ftplib continues no session; a client made of it that does is as strict as FileZilla.
func TestSessionReuseByPython(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m, _ := sampleTree()
	s := startSecure(t, m, nil)
	out := testkit.Run(t, t.TempDir(), "python3", "-c", `
import ftplib, io, ssl, sys
class Strict(ftplib.FTP_TLS):
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        conn = self.context.wrap_socket(conn, server_hostname=self.host, session=self.sock.session)
        assert conn.session_reused, "the session is not continued"
        return conn, size
for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
    context = ssl._create_unverified_context()
    context.minimum_version = context.maximum_version = version
    f = Strict(context=context, encoding="utf-8")
    f.connect(sys.argv[1], int(sys.argv[2])); f.login("alice", "secret"); f.prot_p()
    b = io.BytesIO(); f.retrbinary("RETR /jp/ac/a.tar.gz", b.write)
    f.storbinary("STOR /up", io.BytesIO(b"x" * 300000))
    print(version.name, len(b.getvalue()))
    f.quit()
`, s.host, s.port)
	if out != "TLSv1_2 1600000\nTLSv1_3 1600000\n" {
		t.Errorf("the client printed %q", out)
	}
	s.resumed(t, 4)
}

// After PROT P, PROT C is refused where data must be encrypted, and where TLS began at once; data
// stay encrypted then. Elsewhere it is honoured, and the reply says so.
func TestClearDataAfterPrivate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		implicit, required, clear bool
	}{{false, true, false}, {true, true, false}, {true, false, false}, {false, false, true}} {
		m, _ := sampleTree()
		s := startSecure(t, m, func(config *Config) { config.RequireTLS = c.required })
		at := s.addr
		if c.implicit {
			at = s.implicit
		}
		nc, err := net.Dial("tcp", at)
		testkit.Must(t, err)
		defer nc.Close()
		client := &raw{Conn: nc, t: t}
		if !c.implicit {
			client = dial(t, at)
			client.expect("220")
			client.cmd("234", "AUTH TLS")
		}
		client = secured(client, s.pool)
		if c.implicit {
			client.expect("220")
		}
		client.cmd("331", "USER alice")
		client.cmd("230", "PASS secret")
		client.cmd("200", "PBSZ 0")
		client.cmd("200", "PROT P")
		data := client.data() // chosen while data are private
		if c.clear {
			client.cmd("200 Data channels are in clear text", "PROT C")
		} else {
			client.cmd("534", "PROT C")
		}
		client.cmd("150", "RETR /jp/README")
		var from io.Reader = data
		if !c.clear {
			from = tls.Client(data, &tls.Config{RootCAs: s.pool, ServerName: "127.0.0.1"})
		}
		if got, err := io.ReadAll(from); err != nil || string(got) != "read me\n" {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
		client.expect("226")
	}
}

// Where TLS begins at once, nothing crosses in clear text, also without PROT.
func TestImplicit(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m, big := sampleTree()
	s, dir := startSecure(t, m, func(c *Config) { c.MaxConns = 2 }), t.TempDir()
	testkit.Run(t, dir, "curl", "-sSf", "-k", "-o", "a", "ftps://alice:secret@"+s.implicit+"/jp/ac/a.tar.gz")
	wantFile(t, dir+"/a", big)
	testkit.Run(t, dir, "curl", "-sSf", "-k", "-T", "a", "ftps://alice:secret@"+s.implicit+"/up")
	if got, _ := m.file("/up"); got != big {
		t.Errorf("uploaded %d bytes", len(got))
	}
	testkit.Until(t, "curl's connections have gone", func() bool { return s.counts.Open.Load() == 0 })

	nc, err := net.Dial("tcp", s.implicit)
	testkit.Must(t, err)
	defer nc.Close()
	c := secured(&raw{Conn: nc, t: t}, s.pool)
	c.expect("220")
	c.cmd("503", "AUTH TLS")
	c.cmd("331", "USER alice")
	c.cmd("230", "PASS secret")
	d := c.data()
	c.cmd("150", "RETR /jp/README")
	got, err := io.ReadAll(tls.Client(d, &tls.Config{RootCAs: s.pool, ServerName: "127.0.0.1"}))
	if err != nil || string(got) != "read me\n" {
		t.Errorf("without PROT the data are %q, %v", got, err)
	}
	c.expect("226")

	// A silent client holds up no other. Over the limit, one is turned away without a handshake.
	silent, err := net.Dial("tcp", s.implicit)
	testkit.Must(t, err)
	defer silent.Close()
	testkit.Until(t, "the silent client is there", func() bool { return s.counts.Open.Load() == 2 })
	third := dial(t, s.addr)
	third.expect("220")
	c.cmd("200", "NOOP")
	if b, err := io.ReadAll(silent); len(b) > 0 && err == nil {
		t.Errorf("the silent client, the longest here without a login, was told %q", b)
	}
}

// A browser that is led here gets no answer that it could take for a web page.
func TestBrowserIsRefused(t *testing.T) {
	t.Parallel()
	s := startSecure(t, newMemory(nil), nil)
	for protocols, refused := range map[string]bool{"h2 http/1.1": true, "http/1.1": true, "ftp": false, "x-filezilla-ftp ftp": false, "": false} {
		c, err := tls.Dial("tcp", s.implicit, &tls.Config{RootCAs: s.pool, ServerName: "127.0.0.1", NextProtos: strings.Fields(protocols)})
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 4))
			c.Close()
		}
		if (err != nil) != refused {
			t.Errorf("a client that speaks %q: %v", protocols, err)
		}
	}
}
