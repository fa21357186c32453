package revisit

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sheaf/archive"
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

// hostPages are the watched pages of a host.
type hostPages struct {
	pages map[string]*page // by URL
	stale bool             // the list has changed since they were read
}

// page is what is known of a watched page.
type page struct {
	entry         frontier.Entry
	visit         frontier.Visit // as the last visit left it; zero: there was none
	at            time.Time      // of that visit
	backoffFactor float64        // see WatchPolicy
	next          time.Time      // when the page should be visited again; zero: at once
	once          int64          // the last order for one visit that was carried out, since the process began
	due           bool           // Due gave it out, and it was not visited since
	met           bool           // after Due gave it out, the cycle's queue visited it: the visit for Due is to be left out
}

// maxPages is how many pages of a host are visited more often than once a cycle.
const maxPages = 1000

// Active reports whether watched pages are visited more often than once a cycle.
func (p *Pages) Active() bool { return p.opt.Active }

// Forget drops what is known of a host's pages.
func (p *Pages) Forget(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.hosts, host)
}

// Read reads what is known of a host's watched pages, unless that has been done: from the
// frontier's state for earlier cycles, and from its journal for the current one. So a robot that
// was killed goes on as it was.
func (p *Pages) Read(host string) error {
	if !p.needsReading(host) {
		return nil
	}
	front, err := p.opt.Frontier.Host(host)
	if err != nil {
		return err
	}
	pages, now := make(map[string]*page), time.Now()
	add := func(e frontier.Entry, v frontier.Visit) {
		if known := pages[e.URL]; known != nil {
			known.visit, known.at = v, visited(v, now)
		} else if len(pages) < maxPages {
			pages[e.URL] = &page{entry: e, visit: v, at: visited(v, now), backoffFactor: Calm}
		}
	}
	for _, e := range p.Entries(host) {
		v, _, err := front.Visit(e.URL)
		if err != nil {
			return err
		}
		add(e, v)
	}
	orders := p.ordersOf(host)
	met := func(e frontier.Entry, v frontier.Visit) {
		if !visited(v, now).IsZero() && covers(orders, e.URL) {
			add(e, v)
		}
	}
	if slices.ContainsFunc(orders, func(o wire.WatchOrder) bool { return o.Kind != wire.WatchURL }) {
		if _, err := front.EachKnown(met); err != nil {
			return err
		}
	}
	if err := front.EachVisited(met); err != nil {
		return err
	}
	p.merge(host, pages)
	return nil
}

// visited returns the time of a visit, or now if that time lies ahead.
func visited(v frontier.Visit, now time.Time) time.Time {
	at := v.Last
	if at.Before(v.Full) {
		at = v.Full
	}
	if at.After(now) { // the clock was set back since: the page must not wait until then
		return now
	}
	return at
}

func (p *Pages) needsReading(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.orders[host]) == 0 {
		delete(p.hosts, host)
		return false
	}
	h := p.hosts[host]
	return p.opt.Active && (h == nil || h.stale)
}

// merge replaces a host's pages by those that were read. Where memory has a page too, its version
// is newer and is kept.
func (p *Pages) merge(host string, pages map[string]*page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[host]; h != nil {
		for url, known := range h.pages {
			if covers(p.orders[host], url) {
				pages[url] = known
			}
		}
	}
	h := &hostPages{pages: pages}
	p.hosts[host] = h
	p.pace(host, h, slices.Collect(maps.Values(pages))...)
}

// maxShare is the part of a host's time that visits to watched pages may take.
const maxShare = 0.5

// pace sets the time of the next visit to some pages of a host. The caller holds mu.
func (p *Pages) pace(host string, h *hostPages, pages ...*page) {
	server := p.opt.Servers.Get(host)
	room := maxShare * p.opt.Pace.Room(host, server.Addr, 24*time.Hour)
	all := slices.Collect(maps.Values(h.pages))
	known := make([]Watched, len(all))
	for i, page := range all {
		known[i] = Watched{Changes: page.visit.Changes, Times: page.visit.Times, BackoffFactor: page.backoffFactor}
	}
	intervals := make(map[*page]time.Duration, len(all))
	for i, interval := range p.opt.Policy.Intervals(known, room) {
		intervals[all[i]] = interval
	}
	for _, page := range pages {
		if page.next = (time.Time{}); !page.at.IsZero() {
			page.next = NextVisit(p.opt.Plan, &server.Hours, page.at, intervals[page])
		}
		if once(p.orders[host], page.entry.URL) > page.once {
			page.next = time.Time{}
		}
	}
}

// visitedLocked notes a visit at a time to the page of an entry, if the page is watched. kind is
// the kind of the page's record, past what was known before the visit, and v what is known now. The
// caller holds mu.
func (p *Pages) visitedLocked(host string, e frontier.Entry, kind archive.Kind, past, v frontier.Visit, at time.Time) {
	if !p.opt.Active {
		return
	}
	h := p.hosts[host]
	if h == nil {
		return
	}
	known := h.pages[e.URL]
	if known == nil {
		if len(h.pages) >= maxPages || kind != archive.Page || !covers(p.orders[host], e.URL) {
			return
		}
		known = &page{entry: frontier.Entry{URL: e.URL, Depth: e.Depth}, backoffFactor: Calm}
		h.pages[e.URL] = known
	}
	changed := kind == archive.Page && past.Digest != "" && past.Digest != v.Digest
	switch {
	case v.Gone:
		changed = known.visit.Digest != ""
		known.visit = frontier.Visit{Gone: true, History: known.visit.History} // it may come back as it was
	case !v.Full.IsZero():
		known.visit = v
	}
	known.due, known.met = false, known.due && !e.First
	known.at, known.once = at, once(p.orders[host], e.URL)
	known.backoffFactor = p.opt.Policy.BackoffFactor(known.backoffFactor, changed)
	p.pace(host, h, known)
}

// Visit returns the last visit to a watched page and its time. It may be newer than what the
// frontier has of earlier cycles.
func (p *Pages) Visit(host, url string) (v frontier.Visit, at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[host]
	if h == nil || h.pages[url] == nil || h.pages[url].at.IsZero() {
		return v, at, false
	}
	return h.pages[url].visit, h.pages[url].at, true
}

// VisitedSince reports whether a page that comes next was already visited, so that this visit can
// be left out. For a watched page in the cycle's queue, a visit counts since the cycle began or
// just before. For a page that Due has given out, a visit by the cycle's queue counts since then.
func (p *Pages) VisitedSince(host string, e frontier.Entry, began time.Time) bool {
	if e.Redirects > 0 || e.Tries > 0 {
		return false
	}
	if e.First {
		return p.takeMet(host, e.URL)
	}
	_, at, ok := p.Visit(host, e.URL)
	return ok && (!at.Before(began) || time.Since(at) < p.opt.Settings.Every)
}

// takeMet reports, only once, whether the cycle's queue has visited a page since Due gave it out.
func (p *Pages) takeMet(host, url string) (met bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[host]; h != nil && h.pages[url] != nil {
		met, h.pages[url].met = h.pages[url].met, false
	}
	return met
}

// Due adds to due, by host, the watched pages that should be visited now. They are not due again
// until they were visited, or the least interval has passed.
func (p *Pages) Due(now time.Time, due map[string][]frontier.Entry) error {
	if !p.opt.Active {
		return nil
	}
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.orders))
	p.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	list := p.opt.List.List()
	assigned := list.Hosts()
	for _, name := range names {
		if assigned[name] == nil {
			continue
		}
		if err := p.Read(name); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, h := range p.hosts {
		if assigned[name] == nil || !p.opt.MayVisit(name, now) {
			continue
		}
		share := list.Shares[name]
		for url, page := range h.pages {
			if !page.next.After(now) && share.Has(url) {
				page.next, page.due, page.met = now.Add(p.opt.Settings.Every), true, false
				due[name] = append(due[name], page.entry)
			}
		}
	}
	return nil
}

// Stored takes note of a page's record that was stored. past is what was known of the page before
// the visit, and now what is known after it. known says that a full copy was known before. If the
// record is a change of a watched page, or any record of a page that somebody wants saved now, its
// host is due for an express batch. The caller must have the host's turn.
func (p *Pages) Stored(host string, e frontier.Entry, rec *archive.Record, past, now frontier.Visit, known bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visitedLocked(host, e, rec.Kind, past, now, rec.Time)
	gone := rec.Kind == archive.Response && known && isGone(rec.HTTP)
	changed := (rec.Kind == archive.Page || gone) && covers(p.orders[host], rec.URL)
	if p.changed[host] || !changed && once(p.orders[host], rec.URL) == 0 {
		return nil
	}
	p.changed[host] = true
	return p.saveChanged()
}

// Express calls seal, which makes a batch, with the hosts that have a change, unless there is none
// or Express has called seal less than rest ago. If seal fails, the changes are kept.
func (p *Pages) Express(now time.Time, rest time.Duration, seal func(hosts map[string]bool) error) error {
	p.mu.Lock()
	hosts := p.changed
	if len(hosts) == 0 || now.Sub(p.last) < rest {
		p.mu.Unlock()
		return nil
	}
	p.changed, p.last = make(map[string]bool), now
	p.mu.Unlock()
	err := seal(hosts)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		maps.Copy(p.changed, hosts)
		return err
	}
	return p.saveChanged()
}

// saveChanged writes the file of hosts with a change: their pages may lie in open segments when the
// process ends.
func (p *Pages) saveChanged() error { return config.NoteJSON(p.path(changedFile), p.changed) }
