package fetch

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// What is wrong with a server's certificate: values of Response.Certificate.
const (
	CertExpired    = "expired"     // or not valid yet
	CertHost       = "host"        // it is for another host
	CertSelfSigned = "self-signed" // it is signed by itself
	CertIncomplete = "incomplete"  // the server does not send the certificates that lead to an authority
	CertAuthority  = "authority"   // the authority is unknown
	CertInvalid    = "invalid"     // anything else
)

// wrongWith verifies the certificates of a server, and returns one of the Cert constants; empty:
// they are valid.
func wrongWith(shown tls.ConnectionState, name string, roots *x509.CertPool) string {
	if len(shown.PeerCertificates) == 0 {
		return CertInvalid
	}
	leaf, others := shown.PeerCertificates[0], x509.NewCertPool()
	for _, c := range shown.PeerCertificates[1:] {
		others.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: others})
	var (
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return CertExpired
	case errors.As(err, &host):
		return CertHost
	case !errors.As(err, &unknown):
		return CertInvalid
	}
	last := shown.PeerCertificates[len(shown.PeerCertificates)-1]
	switch {
	case !bytes.Equal(last.RawIssuer, last.RawSubject):
		return CertIncomplete
	case last == leaf:
		return CertSelfSigned
	}
	return CertAuthority
}
