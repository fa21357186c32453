package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/acme"
)

// account returns the key of the account at the authority. If there is none, it makes one.
func (a *ACME) account(ctx context.Context) (crypto.Signer, error) {
	name := "account " + a.opt.Directory
	text, err := a.rows.get(ctx, name)
	if err != nil {
		return nil, err
	}
	if text == "" {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		if text, err = encode(key, nil); err != nil {
			return nil, err
		}
		if err := a.rows.put(ctx, name, text); err != nil {
			return nil, err
		}
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the account's key in the database is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the account's key in the database: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the account's key in the database is a %T", key)
	}
	return signer, nil
}

// finish makes a key and gets the certificate of an order that is ready.
func (a *ACME) finish(ctx context.Context, client *acme.Client, order *acme.Order) (text string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: a.opt.Names}, key)
	if err != nil {
		return "", err
	}
	chain, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	if err != nil {
		return "", fmt.Errorf("certificate: %w", err)
	}
	if text, err = encode(key, chain); err != nil {
		return "", err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err == nil && !covers(pair.Leaf, a.opt.Names) {
		err = fmt.Errorf("is for %q only", pair.Leaf.DNSNames)
	}
	if err != nil {
		return "", fmt.Errorf("the authority's certificate: %w", err)
	}
	return text, nil
}

// encode returns a key and certificates in PEM.
func encode(key crypto.Signer, chain [][]byte) (string, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	for _, der := range chain {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return text.String(), nil
}
