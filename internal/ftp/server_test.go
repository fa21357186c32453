package ftp

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// running is a server under test.
type running struct {
	addr string
	stop func()     // ends the context
	done chan error // what Run gave
}

func start(t testing.TB, h Handler, change func(*Config)) *running {
	t.Helper()
	cfg := Config{Log: slog.New(slog.DiscardHandler), StopTimeout: time.Second}
	if change != nil {
		change(&cfg)
	}
	if cfg.Listener == nil {
		var err error
		cfg.Listener, err = net.Listen("tcp", "127.0.0.1:0")
		testkit.Must(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cfg.Listener.Addr().String(), cancel, make(chan error, 1)}
	go func() { r.done <- Run(ctx, cfg, h); close(r.done) }()
	t.Cleanup(func() {
		cancel()
		if err, first := <-r.done; first && err != nil {
			t.Error(err)
		}
	})
	return r
}

// raw is a client that says exactly what it is told.
type raw struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(testkit.Patience))
	return &raw{nc, t, bufio.NewReader(nc)}
}

func login(t testing.TB, addr string) *raw {
	t.Helper()
	c := dial(t, addr)
	c.expect("220")
	c.cmd("331", "USER alice")
	c.cmd("230", "PASS secret")
	return c
}

// expect reads one reply and checks how it begins.
func (c *raw) expect(prefix string) string {
	c.t.Helper()
	text, err := c.reply()
	if err != nil {
		c.t.Fatalf("want reply %s: %v (have %q)", prefix, err, text)
	}
	if !strings.HasPrefix(text, prefix) {
		c.t.Fatalf("want reply %s, have %q", prefix, text)
	}
	return text
}

func (c *raw) reply() (string, error) {
	var text strings.Builder
	for {
		line, err := c.r.ReadString('\n')
		text.WriteString(line)
		if err != nil {
			return text.String(), err
		}
		if len(line) > 3 && line[3] == ' ' && line[0] >= '1' && line[0] <= '5' {
			return text.String(), nil
		}
	}
}

func (c *raw) cmd(prefix, format string, args ...any) string {
	c.t.Helper()
	fmt.Fprintf(c, format+"\r\n", args...)
	return c.expect(prefix)
}

// data opens a passive data connection.
func (c *raw) data() *net.TCPConn {
	c.t.Helper()
	var port int
	text := c.cmd("229", "EPSV")
	if _, err := fmt.Sscanf(text[strings.Index(text, "("):], "(|||%d|)", &port); err != nil {
		c.t.Fatal(err)
	}
	d, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { d.Close() })
	d.SetDeadline(time.Now().Add(testkit.Patience))
	return d.(*net.TCPConn)
}

// fetch runs a command that sends data.
func (c *raw) fetch(format string, args ...any) string {
	c.t.Helper()
	d := c.data()
	c.cmd("150", format, args...)
	b, err := io.ReadAll(d)
	if err != nil {
		c.t.Fatal(err)
	}
	c.expect("226")
	return string(b)
}

// store runs a command that takes data, up to its final reply.
func (c *raw) store(prefix, text, format string, args ...any) string {
	c.t.Helper()
	d := c.data()
	c.cmd("150", format, args...)
	io.WriteString(d, text)
	d.Close()
	return c.expect(prefix)
}

// certificate makes one for 127.0.0.1 and the pool that trusts it.
func certificate(t testing.TB) (*tls.Config, *x509.CertPool) {
	t.Helper()
	cert, key := testkit.Certificate(t, "ftp.example.jp", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(cert, key)
	testkit.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, pool
}
