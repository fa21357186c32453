package weburl

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// parse is the WHATWG basic URL parser, except for the fragment. base may be nil.
func parse(base *URL, ref string, enc encoding.Encoding) (*URL, error) {
	in := clean(ref)
	if len(in) > 4*MaxLength {
		return nil, &Error{ref, ErrTooLong}
	}
	in, _, fragment := strings.Cut(in, "#")
	scheme, rest, ok := cutScheme(in)
	var (
		u   *URL
		err error
	)
	switch {
	case !ok && base == nil:
		err = errNoScheme
	case !ok && base.opaque && (in != "" || !fragment):
		err = errNoBase
	case !ok && base.opaque:
		return base, nil
	case !ok, base != nil && base.scheme == scheme && special(scheme) && !twoSlashes(rest, true):
		if ok {
			in = rest
		}
		u, err = relative(base, in, enc)
	default:
		u, err = absolute(scheme, rest, enc)
	}
	if err != nil {
		return nil, &Error{ref, err}
	}
	return u, nil
}

// clean removes control characters and spaces at both ends, and tabs and line ends anywhere, as
// browsers do. If s is not UTF-8, like some URLs in headers, it percent-encodes the bytes that are
// not ASCII.
func clean(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	if !utf8.ValidString(s) {
		s = Bytes(s)
	}
	if !strings.ContainsAny(s, "\t\n\r") {
		return s
	}
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
}

// cutScheme splits "http://host" into "http" and "//host".
func cutScheme(s string) (scheme, rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return strings.ToLower(s[:i]), s[i+1:], true
		default:
			return "", "", false
		}
	}
	return "", "", false
}

func isSlash(c byte, special bool) bool { return c == '/' || special && c == '\\' }

func twoSlashes(s string, special bool) bool {
	return len(s) >= 2 && isSlash(s[0], special) && isSlash(s[1], special)
}

// absolute parses rest, the part after "scheme:", of a URL that does not need a base.
func absolute(scheme, rest string, enc encoding.Encoding) (*URL, error) {
	u := &URL{scheme: scheme}
	sp := special(scheme)
	switch {
	case scheme == "file":
		for len(rest) > 0 && isSlash(rest[0], true) && !(len(rest) > 1 && !isSlash(rest[1], true)) {
			rest = rest[1:]
		}
		u.hasHost = true
	case sp:
		rest = strings.TrimLeft(rest, `/\`)
		return u.authority(rest, enc)
	case twoSlashes(rest, false):
		return u.authority(rest[2:], enc)
	case !strings.HasPrefix(rest, "/"):
		u.opaque = true
		path, query, has := strings.Cut(rest, "?")
		u.path = escape(path, controlSet)
		u.setQuery(query, has, enc)
		return u, nil
	}
	u.setPath("", rest, enc)
	return u, nil
}

// relative resolves a reference without a scheme, or with the scheme of its base.
func relative(base *URL, ref string, enc encoding.Encoding) (*URL, error) {
	u := *base
	sp := special(base.scheme)
	switch {
	case twoSlashes(ref, sp):
		u = URL{scheme: base.scheme}
		if base.scheme == "file" {
			return absolute(base.scheme, ref, enc)
		}
		ref = ref[2:]
		if sp {
			ref = strings.TrimLeft(ref, `/\`)
		}
		return u.authority(ref, enc)
	case ref == "":
	case ref[0] == '?':
		u.setQuery(ref[1:], true, enc)
	case isSlash(ref[0], sp):
		u.setPath("", ref, enc)
	default:
		u.setPath(base.path[:strings.LastIndexByte(base.path, '/')+1], ref, enc)
	}
	return &u, nil
}

// authority parses "user@host:port/path?query".
func (u *URL) authority(s string, enc encoding.Encoding) (*URL, error) {
	sp := special(u.scheme)
	end := strings.IndexAny(s, "/?")
	if sp {
		end = strings.IndexAny(s, `/\?`)
	}
	auth, rest := s, ""
	if end >= 0 {
		auth, rest = s[:end], s[end:]
	}
	if at := strings.LastIndexByte(auth, '@'); at >= 0 {
		name, password, has := strings.Cut(auth[:at], ":")
		u.user = escape(name, userSet)
		if has && password != "" {
			u.user += ":" + escape(password, userSet)
		}
		auth = auth[at+1:]
	}
	host, port := auth, ""
	if colon := strings.LastIndexByte(auth, ':'); colon > strings.LastIndexByte(auth, ']') {
		host, port = auth[:colon], auth[colon+1:]
		if host == "" {
			return nil, errHost
		}
	}
	var err error
	if u.host, err = parseHost(host, sp); err != nil {
		return nil, err
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, errPort
		}
		if port = strconv.FormatUint(n, 10); port != defaultPort(u.scheme) {
			u.port = port
		}
	}
	u.hasHost = true
	u.setPath("", rest, enc)
	return u, nil
}

// setPath sets path and query from s, relative to the directory dir, which is normalized and ends
// in "/", or is empty.
func (u *URL) setPath(dir, s string, enc encoding.Encoding) {
	path, query, has := strings.Cut(s, "?")
	u.path = joinPath(dir, path, special(u.scheme))
	u.setQuery(query, has, enc)
}

func (u *URL) setQuery(s string, has bool, enc encoding.Encoding) {
	set := querySet
	if special(u.scheme) {
		set = specialQuerySet
	} else {
		enc = nil
	}
	u.query, u.hasQuery = escapeQuery(s, set, enc), has
}

// joinPath resolves the dot segments of path relative to dir.
func joinPath(dir, path string, special bool) string {
	if path == "" && dir == "" {
		if special {
			return "/"
		}
		return ""
	}
	if dir == "" && plainPath(path) {
		return path
	}
	return cleanPath(dir, path, special)
}

// cleanPath is joinPath if dir or path is not empty.
func cleanPath(dir, path string, special bool) string {
	out := make([]byte, 0, len(dir)+len(path)+8)
	out = append(out, dir...)
	if path != "" && isSlash(path[0], special) {
		path = path[1:]
		out = append(out[:0], '/')
	} else if len(out) == 0 {
		out = append(out, '/')
	}
	// Invariant: out ends with the "/" before the next segment.
	for {
		end := strings.IndexByte(path, '/')
		if special {
			end = strings.IndexAny(path, `/\`)
		}
		segment, last := path, end < 0
		if !last {
			segment, path = path[:end], path[end+1:]
		}
		switch dots(segment) {
		case 1:
		case 2:
			if i := bytes.LastIndexByte(out[:len(out)-1], '/'); i >= 0 {
				out = out[:i+1]
			}
		default:
			out = appendEscaped(out, segment, pathSet)
			if !last {
				out = append(out, '/')
			}
		}
		if last {
			return string(out)
		}
	}
}

// plainPath reports whether an absolute path is already in its final form, like most paths: it has
// no character to encode, and no segment that begins with a dot.
func plainPath(path string) bool {
	if path[0] != '/' {
		return false
	}
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case plain(c), c == '/', c == '~', c == '.' && path[i-1] != '/':
		default:
			return false
		}
	}
	return true
}

// dots returns the number of dots if a segment is "." or "..", also as %2e, and 0 for other
// segments.
func dots(segment string) int {
	if len(segment) > 6 {
		return 0
	}
	n := 0
	for segment != "" {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) >= 3 && strings.EqualFold(segment[:3], "%2e"):
			segment = segment[3:]
		default:
			return 0
		}
		n++
	}
	if n > 2 {
		return 0
	}
	return n
}

// resolvePlain resolves a path without special characters, as most links have: an absolute path, or
// a relative one, which it appends to its base's directory. It returns false for any other
// reference.
func (u *URL) resolvePlain(ref string) (string, bool) {
	if u.opaque || !u.hasHost || u.path == "" || len(ref) > 512 || ref == "" || !plain(ref[0]) && ref[0] != '/' {
		return "", false
	}
	path := ref
	for i := 0; i < len(ref); i++ {
		if plain(ref[i]) {
			continue
		}
		switch c := ref[i]; {
		case c == '/' && (i+1 == len(ref) || plain(ref[i+1])):
		case c == '.' && i > 0 && ref[i-1] != '/':
		case c == '#':
			path = ref[:i]
		default:
			return "", false
		}
		if len(path) < len(ref) {
			break
		}
	}
	var b strings.Builder
	b.Grow(len(u.scheme) + len(u.user) + len(u.host) + len(u.port) + len(u.path) + len(path) + 5)
	b.WriteString(u.scheme)
	b.WriteString("://")
	u.writeAuthority(&b)
	if path[0] != '/' {
		b.WriteString(u.path[:strings.LastIndexByte(u.path, '/')+1])
	}
	b.WriteString(path)
	return b.String(), true
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
