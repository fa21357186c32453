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
	"cmp"
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
// removes user names, session parameters (see isSession) and an empty query. A URL that cannot be
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

// URL is a parsed absolute URL. It is immutable, so goroutines may share one as a base.
type URL struct {
	scheme   string // lower case
	user     string // "user" or "user:password", percent-encoded
	host     string // lower case, punycode; an IPv6 address in brackets
	port     string // empty if it is the scheme's default
	path     string // begins with "/" if the scheme is special
	query    string // without "?"
	hasHost  bool   // there is an authority, perhaps an empty one
	hasQuery bool
	opaque   bool // the path has no segments: mailto:, data:
}

// Reasons why a URL cannot be parsed.
var (
	errNoBase   = errors.New("relative, and its base has no path to resolve it against")
	errNoScheme = errors.New("relative, where an absolute URL is needed")
	errHost     = errors.New("its host is not a name or address")
	errNoPage   = errors.New("not of http or https")
	errPort     = errors.New("its port is not a number up to 65535")
)

// New parses an absolute URL. It percent-encodes the query in enc; nil means UTF-8.
func New(s string, enc encoding.Encoding) (*URL, error) {
	return parse(nil, s, enc)
}

// Resolve resolves ref against u. It percent-encodes the query in enc; nil means UTF-8.
func (u *URL) Resolve(ref string, enc encoding.Encoding) (string, error) {
	abs, ok := u.resolvePlain(ref)
	if !ok {
		r, err := parse(u, ref, enc)
		if err != nil {
			return "", err
		}
		abs = r.String()
	}
	if len(abs) > MaxLength {
		return "", &Error{ref, ErrTooLong}
	}
	return abs, nil
}

// Scheme returns the scheme in lower case, without colon.
func (u *URL) Scheme() string { return u.scheme }

// Host returns the authority without user and default port.
func (u *URL) Host() string {
	if u.port == "" {
		return u.host
	}
	return u.host + ":" + u.port
}

// Hostname returns the host without port, and an IPv6 address without brackets.
func (u *URL) Hostname() string {
	return strings.TrimSuffix(strings.TrimPrefix(u.host, "["), "]")
}

// Port returns the port, or the scheme's default if there is none.
func (u *URL) Port() string { return cmp.Or(u.port, defaultPort(u.scheme)) }

// PathQuery returns path and query, as in a request line.
func (u *URL) PathQuery() string {
	if u.hasQuery {
		return u.path + "?" + u.query
	}
	return u.path
}

// String returns the URL without fragment.
func (u *URL) String() string {
	var b strings.Builder
	b.Grow(len(u.scheme) + len(u.user) + len(u.host) + len(u.port) + len(u.path) + len(u.query) + 6)
	b.WriteString(u.scheme)
	b.WriteByte(':')
	switch {
	case u.hasHost:
		b.WriteString("//")
		u.writeAuthority(&b)
	case !u.opaque && strings.HasPrefix(u.path, "//"):
		b.WriteString("/.") // otherwise the path would be parsed as an authority
	}
	b.WriteString(u.path)
	if u.hasQuery {
		b.WriteByte('?')
		b.WriteString(u.query)
	}
	return b.String()
}

// Bare returns the URL without user and without dots at the end of its host. These do not change
// the resource, so the archive keeps pages under the bare URL.
func (u *URL) Bare() string {
	c := *u
	if c.user = ""; special(c.scheme) {
		c.host = strings.TrimRight(c.host, ".")
	}
	return c.String()
}

// Canonical returns the URL in the form of the function Canonical.
func (u *URL) Canonical() string {
	c := *u
	c.user = ""
	c.query = UnescapeUnreserved(c.query)
	if !c.opaque {
		c.path, c.query = dropSessions(UnescapeUnreserved(c.path), c.query)
	}
	c.hasQuery = c.query != ""
	return c.String()
}

// special reports whether a scheme is special in the WHATWG standard: its URLs always have an
// authority, and may have backslashes as slashes.
func special(scheme string) bool {
	return defaultPort(scheme) != "" || scheme == "file"
}

// defaultPort returns the default port of a special scheme; file has none.
func defaultPort(scheme string) string {
	switch scheme {
	case "http", "ws":
		return "80"
	case "https", "wss":
		return "443"
	case "ftp":
		return "21"
	}
	return ""
}

// writeAuthority writes the part between the two slashes and the path.
func (u *URL) writeAuthority(b *strings.Builder) {
	if u.user != "" {
		b.WriteString(u.user)
		b.WriteByte('@')
	}
	b.WriteString(u.host)
	if u.port != "" {
		b.WriteByte(':')
		b.WriteString(u.port)
	}
}
