// Package weburl reads the URLs of web pages as browsers do.
//
// Pages are written for browsers, and browsers follow the WHATWG URL standard:
// tabs and line ends vanish, backslashes are slashes, "http:x.html" is relative,
// 0x7f.1 is an address, a query is percent-encoded in the page's own encoding.
// A robot that reads URLs by RFC 3986 misses such pages or asks for others than
// the reader of the page would get. One parser serves for everything: base
// URLs, references, redirects and the seen set's keys. A fast path answers the
// ordinary relative reference without taking it apart.
//
// Fragments are dropped: they name no resource. URLs of schemes without an
// authority (mailto:, javascript:) are kept as they are, so that the caller can
// tell what it leaves out.
package weburl

import (
	"errors"
	"fmt"

	"golang.org/x/text/encoding"
)

// MaxLength is the longest URL, in bytes after normalisation, that is accepted.
const MaxLength = 8 << 10

// ErrTooLong means that a URL is longer than MaxLength.
var ErrTooLong = errors.New("longer than 8192 bytes")

// Error says which reference could not be read, and why.
type Error struct {
	Ref string
	Err error
}

func (e *Error) Error() string {
	ref := e.Ref
	if len(ref) > 100 {
		ref = ref[:100] + "…"
	}
	return fmt.Sprintf("weburl: %q: %v", ref, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Parse resolves ref against the absolute URL base (empty: ref itself must be
// absolute) and returns the absolute URL, normalised, without fragment. The
// query is percent-encoded in enc, the page's encoding; nil stands for UTF-8.
func Parse(base, ref string, enc encoding.Encoding) (string, error) {
	if base == "" {
		u, err := New(ref, enc)
		if err != nil {
			return "", err
		}
		abs := u.String()
		if len(abs) > MaxLength {
			return "", &Error{ref, ErrTooLong}
		}
		return abs, nil
	}
	b, err := New(base, nil)
	if err != nil {
		return "", err
	}
	return b.Resolve(ref, enc)
}

// Host returns the authority of an absolute URL in the form that names a host
// throughout the project: lower case, punycode, without user and default port.
// It is empty where the URL has none.
func Host(url string) string {
	u, err := New(url, nil)
	if err != nil {
		return ""
	}
	return u.Host()
}

// Canonical returns the form under which a URL is known to the seen set: two
// URLs with the same canonical form are the same resource by RFC 3986 section 6.2.2.
// Besides what Parse does it writes percent-encodings of unreserved
// characters as the characters, the others with upper-case digits, and drops
// user names, parameters that carry a session (see session.go) and a query that is empty.
func Canonical(url string) string {
	u, err := New(url, nil)
	if err != nil {
		return url
	}
	return u.Canonical()
}
