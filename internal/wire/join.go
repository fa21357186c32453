package wire

import (
	"errors"
	"net/http"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// JoinRequest is the body of POST /v1/robots/join. With it a robot exchanges a one-time token for
// credentials, and registers the key with which it signs manifests.
type JoinRequest struct {
	Token     string `json:"token"`
	Version   string `json:"version"`
	PublicKey []byte `json:"public_key"` // Ed25519, 32 bytes, base64 in JSON
}

// JoinResponse is the answer to a JoinRequest. Robot and Secret are the robot's HTTP Basic and FTP
// credentials.
type JoinResponse struct {
	Robot     string `json:"robot"`
	Secret    string `json:"secret"`
	ServerKey []byte `json:"server_key"`    // Ed25519, 32 bytes; the service signs receipts with it
	FTP       string `json:"ftp,omitempty"` // host:port of the FTP server for batches, if there is one

	// KeyNumber is the number of ServerKey among the service's keys; 0: the program of the service
	// or of the robot is too old to know it. See KeyStatement.
	KeyNumber int64 `json:"server_key_number,omitempty"`

	// ReleaseKey is the minisign key with which the operators sign the robot's program; empty if
	// there is none yet. The robot will trust no other key.
	ReleaseKey string `json:"release_key,omitempty"`
}

// Paths of the protocol between robots and the service. {robot} is the robot's name, {batch} a
// batch ID.
const (
	PathJoin        = "/v1/robots/join"
	PathList        = "/v1/robots/{robot}/list"        // P1, GET
	PathRecord      = "/v1/robots/{robot}/record"      // P2, POST
	PathSubmitLog   = "/v1/robots/{robot}/submitlog"   // P3, POST
	PathIsRestart   = "/v1/robots/{robot}/isrestart"   // P4, GET
	PathSubscribe   = "/v1/robots/{robot}/subscribe"   // P5, POST
	PathUnsubscribe = "/v1/robots/{robot}/unsubscribe" // P5, POST

	PathAddresses = "/v1/robots/{robot}/addresses" // POST: the addresses at which the robot reached its hosts

	PathUploads  = "/v1/batches/uploads/"         // tus 1.0; metadata key "batch"
	PathManifest = "/v1/batches/{batch}/manifest" // PUT; it comes last and completes the batch
	PathReceipt  = "/v1/batches/{batch}/receipt"  // GET: signed receipt

	// HeaderGeneration is the header of a P1 answer with the generation of the assignment.
	HeaderGeneration = "Sheaf-Generation"
)

// Problem is the body of every HTTP error (RFC 9457, application/problem+json).
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // what is wrong, and what to do
	Reason string `json:"reason,omitempty"` // a stable code, such as "window_closed" or a quarantine Reason
	Next   string `json:"next,omitempty"`   // RFC 3339: earliest time for another try

	Request string `json:"request,omitempty"` // ID of the request in the service's log
}

// AddressReport is the body of a POST to PathAddresses.
type AddressReport struct {
	Addresses map[string][]string `json:"addresses"` // by host
}

// ErrUnauthorized says that a robot's name and secret do not belong together, or no longer do.
var ErrUnauthorized = errors.New("robot's name or secret is wrong, or the robot was revoked")

// CheckContact returns an error if a contact, a URL or a mail address, cannot be used to reach
// anybody. Robots with placeholder contacts have been banned, and their owners never learned why.
func CheckContact(contact string) error {
	if contact == "" {
		return errors.New("it is required: a URL or a mail address at which webmasters reach you")
	}
	domain := ""
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		domain = u.Hostname()
	} else if a, err := mail.ParseAddress(strings.TrimPrefix(contact, "mailto:")); err == nil {
		domain = a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	}
	domain = strings.ToLower(domain)
	switch {
	case strings.ContainsAny(contact, "\r\n()"):
		return errors.New("it holds a line end or parentheses")
	case !strings.Contains(domain, "."):
		return errors.New("it is neither a URL nor a mail address with a domain")
	}
	for _, placeholder := range []string{
		"example.com", "example.org", "example.net", "example.jp", "yourdomain.com", "your-domain.com", "example", "invalid", "localhost",
	} {
		if domain == placeholder || strings.HasSuffix(domain, "."+placeholder) {
			return errors.New("it is a placeholder; give an address at which webmasters reach you")
		}
	}
	return nil
}

// RetryAfter parses a Retry-After header, in seconds or as a date, and returns at most a week. It
// returns 0 if the header is missing, not valid or past.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(min(n, 7*24*3600)) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil && t.After(now) {
		return min(t.Sub(now), 7*24*time.Hour)
	}
	return 0
}
