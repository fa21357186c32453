package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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
	directory     string // URL
	ca, key, root string // PEM files: the certificate and key of the URL, and what signs what it gives
	web           string // host:port at which it looks for answers
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	program, dir, at := testkit.BuildModule(t, "test/acme"), t.TempDir(), testkit.Addresses(t, 3)
	host, _, _ := net.SplitHostPort(at[0])
	cert, key := testkit.CertificateFiles(t, dir, host)
	a := authority{"https://" + at[0] + "/dir", cert, key, filepath.Join(dir, "root.pem"), at[2]}
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

// source returns certificates of names that a gives, which lie in the database control.
func (a authority) source(t *testing.T, control *sql.DB, log io.Writer, names ...string) certs.Source {
	t.Helper()
	source, err := (&ACME{Names: names, Directory: a.directory, CA: a.ca}).source(control, 20*time.Millisecond, slog.New(slog.NewTextHandler(log, nil)))
	testkit.Must(t, err)
	return source
}

// answer starts a web server with the certificates of source, where a looks for answers.
func (a authority) answer(t *testing.T, source certs.Source) {
	t.Helper()
	l, err := tls.Listen("tcp", a.web, (&certificates{of: map[string]certs.Source{"http": source}}).web())
	testkit.Must(t, err)
	server := &http.Server{Handler: hello, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

// holding returns a with a proxy before it that holds the orders for name until let is closed.
func (a authority) holding(t *testing.T, name string, let <-chan struct{}) authority {
	t.Helper()
	to, err := url.Parse(a.directory)
	testkit.Must(t, err)
	trusting := &tls.Config{RootCAs: trusting(t, a.ca)}
	proxy := &httputil.ReverseProxy{Transport: &http.Transport{TLSClientConfig: trusting}, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, r.In.Host // the authority's answers have URLs of the proxy
	}}
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var signed struct{ Payload string }
		_ = json.Unmarshal(text, &signed)
		if payload, _ := base64.RawURLEncoding.DecodeString(signed.Payload); bytes.Contains(payload, []byte(name)) {
			<-let
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		proxy.ServeHTTP(w, r)
	}))
	cert, err := tls.LoadX509KeyPair(a.ca, a.key)
	testkit.Must(t, err)
	front.Listener.Close()
	host, _, _ := net.SplitHostPort(to.Host)
	front.Listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	testkit.Must(t, err)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	front.StartTLS()
	t.Cleanup(front.Close)
	a.directory = front.URL + "/dir"
	return a
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
	t.Cleanup(func() { control.Close() })
	asks, answers := a.source(t, control, io.Discard, "archive.example.jp"), a.source(t, control, io.Discard, "archive.example.jp")
	a.answer(t, answers)
	running(t, asks)
	testkit.Eventually(t, "a certificate", func() error { return asks.State().Err })
	if err := answers.State().Err; err == nil {
		t.Error("the other process has asked for a certificate of its own")
	}
	running(t, answers)
	testkit.Eventually(t, "the certificate at the other process", func() error {
		if err := answers.State().Err; err != nil || !answers.State().NotAfter.Equal(asks.State().NotAfter) {
			return fmt.Errorf("%v, %w", answers.State().NotAfter, err)
		}
		_, err := a.leaf(t, a.web, "archive.example.jp")
		return err
	})
}

// A name for which the authority does not answer delays no other. Health names it alone.
func TestACMEOfOneNameHangs(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const hangs, works = "hangs.example.jp", "archive.example.jp"
	let := make(chan struct{})
	a := newAuthority(t).holding(t, hangs, let)
	control, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { control.Close() })
	source := a.source(t, control, io.Discard, hangs, works)
	a.answer(t, source)
	running(t, source)
	health := &certificates{all: []certs.Source{source}}
	testkit.Eventually(t, "the certificate of the other name", func() error {
		_, err := a.leaf(t, a.web, works)
		return err
	})
	if err := health.check(t.Context()); err == nil || !strings.Contains(err.Error(), "no certificate of "+hangs+";") || strings.Contains(err.Error(), works) {
		t.Errorf("health says %v", err)
	}
	if _, err := a.leaf(t, a.web, hangs); err == nil {
		t.Error("there is a certificate that nobody gave")
	}
	close(let)
	testkit.Eventually(t, "the certificate of the name that hung", func() error { return health.check(t.Context()) })
}

// A certificate that could not be stored is served, and the attempt stays counted: others, and this
// process after a restart, must not ask at once.
func TestACMEOfAFullDatabase(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	a := newAuthority(t)
	control, err := db.Open(t.Context(), dbtest.SQLite(t))
	testkit.Must(t, err)
	t.Cleanup(func() { control.Close() })
	_, err = control.Exec(`CREATE TRIGGER full BEFORE INSERT ON acme WHEN NEW.name LIKE '%/dir archive.example.jp' BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	testkit.Must(t, err)
	log := make(said, 100)
	source := a.source(t, control, log, "archive.example.jp")
	a.answer(t, source)
	running(t, source)
	testkit.Eventually(t, "the certificate", func() error {
		_, err := a.leaf(t, a.web, "archive.example.jp")
		return err
	})
	log.await(t, "could not be stored")
	var failures string
	testkit.Must(t, control.QueryRow(`SELECT value FROM acme WHERE name LIKE '% attempt %'`).Scan(&failures))
	if failures != "1" {
		t.Errorf("%s attempts are counted, want 1", failures)
	}
}

// running runs source until the test ends.
func running(t *testing.T, source certs.Source) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { source.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wait.Wait()
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
