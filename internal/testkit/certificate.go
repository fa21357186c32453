package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate returns a new self-signed certificate for a name or an IP address, for localhost and
// for 127.0.0.1, and its key, in PEM. It is valid between the times from and to. Clients can trust
// it as a root.
func Certificate(t testing.TB, name string, from, to time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	Must(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to,
		DNSNames: []string{name, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = template.DNSNames[1:], append(template.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// CertificateFiles writes a certificate that is valid for 90 days, and its key, to files in dir.
func CertificateFiles(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	certText, keyText := Certificate(t, name, time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, 90))
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	Must(t, os.WriteFile(cert, certText, 0o600))
	Must(t, os.WriteFile(key, keyText, 0o600))
	return cert, key
}
