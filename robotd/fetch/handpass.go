package fetch

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Names in certificates and types of PEM blocks.
const (
	headName = "head.sheaf.invalid"
	certType = "CERTIFICATE"
	keyType  = "PRIVATE KEY"
)

// authority is a head's own certificate authority. Its folder has its certificate and key, and the
// certificate of each hand that may connect.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name+".pem") }

// openAuthority opens the authority in a folder, or makes one.
func openAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir}
	text, err := os.ReadFile(a.path("authority.key"))
	if errors.Is(err, os.ErrNotExist) {
		return a, a.make()
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.path("authority.key"), err)
	}
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(ed25519.PrivateKey)
	return a, nil
}

func (a *authority) make() (err error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "hands of a robot"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key, err = a.sign(template)
	if err != nil {
		return err
	}
	text, err := encode(a.cert, a.key)
	return errors.Join(err, os.MkdirAll(a.dir, 0o700), config.Replace(a.path("authority.key"), text, 0o600))
}

// sign makes a key and its certificate. Rights end by RemoveHand, not by time.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, ed25519.PrivateKey, error) {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.AddDate(0, 0, -1), now.AddDate(30, 0, 0)
	by, with := a.cert, a.key
	if by == nil {
		by, with = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, public, with)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func encode(cert *x509.Certificate, key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	text := pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: cert.Raw})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der})...), err
}

// tls returns the head's side of connections.
func (a *authority) tls() (*tls.Config, error) {
	cert, key, err := a.sign(&x509.Certificate{DNSNames: []string{headName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool(a.cert), MinVersion: tls.VersionTLS13,
	}, nil
}

func pool(cert *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(cert)
	return p
}

// may reports whether the hand with a certificate may connect.
func (a *authority) may(cert *x509.Certificate) bool {
	if !wire.ValidRobotName(cert.Subject.CommonName) {
		return false
	}
	text, err := os.ReadFile(a.path(cert.Subject.CommonName))
	if err != nil {
		return false
	}
	block, _ := pem.Decode(text)
	return block != nil && bytes.Equal(block.Bytes, cert.Raw)
}

// InviteHand returns what a hand needs to connect to the head whose folder this is, as PEM: its
// certificate and key, and the certificate of the head's authority. An earlier invitation of that
// name ends.
func InviteHand(dir, name string) ([]byte, error) {
	if !wire.ValidRobotName(name) {
		return nil, fmt.Errorf("%q is no name for a hand: want lower-case letters, digits and hyphens", name)
	}
	a, err := openAuthority(dir)
	if err != nil {
		return nil, err
	}
	cert, key, err := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: cert.Raw})
	if err := config.Replace(a.path(name), public, 0o644); err != nil {
		return nil, err
	}
	text, err := encode(cert, key)
	return append(text, pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: a.cert.Raw})...), err
}

// RemoveHand withdraws a hand's pass. A connected hand loses its connection within a lease.
func RemoveHand(dir, name string) error {
	if !wire.ValidRobotName(name) {
		return fmt.Errorf("%q is no name of a hand", name)
	}
	err := os.Remove(filepath.Join(dir, name+".pem"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no hand %s was invited", name)
	}
	return err
}

// passTLS returns a hand's side of connections, made from what InviteHand has returned.
func passTLS(pass []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(pass, pass)
	if err != nil || len(pair.Certificate) != 2 {
		return nil, errors.Join(errors.New("this is not what robotd hand invite writes"), err)
	}
	ca, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		return nil, err
	}
	pair.Certificate = pair.Certificate[:1]
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool(ca), ServerName: headName, MinVersion: tls.VersionTLS13}, nil
}
