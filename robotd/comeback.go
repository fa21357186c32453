package robotd

import (
	"cmp"
	"context"
	"time"

	"sheaf/archive"
	"sheaf/robotd/frontier"
	"sheaf/robotd/schedule"
)

// attended is what is known of a host's pages that consumers watch.
type attended struct {
	pages map[string]*awaited
	stale bool // the list has changed since it was read
}

// awaited is one page that consumers watch.
type awaited struct {
	entry         frontier.Entry
	visit         frontier.Visit // as the last visit left it; zero: there was none
	at            time.Time      // of that visit
	backoffFactor float64        // see schedule.WatchPolicy
	next          time.Time      // when the page should come; zero: at once
}

// maxAttended pages of a host come more often than once a cycle. Whoever watches a host of a
// million pages hears of most of them once a cycle.
const maxAttended = 1000

func (r *Robot) attention() schedule.WatchPolicy {
	return schedule.WatchPolicy{Least: r.cfg.Watch.Every, Most: cmp.Or(r.cfg.Cycle, 24*time.Hour)}
}

// attends reports whether pages come more often than once a cycle.
func (r *Robot) attends() bool { return r.cfg.Watch.Every > 0 && !r.cfg.Once }

// attend reads what is known of a host's watched pages: of earlier cycles in the frontier's state,
// of this one in its journal, so that a robot that was killed goes on as it was.
func (r *Robot) attend(name string) error {
	w := r.watches
	if fresh, watched := w.attends(name); fresh || !watched || !r.attends() {
		return nil
	}
	front, err := r.frontier.Host(name)
	if err != nil {
		return err
	}
	pages := make(map[string]*awaited)
	add := func(e frontier.Entry, v frontier.Visit) {
		if p := pages[e.URL]; p != nil {
			p.visit, p.at = v, later(v.Last, v.Full)
		} else if len(pages) < maxAttended {
			pages[e.URL] = &awaited{entry: e, visit: v, at: later(v.Last, v.Full), backoffFactor: schedule.Calm}
		}
	}
	for _, e := range w.entries(name) {
		v, _, err := front.Visit(e.URL)
		if err != nil {
			return err
		}
		add(e, v)
	}
	met := func(e frontier.Entry, v frontier.Visit) {
		if !later(v.Last, v.Full).IsZero() && w.covers(name, e.URL) {
			add(e, v)
		}
	}
	if w.broad(name) {
		if _, err := front.EachKnown(met); err != nil {
			return err
		}
	}
	if err := front.EachVisited(met); err != nil {
		return err
	}
	room := r.roomFor(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.hosts[name]
	if a == nil {
		a = &attended{}
	}
	for url, p := range a.pages { // newer, and with what no file has
		if w.wants(name, url) {
			pages[url] = p
		}
	}
	a.pages, a.stale = pages, false
	w.hosts[name] = a
	r.pace(name, a, room, nil)
	return nil
}

// roomFor is how many visits a day to watched pages a host has room for.
func (r *Robot) roomFor(name string) float64 {
	server := r.servers.Get(name)
	return r.cfg.Watch.Share * float64(24*time.Hour) / float64(r.every(name, server.Addr)) * float64(r.cfg.Run.Pages)
}

// pace says when a page should come again, or all of them. The caller holds watches.mu.
func (r *Robot) pace(name string, a *attended, room float64, only *awaited) {
	pages := make([]*awaited, 0, len(a.pages))
	changes := make([]schedule.Changes, 0, len(a.pages))
	backoffFactor := make([]float64, 0, len(a.pages))
	for _, p := range a.pages {
		pages, changes, backoffFactor = append(pages, p), append(changes, p.visit.Changes), append(backoffFactor, p.backoffFactor)
	}
	server := r.servers.Get(name)
	for i, interval := range r.attention().Intervals(changes, backoffFactor, room) {
		p := pages[i]
		if only != nil && p != only {
			continue
		}
		if p.next = (time.Time{}); !p.at.IsZero() {
			p.next = r.plan.Next(&server.Hours, p.at, interval)
		}
	}
}

// came takes in what a visit has told of a watched page. The host's turn must be the caller's.
func (c *crawl) came(t *turn, rec *archive.Record, v frontier.Visit) {
	if !c.attends() {
		return
	}
	room := c.roomFor(t.name)
	w := c.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.hosts[t.name]
	if a == nil {
		return
	}
	p := a.pages[t.entry.URL]
	if p == nil {
		if len(a.pages) >= maxAttended || rec.Kind != archive.Page || !w.wants(t.name, t.entry.URL) {
			return
		}
		p = &awaited{entry: frontier.Entry{URL: t.entry.URL, Depth: t.entry.Depth}, backoffFactor: schedule.Calm}
		a.pages[t.entry.URL] = p
	}
	changed := rec.Kind == archive.Page && t.past.Digest != "" && t.past.Digest != v.Digest
	switch {
	case v.Gone:
		changed = p.visit.Digest != ""
		p.visit = frontier.Visit{Gone: true, History: p.visit.History} // it may come back as it was
	case !v.Full.IsZero():
		p.visit = v
	}
	p.at = t.resp.Start
	p.backoffFactor = c.attention().BackoffFactor(p.backoffFactor, changed)
	c.pace(t.name, a, room, p)
}

// cameAlready reports whether a page that the cycle has queued has come in it before its turn, or just before it.
func (c *crawl) cameAlready(h *host, e frontier.Entry) bool {
	if e.First || e.Redirects > 0 || e.Tries > 0 {
		return false
	}
	_, at, ok := c.watches.visit(h.name, e.URL)
	return ok && (!at.Before(c.round.began) || time.Since(at) < c.cfg.Watch.Every)
}

// due gives the watched pages that should come now, by host, of hosts that may be visited, and those of
// hosts whose visit was ordered. They are not
// due again until they have come, or the least interval has passed in vain.
func (r *Robot) due(now time.Time) (map[string][]frontier.Entry, error) {
	due := make(map[string][]frontier.Entry)
	if err := r.ordered(now, due); err != nil {
		return nil, err
	}
	w := r.watches
	names := w.names()
	if len(names) == 0 || !r.attends() { // the list of hosts may be long
		return due, nil
	}
	hosts := r.assigned()
	for _, name := range names {
		if hosts[name] == nil {
			continue
		}
		if err := r.attend(name); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, a := range w.hosts {
		if hosts[name] == nil || !r.mayCome(name, now) {
			continue
		}
		for url, p := range a.pages {
			if !p.next.After(now) && r.mine(name, url) {
				p.next = now.Add(r.cfg.Watch.Every)
				due[name] = append(due[name], p.entry)
			}
		}
	}
	return due, nil
}

// mayCome reports whether a host is neither to be left alone nor has asked for it.
func (r *Robot) mayCome(name string, now time.Time) bool {
	quiet := r.quiet[name]
	return !r.restraints.Get(name).Until.After(now) && (quiet == nil || !quiet.Open(now))
}

// mine reports whether a URL is in this robot's share of the host.
func (r *Robot) mine(name, url string) bool {
	share := r.list.Share(name)
	return share.Has(url)
}

// comeBack queues the watched pages that are due, before all others of their hosts, in the crawl that goes on,
// or asks for one between two cycles.
func (r *Robot) comeBack(ctx context.Context) error {
	now := time.Now()
	if !r.mayVisit(now) {
		return nil
	}
	r.mu.Lock()
	c := r.crawl
	r.mu.Unlock()
	if c == nil {
		select {
		case r.wanted <- struct{}{}:
		default: // told already
		}
		return nil
	}
	due, err := r.pushDue(now)
	if err != nil || len(due) == 0 {
		return err
	}
	late := make(map[string][]string) // of a short crawl that did not begin with them
	hosts := r.assigned()
	for name := range due {
		if h := c.host(name); h != nil {
			h.dirty.Store(true)
			c.wake(h)
		} else if c.short {
			late[name] = hosts[name]
		}
	}
	if len(late) == 0 {
		return nil
	}
	return c.startAll(ctx, late)
}

func (r *Robot) pushDue(now time.Time) (map[string][]frontier.Entry, error) {
	due, err := r.due(now)
	if err != nil {
		return nil, err
	}
	for name, entries := range due {
		front, err := r.frontier.Host(name)
		if err == nil {
			_, err = front.PushFirst(entries...)
		}
		if err != nil {
			return nil, err
		}
	}
	return due, nil
}

// visitWatched is a short crawl between two cycles, of the hosts with a watched page that is due, until nothing is left of
// them or the next cycle is due. It makes no batch: a change goes into an express one, and the rest into the next.
func (r *Robot) visitWatched(ctx context.Context, until time.Time) error {
	now := time.Now()
	if !r.mayVisit(now) {
		return nil
	}
	due, err := r.pushDue(now)
	if err != nil || len(due) == 0 {
		return err
	}
	all := r.assigned()
	seeds := make(map[string][]string, len(due))
	for name := range due {
		seeds[name] = all[name]
	}
	ctx, c, end := r.newCrawl(ctx, until)
	c.short, c.others = true, all
	defer end()
	if err := c.run(ctx, seeds); err != nil {
		return err
	}
	c.leave()
	return r.checkpoint(context.WithoutCancel(ctx))
}
