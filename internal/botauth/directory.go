package botauth

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// The well-known paths of the directory, and of the card that describes its robots
// (draft-meunier-webbotauth-registry-04).
const (
	PathDirectory = "/.well-known/http-message-signatures-directory"
	PathCard      = "/.well-known/signature-agent-card"
)

// directoryAge is how many seconds caches may keep the directory. So the key of a revoked robot is
// gone within an hour.
const directoryAge = 1800

// key is a key of the directory, as a JWK (RFC 8037) with the times of RFC 7519.
type key struct {
	Type    string `json:"kty"`
	Curve   string `json:"crv"`
	ID      string `json:"kid"`
	X       string `json:"x"`
	Use     string `json:"use"`
	Begins  int64  `json:"nbf"`
	Expires int64  `json:"exp"`
}

// WriteDirectory answers with the keys of the proofs, and with each key's signature.
func WriteDirectory(w http.ResponseWriter, proofs []wire.SigningKey) error {
	set := struct {
		Keys []key `json:"keys"`
	}{Keys: []key{}}
	var inputs, signatures []string
	for i := range proofs {
		p := &proofs[i]
		set.Keys = append(set.Keys, key{"OKP", "Ed25519", KeyID(p.Key), base64.RawURLEncoding.EncodeToString(p.Key), "sig", p.Begins.Unix(), p.Ends.Unix()})
		inputs = append(inputs, fmt.Sprintf("k%d=%s", i, directoryParameters(p)))
		signatures = append(signatures, fmt.Sprintf("k%d=%s", i, bytesItem(p.Signature)))
	}
	if len(proofs) > 0 {
		w.Header().Set("Signature-Input", strings.Join(inputs, ", "))
		w.Header().Set("Signature", strings.Join(signatures, ", "))
	}
	return write(w, "application/http-message-signatures-directory+json", set)
}

// maxDirectory is how many bytes of a directory Listed reads: some thousand robots' keys.
const maxDirectory = 4 << 20

// ErrNotListed says that a directory of keys lacks a robot's key.
var ErrNotListed = errors.New("the directory lacks this robot's key")

// Listed asks the service's directory for the key that signs requests at the time now. It fails
// with ErrNotListed if the directory has only other keys, and with another error if the directory
// cannot be read.
func (s *Signer) Listed(ctx context.Context, client *http.Client, now time.Time) error {
	at := strings.Trim(s.agent[0], `"`) + PathDirectory
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var set struct{ Keys []key }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDirectory)).Decode(&set); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: no directory of keys", at, resp.Status)
	}
	own := KeyID(s.key(now.Unix() / int64(Period.Seconds())).Public().(ed25519.PublicKey))
	if !slices.ContainsFunc(set.Keys, func(k key) bool { return k.ID == own }) {
		return fmt.Errorf("%s has %d keys: %w", at, len(set.Keys), ErrNotListed)
	}
	return nil
}

// Card describes the service's robots to those whom they visit. Its fields are those of OAuth's
// client registration (RFC 7591).
type Card struct {
	Name     string   `json:"client_name"`
	URI      string   `json:"client_uri,omitempty"`
	Contacts []string `json:"contacts,omitempty"`
	Keys     string   `json:"jwks_uri"`
	Bot      struct {
		Purpose string `json:"purpose"`
		Rate    string `json:"expected_rate,omitempty"`
	} `json:"web_bot_auth"`
}

// Write answers with the card as JSON. Caches may keep it for directoryAge.
func (c *Card) Write(w http.ResponseWriter) error { return write(w, "application/json", c) }

func write(w http.ResponseWriter, mediaType string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", directoryAge))
	_, err = w.Write(append(body, '\n'))
	return err
}
