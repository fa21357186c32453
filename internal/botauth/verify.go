package botauth

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Seen is a request's signature, as the site received it.
type Seen struct {
	KeyID            string
	Created, Expires time.Time

	agent, params string // as they are signed
	signature     []byte
}

// ErrUnlike says that a signature is not of the form that robots send.
var ErrUnlike = errors.New("not a signature of the form that robots send")

// input matches the Signature-Input of a robot, which may be one of several in the header.
var input = regexp.MustCompile(`(?:^|,)\s*` + label + `=(\("@authority" "signature-agent"\);created=(\d{1,12});expires=(\d{1,12});keyid="([\w-]{1,100})";[^,\s]*?;tag="web-bot-auth")\s*(?:,|$)`)

// value matches the Signature of a robot.
var value = regexp.MustCompile(`(?:^|,)\s*` + label + `=:([A-Za-z0-9+/=]{1,200}):\s*(?:,|$)`)

// Read returns the signature in a request's header fields, or nil if there is no signature. It
// returns ErrUnlike if no robot sends such a signature.
func Read(h http.Header) (*Seen, error) {
	if h.Get("Signature") == "" && h.Get("Signature-Input") == "" {
		return nil, nil
	}
	in, sig := input.FindStringSubmatch(strings.Join(h["Signature-Input"], ", ")), value.FindStringSubmatch(strings.Join(h["Signature"], ", "))
	if in == nil || sig == nil {
		return nil, ErrUnlike
	}
	raw, err := base64.StdEncoding.DecodeString(sig[1])
	created, err1 := strconv.ParseInt(in[2], 10, 64)
	expires, err2 := strconv.ParseInt(in[3], 10, 64)
	if err := errors.Join(err, err1, err2); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnlike, err)
	}
	return &Seen{KeyID: in[4], Created: time.Unix(created, 0), Expires: time.Unix(expires, 0), agent: h.Get("Signature-Agent"), params: in[1], signature: raw}, nil
}

// By reports whether key has signed a request to the host by http or https. It ignores the
// signature's times.
func (s *Seen) By(key ed25519.PublicKey, host string) bool {
	for _, scheme := range []string{"https", "http"} {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append(appendBase(nil, Authority(scheme, host), s.agent), s.params...), s.signature) {
			return true
		}
	}
	return false
}

// appendBase appends the signature base of a request (RFC 9421, 2.5), up to the signature's
// parameters at its end.
func appendBase(b []byte, authority, agent string) []byte {
	for _, part := range []string{"\"@authority\": ", authority, "\n\"signature-agent\": ", agent, "\n\"@signature-params\": "} {
		b = append(b, part...)
	}
	return b
}
