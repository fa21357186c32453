package weburl

import (
	"errors"
	"strings"
)

// Prefix names the pages of one host whose URLs begin in the same way. All rules that hide or leave
// out pages by the beginning of their URLs use it: take-downs, access rules, removals, and the
// pages that robots must not collect.
//
//   - It holds for http and for https, whichever it is written with. A default port does not count.
//   - It holds for the host as written: www.example.jp and example.jp are two hosts.
//   - Two spellings of one URL (RFC 3986, section 6.2.2) are one: "%70rivate" is "private", "%e3"
//     is "%E3", "a/../private" is "private". So are "%28" and "(", which servers do not tell apart.
//     A letter of a path in another case is another letter.
//   - Slashes in a row are one, as they are to most servers: "//private/" is "/private/".
//   - A session ID (see session.go) in a URL or in the prefix makes no difference. What stands
//     before the ID is whole: "/p?sid=…" names /p with any query, but not /pq.
type Prefix struct {
	spelling
	next string // if bare lacks a session ID at its end: the bytes before which it ends
}

// spelling is the form in which a URL, or the beginning of one, is compared.
type spelling struct {
	host string
	path string // with a query, if it has one
	bare string // path without session IDs
}

// Reasons why a text is not a prefix.
var (
	errPrefixForm   = errors.New("want the beginning of a URL with the whole host and a path, such as http://www.example.jp/private/")
	errPrefixEscape = errors.New("ends within a percent-encoded byte; leave the % out, or complete it")
	errPrefixSlash  = errors.New("ends in two slashes, which name the same as one; write one")
	errPrefixDots   = errors.New("ends in a segment . or .., which names another path; write that path")
)

// ParsePrefix parses a prefix that a person has written. The result never names more pages than the
// text.
func ParsePrefix(text string) (Prefix, error) {
	scheme, rest, ok := cutScheme(text)
	if !ok || scheme != "http" && scheme != "https" || !strings.HasPrefix(rest, "//") {
		return Prefix{}, &Error{text, errPrefixForm}
	}
	host, path, ok := strings.Cut(rest[2:], "/")
	if !ok || host == "" || strings.ContainsAny(host, `?#@\`) || strings.Contains(path, "#") || clean(text) != text {
		return Prefix{}, &Error{text, errPrefixForm}
	}
	if at := strings.LastIndexByte(text, '%'); at >= 0 && at >= len(text)-2 {
		return Prefix{}, &Error{text, errPrefixEscape}
	}
	if last := path[strings.LastIndexAny(path, `/\`)+1:]; !strings.Contains(path, "?") && dots(last) > 0 {
		return Prefix{}, &Error{text, errPrefixDots}
	}
	u, err := New(text, nil)
	if err != nil {
		return Prefix{}, err
	}
	if strings.HasSuffix(u.path, "//") && !u.hasQuery {
		return Prefix{}, &Error{text, errPrefixSlash}
	}
	p := PrefixOf(text)
	switch {
	case PrefixOf(p.String()) != p: // odd hosts, such as one that consists of dots
		return Prefix{}, &Error{text, errPrefixForm}
	case len(p.String()) > MaxLength:
		return Prefix{}, &Error{text, ErrTooLong}
	}
	return p, nil
}

// PrefixOf is ParsePrefix for a text that ParsePrefix has accepted before.
func PrefixOf(text string) Prefix {
	p := Prefix{spelling: spell(text)}
	before, query, hasQuery := strings.Cut(p.path, "?")
	switch {
	case p.bare == p.path:
	case hasQuery && !strings.Contains(p.bare, "?"):
		p.next = "?"
	case hasQuery && isSession(query[strings.LastIndexByte(query, '&')+1:]):
		p.next = "&"
	case !hasQuery && isSession(before[strings.LastIndexAny(before, "/;")+1:]):
		p.next = ";/?"
	}
	return p
}

// Host returns the host, in the form of the function Host.
func (p Prefix) Host() string { return p.host }

// Path returns the beginning of the URLs after the host: the path, and the query if there is one.
func (p Prefix) Path() string { return p.path }

// String returns the prefix in its stored form, which is the same for all its spellings.
func (p Prefix) String() string { return "http://" + p.host + p.path }

// Holds reports whether the prefix names the page at an absolute URL.
func (p Prefix) Holds(url string) bool {
	s := spell(url)
	if s.host != p.host {
		return false
	}
	rest, ok := strings.CutPrefix(s.bare, p.bare)
	return ok && (rest == "" || p.next == "" || strings.IndexByte(p.next, rest[0]) >= 0) || strings.HasPrefix(s.path, p.path)
}

// Meets reports whether a page may be named by both prefixes.
func (p Prefix) Meets(o Prefix) bool {
	return p.host == o.host && (strings.HasPrefix(p.bare, o.bare) || strings.HasPrefix(o.bare, p.bare))
}

// spell returns the normal spelling of a URL. A text that cannot be parsed stays as it is.
func spell(url string) spelling {
	u, err := New(url, nil)
	if err != nil {
		_, rest, _ := strings.Cut(url, "://")
		host, path, _ := strings.Cut(rest, "/")
		return spelling{strings.ToLower(host), "/" + path, "/" + path}
	}
	c := URL{path: oneSlash(unescape(u.path, plainInPath)), query: unescape(u.query, plainInQuery), hasQuery: u.hasQuery}
	path := c.PathQuery()
	if c.path, c.query = dropSessions(c.path, c.query); c.query == "" && u.query != "" {
		c.hasQuery = false
	}
	c.host, c.port = strings.TrimRight(u.host, "."), u.port
	return spelling{c.Host(), path, c.PathQuery()}
}

// oneSlash returns a path with one slash for each row of slashes.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// plainInPath reports whether a byte needs no percent-encoding in a path, and does not separate its
// parts.
func plainInPath(c byte) bool { return !pathSet.has(c) && strings.IndexByte(`%/\`, c) < 0 }

// plainInQuery is plainInPath for a query.
func plainInQuery(c byte) bool { return !specialQuerySet.has(c) && strings.IndexByte("%&=+;", c) < 0 }
