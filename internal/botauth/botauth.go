// Package botauth signs the requests of robots, so that sites can recognise them, as the IETF's Web
// Bot Auth has it: HTTP Message Signatures (RFC 9421) with Ed25519, the header Signature-Agent and
// a directory of keys (draft-meunier-web-bot-auth-architecture-02). Signature-Agent is a string, as
// verifiers in use read it; later drafts have a dictionary, and read a string too.
//
// A robot has a key for each Period. It shows the service the keys of this period and of the next,
// each with a proof: a signature over the service's name, as the directory's answers need it. So a
// new key is in the directory long before it is used.
package botauth

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sheaf/internal/wire"
)

// Times of keys and signatures.
const (
	Period   = 30 * 24 * time.Hour // how long a key is used
	Life     = 10 * time.Minute    // how long a request's signature is good
	proven   = 24 * time.Hour      // how long a proof is good
	early    = 10 * time.Second    // how much older a signature claims to be, for verifiers whose clocks are behind
	nonceLen = 64                  // bytes, as verifiers expect it
)

// maxAgent is the limit for the service's URL, in bytes.
const maxAgent = 300

// label names the signature in its header fields.
const label = "sheaf"

// Signer signs a robot's requests. Its methods may be called concurrently.
type Signer struct {
	agent  []string // the value of Signature-Agent
	host   string
	secret []byte
	now    atomic.Pointer[periodKey] // the key that was used last
}

type periodKey struct {
	period  int64
	private ed25519.PrivateKey
	id      string
}

// New returns a robot's signer. The signing keys are derived from secret, the robot's own key.
// agent is the URL of the service that has the directory, such as https://archive.example.jp.
func New(agent string, secret ed25519.PrivateKey) (*Signer, error) {
	u, err := url.Parse(agent)
	if err != nil || len(agent) > maxAgent || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil || strings.ContainsFunc(u.Host, unsigned) {
		return nil, fmt.Errorf("%q: want the service's address in ASCII, such as https://archive.example.jp", agent)
	}
	return &Signer{agent: []string{`"` + u.Scheme + "://" + u.Host + `"`}, host: Authority(u.Scheme, u.Host), secret: secret.Seed()}, nil
}

// unsigned reports whether c is forbidden in an agent's host. The host is signed in a string of a
// structured field, without escapes.
func unsigned(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '\\' }

// Authority returns the component @authority of RFC 9421 (2.2.3): in lower case, without the
// scheme's default port.
func Authority(scheme, host string) string {
	host = strings.ToLower(host)
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// key returns the key of a period, counted from 1970.
func (s *Signer) key(period int64) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(s.derive(fmt.Sprintf("key %d", period), ed25519.SeedSize))
}

// derive returns n bytes derived from the robot's key, for one purpose (HKDF, RFC 5869).
func (s *Signer) derive(purpose string, n int) []byte {
	b, err := hkdf.Key(sha256.New, s.secret, nil, "sheaf web bot auth "+purpose, n)
	if err != nil {
		panic(err) // n is below the limit of HKDF
	}
	return b
}

// Sign signs a request to the host: it sets three fields of its header h. now is the time of the
// signature.
func (s *Signer) Sign(h http.Header, scheme, host string, now time.Time) {
	period := now.Unix() / int64(Period.Seconds())
	k := s.now.Load()
	if k == nil || k.period != period {
		private := s.key(period)
		k = &periodKey{period, private, KeyID(private.Public().(ed25519.PublicKey))}
		s.now.Store(k)
	}
	created := now.Add(-early)
	base := appendBase(make([]byte, 0, 512), Authority(scheme, host), s.agent[0])
	at := len(base)
	base = append(base, `("@authority" "signature-agent");`...)
	base = appendParameters(base, created.Unix(), created.Add(Life).Unix(), k.id, nonce(), "web-bot-auth")
	h["Signature-Agent"] = s.agent
	h["Signature-Input"] = []string{label + "=" + string(base[at:])}
	h["Signature"] = []string{label + "=" + bytesItem(ed25519.Sign(k.private, base))}
}

// Proofs returns what the service needs to list the robot's keys of this period and of the next.
func (s *Signer) Proofs(now time.Time) []wire.SigningKey {
	seconds := int64(Period.Seconds())
	period := now.Unix() / seconds
	created := now.Truncate(time.Hour).Add(-early) // the same proofs for an hour
	list := make([]wire.SigningKey, 0, 2)
	for n := period; n < period+2; n++ {
		key := s.key(n)
		p := wire.SigningKey{
			Key: key.Public().(ed25519.PublicKey), Begins: time.Unix(n*seconds, 0).UTC(), Ends: time.Unix((n+1)*seconds, 0).Add(Life).UTC(),
			Created: created.Unix(), Expires: created.Add(proven).Unix(), Nonce: base64.StdEncoding.EncodeToString(s.derive(fmt.Sprintf("nonce %d %d", n, created.Unix()), nonceLen)),
		}
		p.Signature = ed25519.Sign(key, base(&p, s.host))
		list = append(list, p)
	}
	return list
}

// Good reports whether a proof holds now for the directory at an authority. It accepts a proof from
// a clock that is ahead by less than a day.
func Good(p *wire.SigningKey, authority string, now time.Time) bool {
	return len(p.Key) == ed25519.PublicKeySize && len(p.Nonce) <= 2*nonceLen && !strings.ContainsAny(p.Nonce, "\"\\\n\r") &&
		now.Unix() < p.Expires && p.Expires <= now.Add(2*proven).Unix() && p.Ends.Before(now.Add(4*Period)) &&
		ed25519.Verify(p.Key, base(p, authority), p.Signature)
}

// base returns the bytes to sign: the signature base of a directory's answer.
func base(p *wire.SigningKey, authority string) []byte {
	return fmt.Appendf(nil, "\"@authority\";req: %s\n\"@signature-params\": %s", authority, directoryParameters(p))
}

func directoryParameters(p *wire.SigningKey) string {
	return string(appendParameters([]byte(`("@authority";req);`), p.Created, p.Expires, KeyID(p.Key), p.Nonce, "http-message-signatures-directory"))
}

// KeyID returns the name of a public key: its JWK thumbprint (RFC 7638, RFC 8037 appendix A.3).
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"Ed25519","kty":"OKP","x":"%s"}`, base64.RawURLEncoding.EncodeToString(key)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// appendParameters appends a signature's parameters, which follow its components.
func appendParameters(b []byte, created, expires int64, key, nonce, tag string) []byte {
	b = strconv.AppendInt(append(b, "created="...), created, 10)
	b = strconv.AppendInt(append(b, ";expires="...), expires, 10)
	for _, part := range []string{`;keyid="`, key, `";alg="ed25519";nonce="`, nonce, `";tag="`, tag, `"`} {
		b = append(b, part...)
	}
	return b
}

func nonce() string {
	var b [nonceLen]byte
	rand.Read(b[:])
	return base64.StdEncoding.EncodeToString(b[:])
}

// bytesItem writes a byte sequence as a structured field (RFC 9651, section 3.3.5).
func bytesItem(b []byte) string { return ":" + base64.StdEncoding.EncodeToString(b) + ":" }

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
