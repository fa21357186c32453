package records

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
)

// Match says which records belong to a Target.
type Match int8

const (
	MatchExact  Match = iota + 1 // one URL key
	MatchPrefix                  // the URL keys of one site that begin with Key
	MatchHost                    // all of one site
	MatchDomain                  // a host and all below it, on every port
	MatchAll                     // everything
)

// Target is what a search goes through. A site is a host with its namesakes with and without www,
// whose URLs have the same keys.
type Target struct {
	Match Match
	Host  string // as naming.HostOf returns it; for MatchDomain without a port; "" for MatchAll
	Key   string // for MatchExact the URL key; for MatchPrefix its beginning
}

// Holds reports whether a URL key belongs to the target, given that its host does.
func (t Target) Holds(key string) bool { return t.keys().holds(key) }

// keys returns the keys of the target's URLs on a host that belongs to it.
func (t Target) keys() keyRange {
	switch t.Match {
	case MatchDomain, MatchAll:
		return keyRange{}
	case MatchExact:
		return keyRange{t.Key, true}
	case MatchPrefix:
		return keyRange{t.Key, false}
	}
	return siteKeys(t.Host)
}

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

// compare orders positions of the same target and, unless it is one site, of the same host.
func (p Position) compare(q Position) int {
	return cmp.Or(strings.Compare(p.Key, q.Key), p.Time.Compare(q.Time), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Offset, q.Offset))
}

// Before reports whether a position lies before another one of the same target and host.
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

// rows returns the part of the URL index that has these keys.
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

// siteKeys returns all keys of the URLs of a host and of its namesakes.
func siteKeys(host string) keyRange {
	scheme := "http"
	if strings.HasSuffix(host, ":80") { // with https this port is part of the key
		scheme = "https"
	}
	site, _, _ := strings.Cut(naming.SURT(fmt.Sprintf("%s://%s/", scheme, host)), ")")
	return keyRange{key: site + ")"}
}
