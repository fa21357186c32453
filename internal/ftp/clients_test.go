package ftp

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jlaffaye "github.com/jlaffaye/ftp"

	"sheaf/internal/testkit"
)

func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s has %d bytes, want %d (%v)", filepath.Base(name), len(got), len(want), err)
	}
}

func wantTime(t *testing.T, name string) {
	t.Helper()
	if info, err := os.Stat(name); err != nil || !info.ModTime().Truncate(time.Minute).Equal(modified.Truncate(time.Minute)) {
		t.Errorf("%s is not of %v: %v", name, modified, info.ModTime())
	}
}

func sampleTree() (*memory, string) {
	big := strings.Repeat("0123456789abcdef", 100_000)
	return newMemory(map[string]string{"/jp/ac/a.tar.gz": big, "/jp/ac/日本 語.txt": "text", "/jp/README": "read me\n"}), big
}

func TestCurl(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m, big := sampleTree()
	m.files["/half"] = []byte(big[:5000])
	r, dir := start(t, m, nil), t.TempDir()
	url := "ftp://alice:secret@" + r.addr
	testkit.Run(t, dir, "curl", "-sSf", "-R", "-o", "a", url+"/jp/ac/a.tar.gz")
	wantFile(t, dir+"/a", big)
	os.WriteFile(dir+"/part", []byte(big[:1000]), 0o600)
	testkit.Run(t, dir, "curl", "-sSf", "-C", "-", "-o", "part", url+"/jp/ac/a.tar.gz")
	wantFile(t, dir+"/part", big)
	if got := testkit.Run(t, dir, "curl", "-sSf", "-l", url+"/jp/"); got != "README\nac\n" && got != "README\r\nac\r\n" {
		t.Errorf("names: %q", got)
	}
	testkit.Run(t, dir, "curl", "-sSf", "-P", "-", "-o", "active", url+"/jp/README")
	wantFile(t, dir+"/active", "read me\n")
	testkit.Run(t, dir, "curl", "-sSf", "-T", "a", url+"/up")
	if got, _ := m.file("/up"); got != big {
		t.Errorf("uploaded %d bytes", len(got))
	}
	testkit.Run(t, dir, "curl", "-sSf", "-C", "-", "-T", "a", url+"/half")
	if got, _ := m.file("/half"); got != big {
		t.Errorf("resumed upload has %d bytes", len(got))
	}
}

func TestWget(t *testing.T) {
	t.Parallel()
	m, big := sampleTree()
	r, dir := start(t, m, nil), t.TempDir()
	testkit.Run(t, dir, "wget", "-q", "-r", "-nH", "ftp://alice:secret@"+r.addr+"/jp/")
	wantFile(t, dir+"/jp/ac/a.tar.gz", big)
	wantFile(t, dir+"/jp/README", "read me\n")
	if err := os.Truncate(dir+"/jp/ac/a.tar.gz", 1234); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, dir+"/jp/ac", "wget", "-q", "-c", "ftp://alice:secret@"+r.addr+"/jp/ac/a.tar.gz")
	wantFile(t, dir+"/jp/ac/a.tar.gz", big)
}

func TestLftp(t *testing.T) {
	t.Parallel()
	m, big := sampleTree()
	r, dir := start(t, m, nil), t.TempDir()
	testkit.Run(t, dir, "lftp", "-u", "alice,secret", "ftp://"+r.addr, "-e",
		"set net:max-retries 1; mirror /jp got; put -O /up got/ac/a.tar.gz; bye")
	wantFile(t, dir+"/got/ac/a.tar.gz", big)
	wantFile(t, dir+"/got/ac/日本 語.txt", "text")
	wantTime(t, dir+"/got/README")
	if got, _ := m.file("/up/a.tar.gz"); got != big {
		t.Errorf("uploaded %d bytes", len(got))
	}
}

func TestPython(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m, big := sampleTree()
	config, _ := certificate(t)
	r, dir := start(t, m, func(c *Config) { c.TLS, c.RequireTLS = config, true }), t.TempDir()
	host, port, _ := net.SplitHostPort(r.addr)
	out := testkit.Run(t, dir, "python3", "-c", `
import ftplib, io, ssl, sys
f = ftplib.FTP_TLS(context=ssl._create_unverified_context(), encoding="utf-8")
f.connect(sys.argv[1], int(sys.argv[2])); f.login("alice", "secret"); f.prot_p()
f.cwd("/jp/ac")
b = io.BytesIO(); f.retrbinary("RETR a.tar.gz", b.write, rest=100)
print(len(b.getvalue()), f.size("a.tar.gz"), sorted(n for n, _ in f.mlsd()), f.nlst())
f.storbinary("STOR /up", io.BytesIO(b"x" * 300000))
f.quit()
`, host, port)
	want := "1599900 1600000 ['a.tar.gz', '日本 語.txt'] ['a.tar.gz', '日本 語.txt']\n"
	if out != want {
		t.Errorf("ftplib printed %q, want %q", out, want)
	}
	if got, _ := m.file("/up"); got != strings.Repeat("x", 300000) || len(big) != 1600000 {
		t.Errorf("uploaded %d bytes", len(got))
	}
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	m, big := sampleTree()
	config, pool := certificate(t)
	r := start(t, m, func(c *Config) { c.TLS = config })
	for name, option := range map[string]jlaffaye.DialOption{
		"plain": jlaffaye.DialWithTimeout(testkit.Patience),
		"TLS":   jlaffaye.DialWithExplicitTLS(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := jlaffaye.Dial(r.addr, option)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Quit()
			if err := c.Login("alice", "secret"); err != nil {
				t.Fatal(err)
			}
			entries, err := c.List("/jp/ac")
			if err != nil || len(entries) != 2 || entries[0].Size != uint64(len(big)) || !entries[0].Time.Equal(modified) {
				t.Fatalf("listed %v, %v", entries, err)
			}
			if at, err := c.GetTime("/jp/README"); err != nil || !at.Equal(modified) {
				t.Errorf("time %v, %v", at, err)
			}
			f, err := c.RetrFrom("/jp/ac/a.tar.gz", 7)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(f); err != nil || string(b) != big[7:] {
				t.Errorf("read %d bytes, %v", len(b), err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Stor("/up-"+name, bytes.NewReader([]byte(big))); err != nil {
				t.Error(err)
			}
			if got, _ := m.file("/up-" + name); got != big {
				t.Errorf("uploaded %d bytes", len(got))
			}
		})
	}
}

// TestTLS talks TLS by hand: what curl checks, and what must not be.
func TestTLS(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m, big := sampleTree()
	config, pool := certificate(t)
	r, dir := start(t, m, func(c *Config) { c.TLS, c.RequireTLS = config, true }), t.TempDir()

	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]})
	os.WriteFile(dir+"/ca.pem", ca, 0o600)
	testkit.Run(t, dir, "curl", "-sSf", "--ssl-reqd", "--cacert", "ca.pem", "-o", "a", "ftp://alice:secret@"+r.addr+"/jp/ac/a.tar.gz")
	wantFile(t, dir+"/a", big)
	testkit.Run(t, dir, "curl", "-sSf", "--ssl-reqd", "--cacert", "ca.pem", "-T", "a", "ftp://alice:secret@"+r.addr+"/up")
	if got, _ := m.file("/up"); got != big {
		t.Errorf("uploaded %d bytes", len(got))
	}

	testkit.Run(t, dir, "lftp", "-u", "alice,secret", "ftp://"+r.addr, "-e",
		"set net:max-retries 1; set ssl:ca-file ca.pem; set ftp:ssl-protect-data true; get /jp/README; put -O /lftp a; bye")
	wantFile(t, dir+"/README", "read me\n")
	if got, _ := m.file("/lftp/a"); got != big {
		t.Errorf("lftp uploaded %d bytes", len(got))
	}

	c := dial(t, r.addr)
	c.expect("220")
	c.cmd("530", "USER alice")
	io.WriteString(c, "AUTH TLS\r\nUSER mallory\r\n")
	c.expect("503 Commands sent ahead")

	c = dial(t, r.addr)
	c.expect("220")
	c.cmd("234", "AUTH TLS")
	secure := secured(c, pool)
	secure.cmd("503", "AUTH TLS")
	secure.cmd("331", "USER alice")
	secure.cmd("230", "PASS secret")
	secure.cmd("229", "EPSV")
	secure.cmd("521", "RETR /jp/README")
	secure.cmd("200", "PBSZ 0")
	secure.cmd("534", "PROT C")
	secure.cmd("536", "PROT S")
	secure.cmd("200", "PROT P")

	// Data that ends without close_notify may have been cut by anybody.
	d := secure.data()
	secure.cmd("150", "STOR cut")
	td := tls.Client(d, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	io.WriteString(td, "half")
	d.Close()
	secure.expect("426")
	if _, ok := m.file("/cut"); ok {
		t.Error("a cut upload is taken for complete")
	}
}

// secured puts TLS under a raw client.
func secured(c *raw, pool *x509.CertPool) *raw {
	secure := tls.Client(c.Conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	return &raw{secure, c.t, bufio.NewReader(secure)}
}
