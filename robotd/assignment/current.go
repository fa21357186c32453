package assignment

import (
	"slices"
	"sync/atomic"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/datadir"
)

// Current is the list by which the robot works. It is kept in a file, so that the robot can go on
// while the manager is away. Its methods may be called concurrently.
type Current struct {
	path string
	list atomic.Pointer[List]
}

// Open reads the file, if there is one.
func Open(path string) (*Current, error) {
	c, list := &Current{path: path}, new(List)
	err := datadir.LoadJSON(path, list)
	c.list.Store(list)
	return c, err
}

// Set replaces the list, in the file first.
func (c *Current) Set(list *List) error {
	if err := datadir.SaveJSON(c.path, list); err != nil {
		return err
	}
	c.list.Store(list)
	return nil
}

// List returns the list. The caller must not change it.
func (c *Current) List() *List { return c.list.Load() }

// Known reports whether the manager has ever given a list.
func (c *Current) Known() bool {
	return c.List().Known()
}

// Hosts returns the seeds by host.
func (c *Current) Hosts() map[string][]string { return c.List().Hosts() }

// Generation returns the list's generation.
func (c *Current) Generation() int64 { return c.List().Generation }

// Interval returns the interval that an operator has set for a host; 0: none.
func (c *Current) Interval(host string) time.Duration { return c.List().Intervals[host] }

// Shortest returns how short an operator lets the interval of a host get; 0: none has said.
func (c *Current) Shortest(host string) time.Duration { return c.List().Shortest[host] }

// RunPages returns how many pages of a host an operator has one visit fetch; 0: none has.
func (c *Current) RunPages(host string) int { return c.List().RunPages[host] }

// Omits reports whether the manager has a URL of a host left out.
func (c *Current) Omits(host, url string) bool {
	return slices.ContainsFunc(c.List().Omits[host], func(path string) bool { return weburl.PrefixOf("http://" + host + path).Holds(url) })
}

// Share returns what of a host is this robot's.
func (c *Current) Share(host string) wire.Share { return c.List().Shares[host] }
