package client

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
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
	host := weburl.Host(line.URL)
	l.URLs = append(l.URLs, line.URL)
	note(&l.Shares, host, line.Share, line.Share.Several())
	note(&l.Waits, host, true, line.Wait)
	note(&l.Intervals, host, line.Interval, line.Interval > 0)
	note(&l.Shortest, host, line.Shortest, line.Shortest > 0)
	note(&l.RunPages, host, line.RunPages, line.RunPages > 0)
	if line.Omit != "" {
		note(&l.Omits, host, append(l.Omits[host], line.Omit), true)
	}
	note(&l.Handovers, host, line.Handover, line.Handover != "")
	note(&l.Depths, line.URL, line.Depth, line.Depth > 0)
}

// note sets m[key] to v if said is true. It makes the map if it is nil.
func note[V any](m *map[string]V, key string, v V, said bool) {
	if !said {
		return
	}
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}

// Known reports whether the list is the manager's, and not the empty one of a new robot.
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

// Fresh returns the hosts that the robot may visit by this list, and might not by the old list.
func (l *List) Fresh(old *List) (names []string) {
	before := old.Hosts()
	for name := range l.Hosts() {
		if !l.Waits[name] && (before[name] == nil || old.Waits[name]) {
			names = append(names, name)
		}
	}
	return names
}

// Gained reports whether the list has Fresh hosts, or new URLs for this robot on a host whose URLs
// several robots share.
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

// Assignment is the list by which the robot works. It is kept in a file, so that the robot can go
// on while the manager is away. Its methods may be called concurrently.
type Assignment struct {
	path string
	list atomic.Pointer[List]
}

// OpenAssignment reads the list from a file. If there is no file, the list is empty.
func OpenAssignment(path string) (*Assignment, error) {
	c, list := &Assignment{path: path}, new(List)
	err := config.LoadJSON(path, list)
	c.list.Store(list)
	return c, err
}

// Set replaces the list, in the file first.
func (c *Assignment) Set(list *List) error {
	if err := config.SaveJSON(c.path, list); err != nil {
		return err
	}
	c.list.Store(list)
	return nil
}

// List returns the list. The caller must not change it.
func (c *Assignment) List() *List { return c.list.Load() }

// Hosts returns the seeds by host.
func (c *Assignment) Hosts() map[string][]string { return c.List().Hosts() }

// Interval returns the interval that an operator has set for a host; 0: no interval is set.
func (c *Assignment) Interval(host string) time.Duration { return c.List().Intervals[host] }

// Shortest returns the shortest interval that an operator allows for a host; 0: no limit is set.
func (c *Assignment) Shortest(host string) time.Duration { return c.List().Shortest[host] }

// Omits reports whether the manager wants a URL of a host left out.
func (c *Assignment) Omits(host, url string) bool {
	return slices.ContainsFunc(c.List().Omits[host], func(path string) bool { return weburl.PrefixOf("http://" + host + path).Holds(url) })
}

// Share returns which URLs of a host are this robot's.
func (c *Assignment) Share(host string) wire.Share { return c.List().Shares[host] }
