// Package certs provides the certificates of TLS servers. A certificate comes from two files, which
// are read again when they change, or by ACME from an authority.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// Source provides the certificates of servers, and changes them while the servers run. Its methods
// may be called concurrently.
type Source interface {
	// GetCertificate is for tls.Config.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// State says when the certificates end, and what is wrong with them.
	State() State
	// Run keeps the certificates up to date until ctx ends, and returns nil then.
	Run(ctx context.Context) error
}

// State is what a Source reports about its certificates.
type State struct {
	Setting  string    // the setting that names the certificate, such as http.cert
	NotAfter time.Time // first end of a certificate that is served; zero: no certificate is served yet
	Missing  []string  // names that have no certificate, while others may have one
	Err      error     // why a certificate could not be replaced, or why clients refuse it or will within Soon; nil: all is well
}

// First returns the time when the first of the sources' certificates expires, or the zero time if
// no source has a certificate.
func First(all []Source) (first time.Time) {
	for _, source := range all {
		if at := source.State().NotAfter; first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Config returns the configuration of a server with the certificate of s. Each server needs its own
// configuration, so that another server cannot continue its sessions.
func Config(s Source) *tls.Config {
	return &tls.Config{GetCertificate: s.GetCertificate, MinVersion: tls.VersionTLS12}
}

// Pool reads a PEM file of certificate authorities. If file is empty, it returns nil, which stands
// for the system's authorities.
func Pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return pool, nil
}

// valid returns an error if clients refuse the certificate now because of its dates.
func valid(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s; is this machine's clock right?", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// Soon is the remaining validity below which State reports that a new certificate is missing. For
// ACME it is a sixth of the whole validity, if that is less.
const Soon = 14 * 24 * time.Hour

// lasts returns an error if clients refuse the certificate now or will refuse it within the time
// soon.
func lasts(leaf *x509.Certificate, now time.Time, soon time.Duration) error {
	err := valid(leaf, now)
	if err == nil && leaf.NotAfter.Sub(now) < soon {
		err = fmt.Errorf("the certificate expires at %s, and there is no new one yet", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return err
}

// checkChain returns an error unless the PEM blocks of text are whole and the certificates among
// them can be parsed. tls.X509KeyPair parses only the first certificate, and ignores a last block
// that was cut off.
func checkChain(text []byte) error {
	begun, whole := bytes.Count(text, []byte("-----BEGIN ")), 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		whole++
		if block.Type != "CERTIFICATE" {
			continue // the key may be in the same file
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("block %d is no certificate: %w", whole, err)
		}
	}
	switch {
	case begun == 0:
		return errors.New("has no PEM block")
	case whole < begun:
		return fmt.Errorf("only %d of %d PEM blocks are whole; is the file still being written?", whole, begun)
	}
	return nil
}
