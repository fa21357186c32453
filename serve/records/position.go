package records

import (
	"strings"

	"sheaf/archive/urlindex"
	"sheaf/serve/library"
)

// Position is a record's place in the order of a search. It depends on nothing else in the search,
// and stays what it is whatever is published.
type Position struct {
	Target            int    `json:"t,omitempty"` // index in Search.Targets
	Host              string `json:"h,omitempty"` // catalog.Key of the host; "" if the target is one site
	urlindex.Position        // within the site or host
}

// keyRange is one URL key, or all that begin with it.
type keyRange struct {
	key   string
	exact bool
}

func (k keyRange) holds(key string) bool {
	if k.exact {
		return key == k.key
	}
	return strings.HasPrefix(key, k.key)
}

// rows returns the range of the URL index that has these keys, behind after if that is set.
func (k keyRange) rows(after *urlindex.Position, reverse bool) urlindex.Range {
	in := urlindex.Prefix(k.key)
	if k.exact {
		in = urlindex.Exact(k.key)
	}
	in.Reverse, in.After = reverse, after
	return in
}

// keysOf returns the URL keys that a target selects on each of its hosts.
func keysOf(t library.Target) keyRange {
	return keyRange{t.KeyPrefix(), t.Match == library.MatchExact}
}

// siteKeys returns the range of all URL keys of a host and its namesakes.
func siteKeys(host string) keyRange { return keyRange{key: library.SiteKey(host)} }
