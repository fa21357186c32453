package robotd

import (
	"slices"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
)

// add takes a line of the list.
func (a *assignment) add(l wire.HostLine) {
	a.URLs = append(a.URLs, l.URL)
	if l.Share.Several() {
		if a.Shares == nil {
			a.Shares = make(map[string]wire.Share)
		}
		a.Shares[weburl.Host(l.URL)] = l.Share
	}
	if l.Depth > 0 {
		if a.Depths == nil {
			a.Depths = make(map[string]int)
		}
		a.Depths[l.URL] = l.Depth
	}
}

// hosts groups an assignment's seeds by host, each once.
func (a *assignment) hosts() map[string][]string {
	hosts := make(map[string][]string)
	seen := make(map[string]bool, len(a.URLs))
	for _, u := range a.URLs {
		if host := weburl.Host(u); host != "" && !seen[u] {
			hosts[host] = append(hosts[host], u)
			seen[u] = true
		}
	}
	return hosts
}

// entries gives those seeds of a host that are this robot's to visit.
func (a *assignment) entries(host string, seeds []string) []frontier.Entry {
	share := a.Shares[host]
	entries := make([]frontier.Entry, 0, len(seeds))
	for _, seed := range seeds {
		if url := weburl.Canonical(seed); share.Has(url) {
			entries = append(entries, frontier.Entry{URL: url, Depth: a.Depths[seed]})
		}
	}
	return entries
}

// gained reports whether the list has hosts that are not in old, or, of hosts whose URLs
// several robots share, URLs for this one.
func (a *assignment) gained(old *assignment) bool {
	before := old.hosts()
	for name, seeds := range a.hosts() {
		if before[name] == nil {
			return true
		}
		if a.Shares[name].Split && len(a.news(name, seeds, before[name])) > 0 {
			return true
		}
	}
	return false
}

// news gives the seeds of a host that are not among the old, and are this robot's.
func (a *assignment) news(host string, seeds, old []string) []frontier.Entry {
	known := make(map[string]bool, len(old))
	for _, s := range old {
		known[s] = true
	}
	return a.entries(host, slices.DeleteFunc(slices.Clone(seeds), func(s string) bool { return known[s] }))
}
