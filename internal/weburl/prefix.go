package weburl

import (
	"errors"
	"slices"
	"strings"
)

// Prefix names the pages of one host whose URLs begin in the same way. All rules that hide or leave
// out pages by the beginning of their URLs use it: take-downs, access rules, removals, and the
// pages that robots must not collect.
//
//   - It holds for http and for https, whichever it is written with. A default port does not count.
//   - It holds for the host as written: www.example.jp and example.jp are two hosts.
//   - URLs with one key (see Key) are one page, since whoever asks for one of them is given the
//     others. So "%70rivate", "PRIVATE", "%2570rivate" and "a/../private" are "private", "//private/"
//     and "/private" are "/private/", and the order of a query's parameters does not matter.
//   - A session ID (see isSession) in a URL or in the prefix makes no difference. What stands
//     before the ID is whole: "/p?sid=…" names /p with any query, but not /pq.
type Prefix struct {
	host  string
	path  string // as spelling has it
	begin string // the beginning of the keys: a path, or a path with some parameters; only the last parameter may be incomplete
	whole bool   // a session ID was removed from the end of begin, a path: only / or ; may follow it in a key
}

// spelling has the forms in which URLs are compared.
type spelling struct {
	host string
	path string // with the query, if there is one
	key  string // its Key, without any session IDs
}

// Reasons why a text is not a prefix.
var (
	errPrefixForm   = errors.New("want the beginning of a URL with the whole host and a path, such as http://www.example.jp/private/")
	errPrefixEscape = errors.New("ends within a percent-encoded byte; leave the % out, or complete it")
	errPrefixSlash  = errors.New("ends in two slashes, which name the same as one; write one")
	errPrefixDots   = errors.New("ends in a segment . or .., which names another path; write that path")
)

// ParsePrefix parses a prefix that a person has written. The result names the pages whose URLs
// begin with the text, and those with the same keys.
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
	if all := unescapeAll(path); !strings.Contains(path, "?") && dots(all[strings.LastIndexAny(all, `/\`)+1:]) > 0 {
		return Prefix{}, &Error{text, errPrefixDots}
	}
	u, err := New(text, nil)
	if err != nil {
		return Prefix{}, err
	}
	if strings.HasSuffix(unescapeAll(u.path), "//") && !u.hasQuery {
		return Prefix{}, &Error{text, errPrefixSlash}
	}
	if u.path != "/" && keyPath(u.path) == "/" && !u.hasQuery { // such as /a/%252e%252e/
		return Prefix{}, &Error{text, errPrefixDots}
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
	s := spell(text)
	path, query, hasQuery := strings.Cut(s.path, "?")
	key := keyPath(path)
	p := Prefix{host: s.host, path: s.path, begin: dropFromPath(withoutSession(key))}
	if !hasQuery {
		p.whole = p.begin != key && isSession(key[strings.LastIndexAny(key, "/;")+1:])
		if strings.HasSuffix(unescapeAll(path), "/") && p.begin != "/" {
			p.begin += "/"
		}
		return p
	}
	params := keyParameters(query)
	last := len(params) - 1
	if session(params[last]) {
		params[last] = ""
	}
	p.begin += "?" + strings.Join(append(slices.DeleteFunc(params[:last:last], session), params[last]), "&")
	return p
}

// session reports whether a parameter of a key is a session ID.
func session(param string) bool { return keySession(param) || isSession(param) }

// dropFromPath removes the session IDs from the path of a key.
func dropFromPath(path string) string {
	path, _ = dropSessions(path+"/", "")
	return "/" + strings.Trim(path, "/")
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
	return s.host == p.host && (strings.HasPrefix(s.path, p.path) || p.names(s.key))
}

// names reports whether a key begins as the prefix does.
func (p Prefix) names(key string) bool {
	path, query, _ := strings.Cut(key, "?")
	begin, some, hasQuery := strings.Cut(p.begin, "?")
	if !hasQuery {
		return p.above(path + "/")
	}
	params, want := strings.Split(query, "&"), strings.Split(some, "&")
	last := len(want) - 1
	for _, param := range want[:last] {
		at := slices.Index(params, param)
		if at < 0 {
			return false
		}
		params = slices.Delete(params, at, at+1)
	}
	return path == begin && (want[last] == "" || slices.ContainsFunc(params, func(param string) bool { return strings.HasPrefix(param, want[last]) }))
}

// above reports whether the path of a key begins as the prefix does. The prefix must have no query.
func (p Prefix) above(path string) bool {
	rest, ok := strings.CutPrefix(path, p.begin)
	return ok && (!p.whole || rest != "" && strings.IndexByte("/;", rest[0]) >= 0)
}

// Covers reports whether the prefix names all pages that the prefix o names. It may return false
// for prefixes with the same parameters in another order.
func (p Prefix) Covers(o Prefix) bool {
	path, _, hasQuery := strings.Cut(o.begin, "?")
	if hasQuery {
		path += "/"
	}
	return p.host == o.host && (strings.HasPrefix(o.path, p.path) || !strings.Contains(p.begin, "?") && p.above(path))
}

// Meets reports whether a page may be named by both prefixes.
func (p Prefix) Meets(o Prefix) bool {
	a, _, hasQuery := strings.Cut(p.begin, "?")
	b, _, alike := strings.Cut(o.begin, "?")
	switch {
	case p.host != o.host:
		return false
	case hasQuery && alike:
		return a == b
	case hasQuery:
		a += "/"
	case alike:
		b += "/"
	}
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// spell returns the forms of a URL. If the URL cannot be parsed, its path stays as it is.
func spell(url string) spelling {
	if s, ok := spellPlain(url); ok {
		return s
	}
	return spellAny(url)
}

// spellPlain is spell for URLs that are in the normal form, like most: their paths have lower-case
// letters, digits and little else. ok is false for other URLs.
func spellPlain(url string) (s spelling, ok bool) {
	scheme, rest, _ := strings.Cut(url, "://")
	at := strings.IndexByte(rest, '/')
	if scheme != "http" && scheme != "https" || at < 0 || !plainHost(rest[:at]) {
		return s, false
	}
	path := rest[at:]
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', isDigit(c), c == '-', c == '_', c == '~':
		case (c == '/' || c == '.') && (i == 0 || path[i-1] != '/'):
		default:
			return s, false
		}
	}
	return spelling{host: rest[:at], path: path, key: path[:max(1, len(strings.TrimSuffix(path, "/")))]}, true
}

// spellAny is spell for all URLs.
func spellAny(url string) spelling {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	rest, _, _ = strings.Cut(rest[min(len(rest), strings.IndexAny(rest+"/", "/?#")):], "#")
	s := spelling{host: strings.ToLower(host), path: rest}
	path, query, hasQuery := strings.Cut(Key(rest), "?")
	if s.key, query = dropFromPath(path), dropFrom("&"+query, "&"); hasQuery {
		s.key += "?" + strings.TrimPrefix(query, "&")
	}
	if u, err := New(url, nil); err == nil {
		c := URL{path: oneSlash(unescape(u.path, plainInPath)), query: unescape(u.query, plainInQuery), hasQuery: u.hasQuery, host: strings.TrimRight(u.host, "."), port: u.port}
		s.host, s.path = c.Host(), c.PathQuery()
	}
	return s
}

// oneSlash returns a path with one slash for each row of slashes.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// plainInPath reports whether a byte needs no percent-encoding in a path, and is no separator
// there.
func plainInPath(c byte) bool { return !pathSet.has(c) && strings.IndexByte(`%/\`, c) < 0 }

// plainInQuery is plainInPath for a query.
func plainInQuery(c byte) bool { return !specialQuerySet.has(c) && strings.IndexByte("%&=+;", c) < 0 }
