package wire

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"
)

// PathServiceKeys is the path from which a robot gets the statements about the service's keys, from
// the key that the robot knows to the newest. It is a GET with the known key in hexadecimal as the
// query's "key". The answer is a KeyChain.
const PathServiceKeys = "/v1/robots/{robot}/servicekeys"

// KeyChain is the answer of PathServiceKeys: the statement about the key that the robot knows,
// unless that is the service's first, and all later statements in order. It is empty if no
// statements lead from that key to the newest.
type KeyChain struct {
	Statements []KeyStatement `json:"statements"`
}

// Limits of a KeyChain: of its statements, and of its bytes as JSON.
const (
	MaxKeyStatements = 1000
	MaxKeyChain      = 1 << 20
)

// KeyStatement is a statement, signed by a service's key, that another key comes after it. The
// service's first key has number 1 and no statement. PROTOCOL.md of the manager describes how
// robots use statements.
type KeyStatement struct {
	Number    int64  `json:"number"`          // of Key
	Key       []byte `json:"key"`             // Ed25519, 32 bytes
	Signature []byte `json:"signature"`       // by the key before it, over "sheaf service key <number>: <key in hexadecimal>"
	Proof     []byte `json:"proof,omitempty"` // once the service signs with Key: by Key, over "sheaf service key <number> in use: <key in hexadecimal>"
}

// StateNextKey returns the statement that key is the service's next key and has this number. The
// current key, by, signs the statement.
func StateNextKey(number int64, key ed25519.PublicKey, by ed25519.PrivateKey) *KeyStatement {
	return &KeyStatement{Number: number, Key: key, Signature: ed25519.Sign(by, nextKeyText(number, key))}
}

// Prove adds the proof that the service signs with the statement's key. private is the private half
// of that key.
func (s *KeyStatement) Prove(private ed25519.PrivateKey) {
	s.Proof = ed25519.Sign(private, keyInUseText(s.Number, s.Key))
}

// SignedBy reports whether the key by signed the statement.
func (s *KeyStatement) SignedBy(by ed25519.PublicKey) bool {
	return s.Number > 1 && len(s.Key) == ed25519.PublicKeySize && len(by) == ed25519.PublicKeySize &&
		ed25519.Verify(by, nextKeyText(s.Number, s.Key), s.Signature)
}

// Proven reports whether the statement has a valid proof: the statement's key itself says that the
// service signs with it.
func (s *KeyStatement) Proven() bool {
	return len(s.Key) == ed25519.PublicKeySize && ed25519.Verify(s.Key, keyInUseText(s.Number, s.Key), s.Proof)
}

// nextKeyText returns the text that a statement's Signature signs. Other texts that the service
// signs with its key begin with "{", or with another purpose.
func nextKeyText(number int64, key []byte) []byte {
	return fmt.Appendf(nil, "sheaf service key %d: %x", number, key)
}

func keyInUseText(number int64, key []byte) []byte {
	return fmt.Appendf(nil, "sheaf service key %d in use: %x", number, key)
}

// Verifier knows the keys with which a service signs.
type Verifier interface {
	// Verify calls open with the known keys, any of which may have signed. If open returns
	// ErrSignature, Verify asks the service for a newer key, and calls open once more if there is
	// one.
	Verify(ctx context.Context, open func(keys ...ed25519.PublicKey) error) error
}

// OneKey is a Verifier that knows one key and learns no other.
type OneKey ed25519.PublicKey

// Verify calls open once, with the key, and returns its error.
func (k OneKey) Verify(_ context.Context, open func(keys ...ed25519.PublicKey) error) error {
	return open(ed25519.PublicKey(k))
}

// SigningKey is a key by which a robot signs its requests (package botauth), with the proof that
// the robot holds it: a signature over the name of the service's directory of keys.
type SigningKey struct {
	Key       []byte    `json:"key"` // the public one, Ed25519
	Begins    time.Time `json:"begins"`
	Ends      time.Time `json:"ends"`
	Created   int64     `json:"created"` // of the signature, in seconds since 1970
	Expires   int64     `json:"expires"`
	Nonce     string    `json:"nonce"`
	Signature []byte    `json:"signature"`
}
