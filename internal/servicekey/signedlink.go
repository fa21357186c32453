package servicekey

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// LinkSigner signs links of one purpose. It may be used by many goroutines at once.
type LinkSigner struct{ secret []byte }

// NewLinkSigner returns a signer with a secret for the purpose, derived from the service's key
// (HKDF, RFC 5869).
func NewLinkSigner(service ed25519.PrivateKey, purpose string) *LinkSigner {
	secret, err := hkdf.Key(sha256.New, service.Seed(), nil, "sheaf link: "+purpose, sha256.Size)
	if err != nil {
		panic(err) // the length is allowed
	}
	return &LinkSigner{secret}
}

// Sign returns the signature of a link with these parts: 26 lower-case letters and digits, 130
// bits.
func (s *LinkSigner) Sign(parts ...string) string {
	mac := hmac.New(sha256.New, s.secret)
	for _, p := range parts { // with their lengths, so that parts cannot run into each other
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		mac.Write([]byte(p))
	}
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil))
	return strings.ToLower(text[:26])
}

// Check reports whether the signature is that of the parts. It compares in constant time.
func (s *LinkSigner) Check(signature string, parts ...string) bool {
	return hmac.Equal([]byte(signature), []byte(s.Sign(parts...)))
}
