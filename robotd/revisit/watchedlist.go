package revisit

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// Files in the data folder.
const (
	listFile    = "watches.json" // savedList
	changedFile = "express.json" // hosts with a change that is in no batch yet
)

// PagesOptions are the settings and the other parts with which Pages works.
type PagesOptions struct {
	Dir      string // the data folder
	Settings config.Watch
	Policy   WatchPolicy
	Active   bool // pages are visited more often than once a cycle
	Frontier *frontier.Frontier
	Servers  *Servers
	Pace     *Pace
	Plan     config.Plan
	List     *client.Assignment
	MayVisit func(host string, now time.Time) bool // reports whether a host may be visited now
}

// Pages are the pages that consumers watch. They are visited in every cycle, and within it as often
// as they change. The hosts with changes go into a small batch of their own, which is sent at once.
// The list outlasts the process. The methods may be called concurrently.
type Pages struct {
	opt PagesOptions

	mu      sync.Mutex // guards all below
	etag    string
	orders  map[string][]wire.WatchOrder // by host
	hosts   map[string]*hostPages
	changed map[string]bool // hosts with a change that is in no batch yet
	last    time.Time       // when changes were last taken
}

// savedList is the content of listFile.
type savedList struct {
	ETag    string            `json:"etag"`
	Watches []wire.WatchOrder `json:"watches"`
}

// OpenPages reads the list and the changes that an earlier process left.
func OpenPages(opt PagesOptions) (*Pages, error) {
	p := &Pages{opt: opt, changed: make(map[string]bool), hosts: make(map[string]*hostPages)}
	var saved savedList
	err := errors.Join(config.LoadJSON(p.path(listFile), &saved), config.LoadJSON(p.path(changedFile), &p.changed))
	p.set(saved)
	return p, err
}

func (p *Pages) path(name string) string { return filepath.Join(p.opt.Dir, name) }

// Set replaces the list, in the file first.
func (p *Pages) Set(etag string, orders []wire.WatchOrder) error {
	saved := savedList{etag, orders}
	if err := config.SaveJSON(p.path(listFile), saved); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(saved)
	return nil
}

func (p *Pages) set(saved savedList) {
	p.etag, p.orders = saved.ETag, make(map[string][]wire.WatchOrder)
	for _, o := range saved.Watches {
		p.orders[o.Host] = append(p.orders[o.Host], o)
	}
	for _, h := range p.hosts {
		h.stale = true
	}
}

// ETag returns the ETag of the list, as the manager gave it; "": there is no list yet.
func (p *Pages) ETag() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.etag
}

// ordersOf returns the orders for a host, which do not change.
func (p *Pages) ordersOf(host string) []wire.WatchOrder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders[host]
}

// Entries returns the URLs that a host's watches name: pages, forms and prefixes. A watch of the
// whole host names none.
func (p *Pages) Entries(host string) (entries []frontier.Entry) {
	for _, o := range p.ordersOf(host) {
		if o.Kind != wire.WatchHost {
			entries = append(entries, frontier.Entry{URL: weburl.Canonical(o.URL)})
		}
	}
	return entries
}

// Covers reports whether a page is watched.
func (p *Pages) Covers(host, url string) bool { return covers(p.ordersOf(host), url) }

func covers(orders []wire.WatchOrder, url string) bool {
	return slices.ContainsFunc(orders, func(o wire.WatchOrder) bool { return o.Covers(url) })
}

// once returns the number of the newest order for one visit to a page; 0: no order.
func once(orders []wire.WatchOrder, url string) (newest int64) {
	for _, o := range orders {
		if o.Once > newest && o.Covers(url) {
			newest = o.Once
		}
	}
	return newest
}

// Form returns the order for a watched form: with the address to which the form's fields are
// posted. It returns false if the page is no such form.
func (p *Pages) Form(host, url string) (wire.WatchOrder, bool) {
	orders := p.ordersOf(host)
	i := slices.IndexFunc(orders, func(o wire.WatchOrder) bool { return o.Body != "" && o.URL == url })
	if i < 0 {
		return wire.WatchOrder{}, false
	}
	return orders[i], true
}

// isGone reports whether an answer's header says that there is no such page.
func isGone(head []byte) bool {
	var status int
	_, err := fmt.Sscanf(string(head[:min(len(head), 20)]), "HTTP/%s %d", new(string), &status)
	return err == nil && (status == http.StatusNotFound || status == http.StatusGone)
}
