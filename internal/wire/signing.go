package wire

import "time"

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
