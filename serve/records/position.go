package records

import (
	"cmp"
	"strings"
	"time"

	"sheaf/archive/urlindex"
	"sheaf/serve/library"
)

// Position is a record's place in the order of a search. It depends on nothing else in the search,
// and stays what it is whatever is published.
type Position struct {
	Target int       // its number
	Host   string    // catalog.Key of the host; "" if the target is one site
	Key    string    // URL key
	Time   time.Time // of the fetch
	Seq    int64     // of the segment
	Offset int64     // of the cell in its segment
}

// compare orders positions in the same target. If the target is more than one site, they must be of
// the same host.
func (p Position) compare(q Position) int {
	return cmp.Or(strings.Compare(p.Key, q.Key), p.Time.Compare(q.Time), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Offset, q.Offset))
}

// Before reports whether p lies before q. Both must have the same target and host.
func (p Position) Before(q Position) bool { return p.compare(q) < 0 }

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
func (k keyRange) rows(after *Position, reverse bool) urlindex.Range {
	in := urlindex.Prefix(k.key)
	if k.exact {
		in = urlindex.Exact(k.key)
	}
	if in.Reverse = reverse; after != nil {
		in.After = &urlindex.Position{Key: after.Key, Time: after.Time, Seq: after.Seq, Offset: after.Offset}
	}
	return in
}

// keysOf returns the URL keys that a target selects on each of its hosts.
func keysOf(t library.Target) keyRange {
	return keyRange{t.KeyPrefix(), t.Match == library.MatchExact}
}

// siteKeys returns all keys of the URLs of a host and of its namesakes.
func siteKeys(host string) keyRange { return keyRange{key: library.SiteKey(host)} }
