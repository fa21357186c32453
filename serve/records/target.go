package records

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sort"
	"strings"

	"golang.org/x/net/idna"

	"sheaf/archive/catalog"
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

// MaxTargets is the limit for the URLs and hosts in one query.
const MaxTargets = 100_000

// MaxTargetBytes is the limit for a request's body with URLs and hosts, in bytes.
const MaxTargetBytes = 64 << 20

// ReadTargets parses URLs and hosts, one in each line. A line with an asterisk is a domain or a
// prefix, another line without a slash is a whole host, and any other is a URL. Empty lines and
// lines that begin with # are skipped. The targets are in the order of search. No record belongs to
// two of them, unless one is a domain whose name begins with www.
func ReadTargets(r io.Reader) ([]library.Target, error) {
	var targets []library.Target
	hosts := make(map[string]string) // each host's name is kept once
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 16<<10), 16<<10)
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if len(targets) == MaxTargets {
			return nil, &ParamError{"list", text, fmt.Sprintf("line %d: more than %d entries", n, MaxTargets)}
		}
		match := library.Match(0)
		if !strings.Contains(text, "/") && !strings.Contains(text, "*") {
			match = library.MatchHost
		}
		t, err := parseTarget(text, match)
		if err != nil {
			return nil, &ParamError{"list", text, fmt.Sprintf("line %d: %v", n, err)}
		}
		if host, ok := hosts[t.Host]; ok {
			t.Host = host
		} else {
			hosts[t.Host] = t.Host
		}
		targets = append(targets, t)
	}
	if err := lines.Err(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, &ParamError{"list", "", fmt.Sprintf("line %d: %v", n+1, err)}
	}
	if len(targets) == 0 {
		return nil, &ParamError{"list", "", "names no URL or host"}
	}
	return disjoint(targets), nil
}

// disjoint sorts targets in the order of search and removes those that another target contains.
func disjoint(targets []library.Target) []library.Target {
	keys := make(map[string]string) // catalog.Key of hosts: it costs more than a comparison
	for _, t := range targets {
		if _, ok := keys[t.Host]; !ok {
			keys[t.Host] = catalog.Key(t.Host)
		}
	}
	slices.SortFunc(targets, func(a, b library.Target) int {
		if a.Host != b.Host {
			if c := strings.Compare(keys[a.Host], keys[b.Host]); c != 0 {
				return c
			}
		}
		return cmp.Or(
			strings.Compare(a.Key, b.Key), // those of whole hosts are empty, and come first
			-cmp.Compare(a.Match, b.Match),
		)
	})
	targets = slices.Compact(targets)
	domains := make(map[string]bool)
	hosts := make(map[string]bool)
	prefixes := make(map[string][]string) // sorted, by site
	for _, t := range targets {
		switch t.Match {
		case library.MatchDomain:
			domains[t.Host] = true
		case library.MatchHost:
			hosts[t.Host] = true
		}
	}
	var kept []library.Target
	for _, t := range targets {
		if inDomain(domains, t) || t.Match != library.MatchHost && t.Match != library.MatchDomain && hosts[t.Host] {
			continue
		}
		if t.Match == library.MatchPrefix || t.Match == library.MatchExact {
			// No kept prefix begins with another, so only one can contain t.
			known := prefixes[t.Host]
			i := sort.Search(len(known), func(i int) bool { return known[i] > t.Key })
			if i > 0 && strings.HasPrefix(t.Key, known[i-1]) {
				continue
			}
		}
		if t.Match == library.MatchPrefix {
			prefixes[t.Host] = append(prefixes[t.Host], t.Key)
		}
		kept = append(kept, t)
	}
	return kept
}

// inDomain reports whether one of the domains contains the target.
func inDomain(domains map[string]bool, t library.Target) bool {
	name, _, _ := strings.Cut(t.Host, ":")
	for first := true; name != ""; first = false {
		if domains[name] && !(first && t.Match == library.MatchDomain) {
			return true
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return false
}
