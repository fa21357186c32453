package fetch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// issued is a certificate with the key that it is for.
type issued struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// issue makes a certificate; a nil issuer lets it vouch for itself.
func issue(t *testing.T, name string, by *issued, change func(*x509.Certificate)) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(c)
	}
	if by == nil {
		by = &issued{c, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.Certificate, &key.PublicKey, by.key)
	testkit.Must(t, err)
	made, err := x509.ParseCertificate(der)
	testkit.Must(t, err)
	return &issued{made, key}
}

// TestCertificates: pages of servers with a wrong certificate are fetched where the setting says
// so, and what is wrong is told; else they are not.
func TestCertificates(t *testing.T) {
	t.Parallel()
	const host = "www.example.jp"
	authority := func(c *x509.Certificate) { c.IsCA = true }
	root := issue(t, "root", nil, authority)
	between := issue(t, "between", root, authority)
	unknown := issue(t, "unknown", nil, authority)
	roots := x509.NewCertPool()
	roots.AddCert(root.Certificate)
	good := issue(t, host, between, nil)
	expired := issue(t, host, between, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	for want, chain := range map[string][]*issued{
		"":             {good, between},
		CertExpired:    {expired, between},
		CertHost:       {issue(t, "other.example.jp", between, nil), between},
		CertSelfSigned: {issue(t, host, nil, nil)},
		CertIncomplete: {good},
		CertAuthority:  {issue(t, host, unknown, nil), unknown},
	} {
		for _, h2 := range []bool{false, true} {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
			s.EnableHTTP2 = h2
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			shown := tls.Certificate{PrivateKey: chain[0].key}
			for _, c := range chain {
				shown.Certificate = append(shown.Certificate, c.Raw)
			}
			s.TLS = &tls.Config{Certificates: []tls.Certificate{shown}}
			s.StartTLS()
			defer s.Close()
			for _, any := range []bool{true, false} {
				f := fetcher(t, s.Listener.Addr().String(), func(o *Options) { o.RootCAs, o.AnyCertificate = roots, any })
				r, err := f.Get(t.Context(), Request{URL: "https://" + host + "/"})
				switch {
				case err != nil && (any || want == "" || KindOf(err) != TLS):
					t.Errorf("%q, any %v: %v", want, any, err)
				case err == nil && (!any && want != "" || r.Certificate != want || body(t, r) != "page"):
					t.Errorf("any %v: certificate %q, want %q", any, r.Certificate, want)
				}
				if r != nil {
					testkit.Must(t, r.Close())
				}
			}
		}
	}
}
