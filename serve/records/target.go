package records

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"sheaf/archive/naming"
	"sheaf/serve/library"
)

// Values of matchType.
var matches = map[string]library.Match{
	"exact": library.MatchExact, "prefix": library.MatchPrefix, "host": library.MatchHost, "domain": library.MatchDomain,
}

// parseTarget parses a search target. match is from matchType, or 0 if that is not given. Asterisks
// in the text must agree with it; with MatchExact they are part of the URL.
func parseTarget(text string, match library.Match) (library.Target, error) {
	rest, wild := strings.TrimSpace(text), library.Match(0)
	if match == library.MatchExact { // an asterisk is part of the URL
	} else if r, ok := strings.CutPrefix(rest, "*."); ok {
		rest, wild = r, library.MatchDomain
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, "*"), "/")
	} else if r, ok := strings.CutSuffix(rest, "*"); ok {
		rest, wild = r, library.MatchPrefix
	}
	switch {
	case rest == "":
		return library.Target{}, errors.New("is empty")
	case wild != 0 && match != 0 && wild != match:
		return library.Target{}, errors.New("its asterisk contradicts matchType")
	case wild != 0:
		match = wild
	case match == 0:
		match = library.MatchExact
	}
	ascii, err := asciiURL(rest)
	if err != nil {
		return library.Target{}, err
	}
	host, err := naming.HostOf(ascii)
	if err != nil {
		return library.Target{}, err
	}
	key := naming.SURT(ascii)
	site, _, _ := strings.Cut(key, ")")
	t := library.Target{Match: match, Host: bareHost(host, site)}
	switch match {
	case library.MatchExact:
		t.Key = key
	case library.MatchPrefix:
		// The key drops a final slash, which a prefix needs.
		if strings.HasSuffix(rest, "/") && !strings.HasSuffix(key, "/") {
			key += "/"
		}
		if strings.HasSuffix(rest, "?") {
			key += "?"
		}
		t.Key = key
	case library.MatchDomain:
		if !wholeHost(ascii) {
			return t, errors.New("a domain has no path")
		}
		t.Host = host
		if strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
			return t, errors.New("a domain has no port: it is searched on all")
		}
	}
	return t, nil
}

// wholeHost reports whether a URL is its host's root page.
func wholeHost(ascii string) bool {
	_, rest, _ := strings.Cut(ascii, "://")
	return strings.IndexByte(rest, '/') == len(rest)-1
}

// bareHost removes www from a host's name if the site's key does not have it.
func bareHost(host, site string) string {
	if naming.HostSURT(host) != site {
		_, host, _ = strings.Cut(host, ".")
	}
	return host
}

// asciiURL completes a URL as people write it: without a scheme or path, with characters outside
// ASCII, with a fragment.
func asciiURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	text, _, _ = strings.Cut(text, "#")
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("scheme %.20q is not http or https", scheme)
	}
	end := strings.IndexAny(rest+"/", "/?")
	host, path := rest[:end], rest[end:]
	host = host[strings.LastIndexByte(host, '@')+1:] // as weburl.URL.Bare
	host = strings.TrimRight(strings.Replace(host, ".:", ":", 1), ".")
	if name, err := idna.Punycode.ToASCII(host); err == nil {
		host = name
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	ascii := scheme + "://" + strings.ToLower(host) + b.String()
	if _, err := url.Parse(ascii); err != nil && strings.Contains(err.Error(), "host") {
		return "", errors.New("has no host name")
	}
	return ascii, nil
}
