package client

import (
	"slices"
	"sync/atomic"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

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
