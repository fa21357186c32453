package client

import (
	"slices"
	"sync"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
)

// List is the manager's list of hosts. It does not change once it is in use.
type List struct {
	Generation int64    `json:"generation"`
	ETag       string   `json:"etag"`
	URLs       []string `json:"urls"` // seeds: usually the hosts' top pages

	Shares map[string]wire.Share `json:"shares,omitempty"` // by host, of hosts that several robots collect
	Depths map[string]int        `json:"depths,omitempty"` // by URL: distance in links from a seed, unless 0

	Waits  map[string]bool `json:"waits,omitempty"`  // hosts that must not be visited yet: another robot may still do so
	Leased bool            `json:"leased,omitempty"` // it came with a lease

	Intervals map[string]time.Duration `json:"intervals,omitempty"` // by host: the interval that an operator has set

	Shortest map[string]time.Duration `json:"shortest,omitempty"` // by host: the shortest interval that an operator allows

	RunPages map[string]int `json:"run_pages,omitempty"` // by host: pages of a visit that an operator has set

	Omits map[string][]string `json:"omits,omitempty"` // by host: paths; URLs that begin with one are left out

	index sync.Once // makes hosts
	hosts map[string][]string

	Handovers map[string]string `json:"handovers,omitempty"` // by host: digest of the file that another robot hands over
}

// Add adds a line of the manager's answer, before the list is in use.
func (l *List) Add(line wire.HostLine) {
	l.URLs = append(l.URLs, line.URL)
	if line.Share.Several() {
		if l.Shares == nil {
			l.Shares = make(map[string]wire.Share)
		}
		l.Shares[weburl.Host(line.URL)] = line.Share
	}
	if line.Wait {
		if l.Waits == nil {
			l.Waits = make(map[string]bool)
		}
		l.Waits[weburl.Host(line.URL)] = true
	}
	if line.Interval > 0 {
		if l.Intervals == nil {
			l.Intervals = make(map[string]time.Duration)
		}
		l.Intervals[weburl.Host(line.URL)] = line.Interval
	}
	if line.Shortest > 0 {
		if l.Shortest == nil {
			l.Shortest = make(map[string]time.Duration)
		}
		l.Shortest[weburl.Host(line.URL)] = line.Shortest
	}
	if line.RunPages > 0 {
		if l.RunPages == nil {
			l.RunPages = make(map[string]int)
		}
		l.RunPages[weburl.Host(line.URL)] = line.RunPages
	}
	if line.Omit != "" {
		if l.Omits == nil {
			l.Omits = make(map[string][]string)
		}
		host := weburl.Host(line.URL)
		l.Omits[host] = append(l.Omits[host], line.Omit)
	}
	if line.Handover != "" {
		if l.Handovers == nil {
			l.Handovers = make(map[string]string)
		}
		l.Handovers[weburl.Host(line.URL)] = line.Handover
	}
	if line.Depth > 0 {
		if l.Depths == nil {
			l.Depths = make(map[string]int)
		}
		l.Depths[line.URL] = line.Depth
	}
}

// Known reports whether the manager has given the list.
func (l *List) Known() bool { return l.Generation > 0 || len(l.URLs) > 0 }

// Has reports whether a host is in the list, even if its visits must wait.
func (l *List) Has(host string) bool {
	l.index.Do(func() { l.hosts = l.Hosts() })
	return l.hosts[host] != nil
}

// Hosts returns the seeds by host, each once.
func (l *List) Hosts() map[string][]string {
	hosts := make(map[string][]string)
	seen := make(map[string]bool, len(l.URLs))
	for _, u := range l.URLs {
		if host := weburl.Host(u); host != "" && !seen[u] {
			hosts[host] = append(hosts[host], u)
			seen[u] = true
		}
	}
	return hosts
}

// Entries returns the frontier's entries for the seeds of a host that are in this robot's share.
func (l *List) Entries(host string, seeds []string) []frontier.Entry {
	share := l.Shares[host]
	entries := make([]frontier.Entry, 0, len(seeds))
	for _, seed := range seeds {
		if url := weburl.Canonical(seed); share.Has(url) {
			entries = append(entries, frontier.Entry{URL: url, Depth: l.Depths[seed]})
		}
	}
	return entries
}

// New is Entries for the seeds that are not in old.
func (l *List) New(host string, seeds, old []string) []frontier.Entry {
	known := make(map[string]bool, len(old))
	for _, s := range old {
		known[s] = true
	}
	return l.Entries(host, slices.DeleteFunc(slices.Clone(seeds), func(s string) bool { return known[s] }))
}

// Fresh returns the hosts that may be visited by this list and could not by the old one.
func (l *List) Fresh(old *List) (names []string) {
	before := old.Hosts()
	for name := range l.Hosts() {
		if !l.Waits[name] && (before[name] == nil || old.Waits[name]) {
			names = append(names, name)
		}
	}
	return names
}

// Gained reports whether the list has hosts to visit that the old one does not have, or new URLs
// for this robot on a host whose URLs several robots share.
func (l *List) Gained(old *List) bool {
	if len(l.Fresh(old)) > 0 {
		return true
	}
	before := old.Hosts()
	for name, seeds := range l.Hosts() {
		if l.Shares[name].Split && len(l.New(name, seeds, before[name])) > 0 {
			return true
		}
	}
	return false
}
