package crawl

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/polite"
)

// Hosts are the hosts of a crawl. Its methods may be called concurrently.
type Hosts struct {
	gate       *polite.Gate
	restraints *polite.Restraints
	turns      *polite.SharedTurns
	intervals  *polite.Intervals
	shortest   *polite.Intervals

	set, setShortest func(host string) time.Duration // the interval that an operator has set for a host, and how short it may get; 0: none

	resting atomic.Int64 // hosts in the gate that rest because they fail

	mu    sync.Mutex // guards hosts
	hosts map[string]*Host
}

// Get returns a host of the crawl; nil: it is not in the crawl.
func (s *Hosts) Get(name string) *Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts[name]
}

// All returns the hosts.
func (s *Hosts) All() []*Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.hosts))
}

// Add adds a host, which can take links from now on.
func (s *Hosts) Add(h *Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[h.Name] = h
}

// Begin lets a host be visited: not before at, and not before an earlier run has promised. The host
// must have an address and not be idle.
func (s *Hosts) Begin(h *Host, at time.Time) {
	if until := s.restraints.Get(h.Name).Until; at.Before(until) {
		at = until
	}
	s.gate.AddAt(h.Home(), h.Name, at)
}

// Wake puts a host into the gate because pages were queued, unless it is idle. A host that is in
// the gate keeps its place.
func (s *Hosts) Wake(h *Host) {
	if !h.idle.Load() {
		s.Begin(h, time.Time{})
	}
}

// Place lets the host's address be visited at the interval that holds for the host, and only at
// this robot's turns if other robots visit the host too. The caller must have the host's turn, or
// the host must not be in the gate.
func (s *Hosts) Place(h *Host, crawlDelay time.Duration) {
	addr, set := s.gate.Slot(h.Home()), s.set(h.Name)
	s.intervals.Set(addr, h.Name, set)
	s.shortest.Set(addr, h.Name, cmp.Or(s.setShortest(h.Name), set))
	s.turns.Set(addr, h.Name, h.Share(), max(s.intervals.Of(set), crawlDelay))
}

// setResting notes whether a host rests because it fails.
func (s *Hosts) setResting(h *Host, rests bool) {
	switch {
	case h.rest.rests.Swap(rests) == rests:
	case rests:
		s.resting.Add(1)
	default:
		s.resting.Add(-1)
	}
}

// Exhausted reports whether no host has anything left, except those that rest: a cycle does not
// wait for them.
func (s *Hosts) Exhausted() bool { return int64(s.gate.Len()) <= s.resting.Load() }

// Stop ends the visits to hosts. When it returns, none is being visited and the pages in hand are
// stored. It fails only if ctx ends.
func (s *Hosts) Stop(ctx context.Context, names []string) error {
	var running []<-chan struct{}
	for _, name := range names {
		h := s.Get(name)
		if h == nil {
			continue
		}
		h.idle.Store(true)
		s.setResting(h, false)
		if ended := s.gate.Remove(name); ended != nil {
			running = append(running, ended)
		}
	}
	for _, ended := range running {
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, name := range names {
		s.turns.Remove(name)
		s.intervals.Remove(name)
		s.shortest.Remove(name)
	}
	return nil
}

// Drop removes hosts that were stopped. When it returns, no page of them is stored any more.
func (s *Hosts) Drop(names []string) {
	for _, name := range names {
		h := s.Get(name)
		if h == nil {
			continue
		}
		h.mu.Lock()
		h.gone = true
		h.mu.Unlock()
		s.mu.Lock()
		delete(s.hosts, name)
		s.mu.Unlock()
	}
}
