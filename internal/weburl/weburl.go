// Package weburl parses the URLs of web pages as browsers do.
//
// Pages are written for browsers, and browsers follow the WHATWG URL standard: they drop tabs and
// line ends, treat backslashes as slashes and "http:x.html" as relative, accept 0x7f.1 as an
// address, and percent-encode a query in the page's own encoding. A robot that followed RFC 3986
// would miss such pages, or request other pages than a browser does. The same parser serves base
// URLs, references, redirects and the keys of the set of seen URLs. A fast path resolves ordinary
// relative references.
//
// Fragments are dropped, since they name no resource. URLs of schemes without an authority
// (mailto:, javascript:) are returned as they are, so that the caller can recognise them.
package weburl

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/text/encoding"
)

// MaxLength is the limit for a URL, in bytes after normalization.
const MaxLength = 8 << 10

// ErrTooLong means that a URL is longer than MaxLength.
var ErrTooLong = errors.New("longer than 8192 bytes")

// Error says which reference could not be parsed, and why.
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

// Parse resolves ref against the absolute URL base and returns the absolute URL, normalized and
// without fragment. If base is empty, ref must be absolute. The query is percent-encoded in the
// page's encoding enc; nil means UTF-8.
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

// About returns the bare URL of the page that a record of an archive is about. target is the
// record's target URI: the page, or something made from it ("urn:text:https://…",
// "screenshot:http://…").
func About(target string) (string, error) {
	if at := strings.Index(target, ":http"); at >= 0 && !isWeb(target) {
		target = target[at+1:]
	}
	if !isWeb(target) {
		return "", &Error{target, errNoPage}
	}
	u, err := New(target, nil)
	if err != nil {
		return "", err
	}
	return u.Bare(), nil
}

// isWeb reports whether a URL is of http or https.
func isWeb(url string) bool {
	scheme, _, ok := cutScheme(url)
	return ok && (scheme == "http" || scheme == "https")
}

// Host returns the authority of an absolute URL in the form that names a host throughout the
// project: lower case, punycode, without user and default port. It returns "" if the URL has no
// authority.
func Host(url string) string {
	u, err := New(url, nil)
	if err != nil {
		return ""
	}
	return u.Host()
}

// Canonical returns the key of a URL in the set of seen URLs. Two URLs with the same key count as
// one resource. In addition to what Parse does, Canonical decodes percent-encoded unreserved
// characters, writes other percent-encodings with upper-case digits (RFC 3986, section 6.2.2), and
// removes user names, session parameters (see session.go) and an empty query. A URL that cannot be
// parsed is its own key.
func Canonical(url string) string {
	u, err := New(url, nil)
	if err != nil {
		return url
	}
	return u.Canonical()
}

// PathQuery returns path and query of an absolute URL without a fragment, or "/" if it has neither.
func PathQuery(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:]
	}
	return "/"
}
