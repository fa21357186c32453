package library

import (
	"fmt"
	"strings"

	"sheaf/archive/naming"
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

// Target is what a search goes through. A site is a host and its namesakes with and without www:
// their URLs have the same keys.
type Target struct {
	Match Match
	Host  string // as naming.HostOf returns it; for MatchDomain without a port; "" for MatchAll
	Key   string // for MatchExact the URL key; for MatchPrefix its beginning
}

// Holds reports whether the target has a URL key of one of its hosts.
func (t Target) Holds(key string) bool {
	if t.Match == MatchExact {
		return key == t.Key
	}
	return strings.HasPrefix(key, t.KeyPrefix())
}

// KeyPrefix returns the common beginning of the keys of the target's URLs. With MatchExact it is
// the only key; with MatchDomain and MatchAll it is empty.
func (t Target) KeyPrefix() string {
	switch t.Match {
	case MatchDomain, MatchAll:
		return ""
	case MatchExact, MatchPrefix:
		return t.Key
	}
	return SiteKey(t.Host)
}

// SiteKey returns the common beginning of all URL keys of a host and its namesakes.
func SiteKey(host string) string {
	scheme := "http"
	if strings.HasSuffix(host, ":80") { // with https this port is part of the key
		scheme = "https"
	}
	site, _, _ := strings.Cut(naming.SURT(fmt.Sprintf("%s://%s/", scheme, host)), ")")
	return site + ")"
}
