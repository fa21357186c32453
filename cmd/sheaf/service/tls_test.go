package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
)

// encrypted runs a service with one certificate for all servers.
func encrypted(t *testing.T, settings map[string]any) (s *Service, cert, key string) {
	t.Helper()
	cert, key = testkit.CertificateFiles(t, t.TempDir(), "archive.example.jp")
	all := map[string]any{"tls.cert": cert, "tls.key": key, "poll": "20ms"}
	for k, v := range settings {
		all[k] = v
	}
	return metered(t, all), cert, key
}

// Consumers get HTTP/2, and are told to stay with TLS; FTP has the same certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	curl := testkit.Tool(t, "curl")
	s, cert, _ := encrypted(t, map[string]any{"download.implicit": "127.0.0.1:0"})
	if !strings.HasPrefix(s.Addresses().HTTP, "https://127.0.0.1:") || s.cfg.URL()[:8] != "https://" {
		t.Errorf("the service is at %s", s.Addresses().HTTP)
	}
	dir := t.TempDir()
	for version, option := range map[string]string{"2": "--http2", "1.1": "--http1.1"} {
		got := testkit.Run(t, dir, curl, "-sS", "--cacert", cert, option, "-o", "body", "-D", "head", "-w", "%{http_version}", s.Addresses().HTTP+"/livez")
		head, err := os.ReadFile(dir + "/head")
		testkit.Must(t, err)
		if got != version || !strings.Contains(strings.ToLower(string(head)), "strict-transport-security: max-age=15552000") {
			t.Errorf("HTTP/%s: curl spoke %s: %s", version, got, head)
		}
	}
	for _, addr := range []string{s.Addresses().Download, s.Addresses().Drop} {
		c, err := net.Dial("tcp", addr)
		testkit.Must(t, err)
		defer c.Close()
		text := textproto.NewConn(c)
		_, _, err = text.ReadResponse(220)
		testkit.Must(t, err)
		testkit.Must(t, text.PrintfLine("AUTH TLS"))
		_, _, err = text.ReadResponse(234)
		testkit.Must(t, err)
		testkit.Must(t, tls.Client(c, &tls.Config{RootCAs: trusting(t, cert), ServerName: "archive.example.jp"}).Handshake())
	}
	implicit, err := tls.Dial("tcp", s.Addresses().Implicit, &tls.Config{RootCAs: trusting(t, cert), ServerName: "archive.example.jp"})
	testkit.Must(t, err)
	defer implicit.Close()
	_, _, err = textproto.NewConn(implicit).ReadResponse(220)
	testkit.Must(t, err)

	plain := metered(t, nil)
	resp, err := http.Get(plain.Addresses().HTTP + "/livez")
	testkit.Must(t, err)
	resp.Body.Close()
	if v := resp.Header.Get("Strict-Transport-Security"); v != "" {
		t.Errorf("without TLS the service says %q", v)
	}
}

// trusting returns a pool with the certificate in a file.
func trusting(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// A certificate that is replaced is served at once, by all servers that have it. Bad files are
// reported where operators look, and harm nobody.
func TestReplacedCertificate(t *testing.T) {
	t.Parallel()
	s, cert, key := encrypted(t, nil)
	old := trusting(t, cert)
	get := func(pool *x509.CertPool) ([]byte, error) {
		c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		resp, err := c.Get(s.Addresses().HTTP + api.PathHealth)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
	certificates := func() error { return s.certs.check(t.Context()) }
	expiry := time.Now().Add(30 * 24 * time.Hour).Truncate(time.Second)
	newCert, newKey := testkit.Certificate(t, "archive.example.jp", time.Now().Add(-time.Hour), expiry)

	testkit.Must(t, os.WriteFile(cert, newCert[:200], 0o600))
	testkit.Until(t, "the half-written file is reported", func() bool { return certificates() != nil })
	if _, err := get(old); err != nil {
		t.Errorf("with a half-written file: %v", err)
	}
	testkit.Eventually(t, "health says so", func() error {
		var all Health
		body, err := get(old)
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		for _, c := range all.Checks {
			if c.Name == checkCertificates && c.Status == healthDown && strings.Contains(c.Detail, "tls.cert") && !strings.Contains(c.Detail, cert) && all.Status == healthDegraded {
				return nil
			}
		}
		return fmt.Errorf("%v: %s", err, body)
	})
	want(t, scrape(t, s), 0, "sheaf_check_up", "check", checkCertificates)

	testkit.Must(t, os.WriteFile(cert, newCert, 0o600))
	testkit.Must(t, os.WriteFile(key, newKey, 0o600))
	testkit.Until(t, "the new one is taken", func() bool { return certificates() == nil })
	if _, err := get(trusting(t, cert)); err != nil {
		t.Error(err)
	}
	if _, err := get(old); err == nil {
		t.Error("the old certificate is still served")
	}
	asked := time.Now()
	left, ok := scrape(t, s).Value("sheaf_certificate_remaining_seconds", "setting", "tls.cert")
	answered := time.Now()
	if most, least := expiry.Sub(asked).Seconds(), expiry.Sub(answered).Seconds(); !ok || left > most || left < least {
		t.Errorf("the certificate has %v s left, want %v to %v", left, least, most)
	}
}

// A certificate that cannot be used at the start is refused by the name of its setting.
func TestBadCertificateAtStart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cert, _ := testkit.CertificateFiles(t, t.TempDir(), "one")
	_, key := testkit.CertificateFiles(t, t.TempDir(), "two")
	for _, section := range []string{"tls", "http", "download", "drop"} {
		_, err := begin(t, t.TempDir(), map[string]any{section + ".cert": cert, section + ".key": key})
		wantRefused(t, err, section+".key", key)
	}
}
