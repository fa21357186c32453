package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/certs"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// authority is a certificate authority on loopback, which reaches names at one port of it.
type authority struct {
	directory, ca, root string // URL; PEM files
	web                 string // host:port at which it looks for answers
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	program, dir, at := testkit.BuildModule(t, "test/acme"), t.TempDir(), testkit.Addresses(t, 3)
	host, _, _ := net.SplitHostPort(at[0])
	cert, key := testkit.CertificateFiles(t, dir, host)
	a := authority{"https://" + at[0] + "/dir", cert, filepath.Join(dir, "root.pem"), at[2]}
	testkit.Start(t, "", exec.Command(program, at[0], at[1], a.web, cert, key, a.root)).Ready(t, func() error {
		c, err := net.Dial("tcp", at[0])
		if err == nil {
			c.Close()
		}
		return err
	})
	return a
}

// settings are those of a service that asks a.
func (a authority) settings(names ...string) map[string]any {
	return map[string]any{"tls.acme.names": names, "tls.acme.directory": a.directory, "tls.acme.ca": a.ca, "tls.acme.email": "ops@example.jp", "poll": "50ms"}
}

// leaf returns the certificate that a service shows to clients of name which trust the authority.
func (a authority) leaf(t *testing.T, addr, name string) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: trusting(t, a.root), ServerName: name})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// A service gets its certificate by itself, and keeps it for its next start.
func TestACME(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	a := newAuthority(t)
	names := []string{"archive.example.jp", "www.archive.example.jp"}
	data := t.TempDir()
	settings := a.settings(names...)
	settings["data"], settings["http.listen"] = data, a.web
	s, stop := start(t, meteredSettings(t, settings))
	var first *x509.Certificate
	testkit.Eventually(t, "the certificate", func() (err error) {
		if first, err = a.leaf(t, a.web, names[1]); err != nil {
			err = errors.Join(err, s.certs.check(t.Context()))
		}
		return err
	})
	if !strings.Contains(first.Issuer.CommonName, "Pebble") {
		t.Errorf("%v by %s", first.DNSNames, first.Issuer)
	}
	testkit.Eventually(t, "health", func() error { return s.certs.check(t.Context()) })
	if left, ok := scrape(t, s).Value("sheaf_certificate_remaining_seconds", "setting", "tls.acme"); !ok || left < 23*3600 || left > 24*3600 {
		t.Errorf("the certificate has %v s left", left)
	}
	web, err := tls.Dial("tcp", a.web, &tls.Config{RootCAs: trusting(t, a.root), ServerName: names[0], NextProtos: []string{"h2"}})
	testkit.Must(t, err)
	if p := web.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Errorf("the web server speaks %q", p)
	}
	web.Close()
	unnamed, err := tls.Dial("tcp", a.web, &tls.Config{InsecureSkipVerify: true}) // an old client
	testkit.Must(t, err)
	if err := unnamed.ConnectionState().PeerCertificates[0].VerifyHostname(names[0]); err != nil {
		t.Errorf("a client that names no server gets another certificate: %v", err)
	}
	unnamed.Close()

	// A restart takes the certificate that there is.
	testkit.Must(t, stop())
	s, stop = start(t, meteredSettings(t, settings))
	testkit.Eventually(t, "the certificate after a restart", func() error {
		again, err := a.leaf(t, a.web, names[1])
		if err == nil && !again.Equal(first) {
			err = errors.New("it is another one")
		}
		return err
	})
	testkit.Until(t, "no attempts and answers are left over", func() bool {
		var n int
		testkit.Must(t, s.state.db.QueryRow(`SELECT COUNT(*) FROM acme WHERE name LIKE '% attempt %' OR name LIKE '%+token'`).Scan(&n))
		return n == 0
	})
	testkit.Must(t, stop())
}

// Behind a load balancer the authority may reach another process than the one that asks. That one
// answers, and has the certificate too.
func TestACMEOfSeveralProcesses(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	a := newAuthority(t)
	control, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	defer control.Close()
	process := func() *certs.ACME {
		source, err := (&ACME{Names: []string{"archive.example.jp"}, Directory: a.directory, CA: a.ca}).source(control, 20*time.Millisecond, slog.New(slog.DiscardHandler))
		testkit.Must(t, err)
		return source.(*certs.ACME)
	}
	asks, answers := process(), process()
	config := (&certificates{http: answers}).web()
	l, err := tls.Listen("tcp", a.web, config)
	testkit.Must(t, err)
	server := &http.Server{Handler: hello, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go server.Serve(l)
	defer server.Close()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	running.Go(func() { asks.Run(ctx) })
	testkit.Eventually(t, "a certificate", func() error { return asks.State().Err })
	if err := answers.State().Err; err == nil {
		t.Error("the other process has asked for a certificate of its own")
	}
	running.Go(func() { answers.Run(ctx) })
	testkit.Eventually(t, "the certificate at the other process", func() error {
		if err := answers.State().Err; err != nil || !answers.State().NotAfter.Equal(asks.State().NotAfter) {
			return fmt.Errorf("%v, %w", answers.State().NotAfter, err)
		}
		_, err := a.leaf(t, a.web, "archive.example.jp")
		return err
	})
}

// A certificate is renewed when a third of its time is left, also if that was while the service was
// down. Until then it is served.
func TestACMERenewal(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	a := newAuthority(t)
	settings := a.settings("archive.example.jp")
	settings["http.listen"], settings["data"] = a.web, t.TempDir()
	s, stop := start(t, meteredSettings(t, settings))
	shown := func() (*x509.Certificate, error) {
		c, err := tls.Dial("tcp", a.web, &tls.Config{InsecureSkipVerify: true, ServerName: "archive.example.jp"})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0], nil
	}
	var first *x509.Certificate
	testkit.Eventually(t, "the certificate", func() (err error) {
		first, err = shown()
		return err
	})

	aged, key := testkit.Certificate(t, "archive.example.jp", time.Now().Add(-17*time.Hour), time.Now().Add(7*time.Hour))
	_, err := s.state.db.Exec(`UPDATE acme SET value = ? WHERE name LIKE '% archive.example.jp'`, string(key)+string(aged))
	testkit.Must(t, err)
	testkit.Must(t, stop())
	start(t, meteredSettings(t, settings))
	began := false
	testkit.Eventually(t, "another certificate in place of the one with 7 of 24 hours left", func() error {
		now, err := shown()
		if err != nil {
			if began {
				t.Fatalf("without a certificate before its renewal: %v", err)
			}
			return err
		}
		began = true
		if now.Equal(first) || now.Issuer.CommonName == "archive.example.jp" {
			return fmt.Errorf("it shows one by %s", now.Issuer)
		}
		return nil
	})
}

// An authority that cannot reach the service gives nothing. Operators are told why, and it is not
// asked again at once, by whichever process.
func TestACMEFails(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	a, began := newAuthority(t), time.Now()
	settings := a.settings("archive.example.jp") // at another port than the authority looks
	s := metered(t, settings)
	testkit.Eventually(t, "the reason", func() error {
		err := s.certs.check(t.Context())
		if err == nil || !strings.Contains(err.Error(), "port 443 of archive.example.jp") || !strings.Contains(err.Error(), "Failed to connect") {
			return fmt.Errorf("health says %w", err)
		}
		return nil
	})
	var value string
	var next int64
	testkit.Must(t, s.state.db.QueryRow(`SELECT value, at_ms FROM acme WHERE name LIKE '% attempt %'`).Scan(&value, &next))
	seen := time.Now()
	if at := time.UnixMilli(next); value != "1" || at.Before(began.Add(time.Minute)) || at.After(seen.Add(6*time.Minute)) {
		t.Errorf("after %s failure, between %v and %v, the next attempt begins at %v", value, began, seen, at)
	}
	if _, err := tls.Dial("tcp", strings.TrimPrefix(s.Addresses().HTTP, "https://"), &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("there is a certificate")
	}
}
