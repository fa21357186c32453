package revisit

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// maxOrdered is the most pages of a host, with its seeds, that an operator's order puts before all
// others.
const maxOrdered = 1000

// Orders are the hosts whose visit an operator has ordered. They are visited as soon as the robot's
// hours and the interval allow. Orders outlast the process. The methods may be called concurrently.
type Orders struct {
	path string
	opt  PagesOptions
	log  *slog.Logger

	mu      sync.Mutex           // guards all below
	waiting map[string]time.Time // hosts to be visited, with the time of the order
	taken   []string             // orders that the manager does not know yet to have arrived
}

// OpenOrders reads the orders that an earlier process left.
func OpenOrders(opt PagesOptions, log *slog.Logger) (*Orders, error) {
	o := &Orders{path: filepath.Join(opt.Dir, "ordered.json"), opt: opt, log: log, waiting: make(map[string]time.Time)}
	return o, config.LoadJSON(o.path, &o.waiting)
}

// Add takes orders from the manager, durably.
func (o *Orders) Add(hosts []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range hosts {
		if o.waiting[name].IsZero() {
			o.waiting[name] = time.Now()
		}
	}
	if err := config.SaveJSON(o.path, o.waiting); err != nil {
		return err
	}
	o.taken = append(o.taken, hosts...)
	return nil
}

// Taken returns the orders whose arrival the manager does not know. The caller calls told once the
// manager knows.
func (o *Orders) Taken() (taken []string, told func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.taken), wire.MaxVisits)
	return slices.Clone(o.taken[:n]), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.taken = o.taken[n:]
	}
}

// Waiting returns the hosts that wait to be visited, sorted.
func (o *Orders) Waiting() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.waiting))
}

// Due adds to due the pages of the hosts that wait: up to maxOrdered pages of each, its seeds first
// and then its known pages. A host that may not be visited now goes on waiting; one that is not
// assigned is dropped.
func (o *Orders) Due(now time.Time, due map[string][]frontier.Entry) error {
	names := o.Waiting()
	if len(names) == 0 {
		return nil
	}
	assigned := o.opt.List.Hosts()
	for _, name := range names {
		seeds, mine := assigned[name]
		if mine && !o.opt.MayVisit(name, now) {
			continue
		}
		if mine {
			entries, err := o.pages(name, seeds)
			if err != nil {
				return err
			}
			due[name] = append(due[name], entries...)
			o.log.Info("visiting a host by an operator's order", "host", name, "pages", len(entries))
		}
		if err := o.done(name); err != nil {
			return err
		}
	}
	return nil
}

func (o *Orders) done(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, name)
	return config.SaveJSON(o.path, o.waiting)
}

func (o *Orders) pages(name string, seeds []string) ([]frontier.Entry, error) {
	front, err := o.opt.Frontier.Host(name)
	if err != nil {
		return nil, err
	}
	share := o.opt.List.Share(name)
	var entries []frontier.Entry
	have := make(map[string]bool)
	add := func(e frontier.Entry, _ frontier.Visit) {
		if len(entries) < maxOrdered && !have[e.URL] && share.Has(e.URL) {
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
