package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// Kind classifies why a page was not fetched.
type Kind string

// The kinds of errors.
const (
	DNS      Kind = "dns"             // the name has no address, or the look-up failed
	Connect  Kind = "connect"         // nothing answers at the address
	Proxy    Kind = "proxy"           // no connection through Options.Proxy
	TLS      Kind = "tls"             // no agreement on encryption, or a certificate that does not verify
	Timeout  Kind = "timeout"         // Options.Timeout has passed
	Refused  Kind = "refused_address" // a private or special address, which the robot does not visit
	TooSlow  Kind = "too_slow"        // slower than Options.MinRate before the end of the header
	Silent   Kind = "no_answer"       // the server hung up before it answered
	Protocol Kind = "protocol"        // the server's answer is no HTTP
	Canceled Kind = "canceled"        // the caller gave up
	Over     Kind = "over"            // the run's connection is closed, or the caller has forbidden it; no request was sent
	Local    Kind = "local"           // the fault is on this side: the URL, the settings, the disk
)

// kinds are all kinds of errors, by which a hand's answer is checked.
var kinds = []Kind{DNS, Connect, Proxy, TLS, Timeout, Refused, TooSlow, Silent, Protocol, Canceled, Over, Local}

// errForbidden means that Request.Allowed has returned false.
var errForbidden = errors.New("the request is not allowed any more")

// Error is why a page was not fetched.
type Error struct {
	Kind Kind
	URL  string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("fetch %.200s: %s: %v", e.URL, e.Kind, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error from Get or Resolve, and "" for any other.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

var (
	errTooSlow = errors.New("fewer bytes than the minimum rate asks for")
	errRefused = errors.New("a private or special address; allow private addresses in the settings if it is meant")
)

// kindError is an error whose kind is known where it occurs. classify reads the kind.
type kindError struct {
	kind Kind
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// classify returns the *Error of a failed fetch. A cancellation and the time limit look like closed
// connections, so the contexts are asked first.
func classify(caller, limited context.Context, url string, err error) *Error {
	var (
		kind    = Protocol
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
	)
	if byStage, ok := errors.AsType[*kindError](err); ok {
		kind = byStage.kind
	}
	switch {
	case errors.Is(err, errRefused):
		kind = Refused
	case kind == Local:
	case errors.Is(err, errRunOver), errors.Is(err, errForbidden):
		kind = Over
	case caller.Err() != nil:
		kind, err = Canceled, context.Cause(caller)
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		kind = Timeout
	case errors.Is(err, errTooSlow):
		kind = TooSlow
	case errors.As(err, &dns):
		kind = DNS
	case errors.As(err, &cert), errors.As(err, &unknown):
		kind = TLS
	}
	return &Error{Kind: kind, URL: url, Err: err}
}
