package robotd

import (
	"maps"
	"slices"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/datadir"
	"sheaf/robotd/frontier"
)

// maxOrdered is how many known pages of a host an operator's order has visited before all others.
const maxOrdered = 1000

// orderedVisits are hosts that an operator has ordered to be visited now: as soon as the robot's hours and
// the interval allow it. They outlast the process.
type orderedVisits struct {
	path string // ordered.json

	mu      sync.Mutex           // guards all below
	waiting map[string]time.Time // hosts to be visited, by when the order came
	taken   []string             // orders that the manager does not know yet to have arrived
}

func openOrdered(path string) (*orderedVisits, error) {
	o := &orderedVisits{path: path, waiting: make(map[string]time.Time)}
	return o, datadir.LoadJSON(path, &o.waiting)
}

// add takes orders from the manager, durably.
func (o *orderedVisits) add(hosts []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range hosts {
		if o.waiting[name].IsZero() {
			o.waiting[name] = time.Now()
		}
	}
	if err := datadir.SaveJSON(o.path, o.waiting); err != nil {
		return err
	}
	o.taken = append(o.taken, hosts...)
	return nil
}

// tell returns the orders whose arrival the manager is to be told of, and told, which notes that it was.
func (o *orderedVisits) tell() (taken []string, told func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.taken), wire.MaxVisits)
	return slices.Clone(o.taken[:n]), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.taken = o.taken[n:]
	}
}

// hosts returns those that wait to be visited.
func (o *orderedVisits) hosts() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.waiting))
}

// done notes that a host's pages are queued, or that the host is no longer the robot's.
func (o *orderedVisits) done(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, name)
	return datadir.SaveJSON(o.path, o.waiting)
}

// ordered adds to due the pages of hosts whose visit an operator has ordered: their start URLs and up to
// maxOrdered pages that are known of them. A host that is to be left alone now waits.
func (r *Robot) ordered(now time.Time, due map[string][]frontier.Entry) error {
	names := r.orders.hosts()
	if len(names) == 0 {
		return nil
	}
	assigned := r.assigned()
	for _, name := range names {
		seeds, mine := assigned[name]
		if mine && !r.mayCome(name, now) {
			continue
		}
		if mine {
			entries, err := r.orderedPages(name, seeds)
			if err != nil {
				return err
			}
			due[name] = append(due[name], entries...)
			r.log.Info("visiting a host by an operator's order", "host", name, "pages", len(entries))
		}
		if err := r.orders.done(name); err != nil {
			return err
		}
	}
	return nil
}

func (r *Robot) orderedPages(name string, seeds []string) ([]frontier.Entry, error) {
	front, err := r.frontier.Host(name)
	if err != nil {
		return nil, err
	}
	var entries []frontier.Entry
	have := make(map[string]bool)
	add := func(e frontier.Entry, _ frontier.Visit) {
		if len(entries) < maxOrdered && !have[e.URL] && r.mine(name, e.URL) {
			have[e.URL] = true
			entries = append(entries, frontier.Entry{URL: e.URL, Depth: e.Depth})
		}
	}
	for _, url := range seeds {
		add(frontier.Entry{URL: url}, frontier.Visit{})
	}
	if _, err := front.EachKnown(add); err != nil {
		return nil, err
	}
	return entries, front.EachVisited(add)
}
