package robotd

import (
	"context"
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
	"sheaf/robotd/datadir"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
)

// watches is what consumers watch of this robot's hosts (paper 004). Such pages are
// visited in every cycle, at the hours learned for their server like all others, and within it as often as
// their changes ask for (comeback.go); a change goes into a small
// batch of its host alone, which is sent at once. The list outlasts the process, and the manager's absence.
type watches struct {
	path string // watches.json; due hosts stand beside it

	mu     sync.Mutex // guards all below
	tag    string
	byHost map[string][]wire.WatchOrder
	due    map[string]bool // hosts with a change to be handed in
	last   time.Time       // when that was done last
	hosts  map[string]*attended
}

// savedWatches is watches.json.
type savedWatches struct {
	ETag    string            `json:"etag"`
	Watches []wire.WatchOrder `json:"watches"`
}

func openWatches(path string) (*watches, error) {
	w := &watches{path: path, due: make(map[string]bool), hosts: make(map[string]*attended)}
	var saved savedWatches
	err := errors.Join(datadir.LoadJSON(path, &saved), datadir.LoadJSON(w.duePath(), &w.due))
	w.set(saved)
	return w, err
}

// duePath is where the hosts with a change to be handed in are kept: their pages may lie in open segments when
// the process ends.
func (w *watches) duePath() string { return filepath.Join(filepath.Dir(w.path), "express.json") }

// set replaces the list. The caller holds mu, or nobody else has w yet.
func (w *watches) set(saved savedWatches) {
	w.tag, w.byHost = saved.ETag, make(map[string][]wire.WatchOrder)
	for _, o := range saved.Watches {
		w.byHost[o.Host] = append(w.byHost[o.Host], o)
	}
	for _, a := range w.hosts {
		a.stale = true
	}
}

// names are the hosts of which something is watched.
func (w *watches) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.byHost))
}

// attends reports whether what is known of a host's watched pages has been read, and whether there are any.
func (w *watches) attends(host string) (fresh, watched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.hosts[host]
	if len(w.byHost[host]) == 0 {
		delete(w.hosts, host)
		return false, false
	}
	return a != nil && !a.stale, true
}

// broad reports whether more of a host is watched than single pages.
func (w *watches) broad(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.byHost[host], func(o wire.WatchOrder) bool { return o.Kind != wire.WatchURL })
}

// visit gives what is known of a watched page from visits of this cycle too.
func (w *watches) visit(host, url string) (v frontier.Visit, at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.hosts[host]
	if a == nil || a.pages[url] == nil || a.pages[url].at.IsZero() {
		return v, at, false
	}
	p := a.pages[url]
	return p.visit, p.at, true
}

// forget drops what is known of a host's pages.
func (w *watches) forget(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hosts, host)
}

// entries gives the single pages of a host that are watched, as links of the list.
func (w *watches) entries(host string) (entries []frontier.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.byHost[host] {
		if o.Kind != wire.WatchHost {
			entries = append(entries, frontier.Entry{URL: weburl.Canonical(o.URL)})
		}
	}
	return entries
}

// covers reports whether a page is watched.
func (w *watches) covers(host, url string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wants(host, url)
}

// wants is covers for who holds mu.
func (w *watches) wants(host, url string) bool {
	return slices.ContainsFunc(w.byHost[host], func(o wire.WatchOrder) bool { return o.Covers(url) })
}

// request makes of a page what is to be asked: of a form's answer that its fields are sent.
func (w *watches) request(host string, req fetch.Request) fetch.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.byHost[host] {
		if o.Body != "" && o.URL == req.URL {
			req.URL, req.Post = o.Address, []byte(o.Body)
			req.Header = http.Header{"Content-Type": {o.Media}}
		}
	}
	return req
}

// noticed remembers that a host has a change to be handed in, if one of its watches wants that.
func (w *watches) noticed(host string, rec *archive.Record, known bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := rec.Kind == archive.Response && known && isGoneAnswer(rec.HTTP)
	if w.due[host] || rec.Kind != archive.Page && !gone || !w.wants(host, rec.URL) {
		return nil
	}
	w.due[host] = true
	return datadir.NoteJSON(w.duePath(), w.due)
}

func isGoneAnswer(head []byte) bool {
	var status int
	_, err := fmt.Sscanf(string(head[:min(len(head), 20)]), "HTTP/%s %d", new(string), &status)
	return err == nil && (status == http.StatusNotFound || status == http.StatusGone)
}

// take gives the hosts to be handed in, if the last time is long enough ago.
func (w *watches) take(now time.Time, rest time.Duration) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.due) == 0 || now.Sub(w.last) < rest {
		return nil
	}
	hosts := w.due
	w.due, w.last = make(map[string]bool), now
	return hosts
}

// handedIn notes that the hosts that were taken are in a batch.
func (w *watches) handedIn() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return datadir.NoteJSON(w.duePath(), w.due)
}

// missed puts hosts back that could not be handed in.
func (w *watches) missed(hosts map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.due, hosts)
}

// askWatches asks the manager what is watched. New pages are queued at once.
func (r *Robot) askWatches(ctx context.Context) error {
	w := r.watches
	w.mu.Lock()
	tag := w.tag
	w.mu.Unlock()
	list, tag, err := r.manager.Watches(ctx, tag)
	if err != nil {
		if ctx.Err() == nil {
			r.log.Debug("what is watched is not known anew", "error", err) // askManager says that the manager is away
		}
		return nil
	}
	if list == nil {
		return nil
	}
	saved := savedWatches{ETag: tag, Watches: list.Watches}
	if err := datadir.SaveJSON(w.path, saved); err != nil {
		return err
	}
	w.mu.Lock()
	w.set(saved)
	w.mu.Unlock()
	r.log.Info("consumers watch", "watches", len(saved.Watches))
	r.mu.Lock()
	c := r.crawl
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	for _, h := range c.all() {
		if err := c.pushWatched(h); err != nil {
			return err
		}
	}
	return nil
}

// pushWatched queues those watched pages of a host in the crawl that this cycle has not seen.
func (c *crawl) pushWatched(h *host) error {
	share := h.share.Load()
	entries := slices.DeleteFunc(c.watches.entries(h.name), func(e frontier.Entry) bool { return !share.Has(e.URL) })
	if len(entries) == 0 {
		return nil
	}
	h.mu.Lock()
	if h.gone {
		h.mu.Unlock()
		return nil
	}
	h.dirty.Store(true)
	n, err := h.front.Push(entries...)
	h.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", h.name, err)
	}
	if n > 0 {
		c.wake(h)
	}
	return nil
}

// handInExpress makes a batch of the hosts with a change that somebody waits for, unless the last one
// is less than rest ago.
func (r *Robot) handInExpress(ctx context.Context, rest time.Duration) error {
	hosts := r.watches.take(time.Now(), rest)
	if len(hosts) == 0 {
		return nil
	}
	id, err := r.batches.SealExpress(ctx, r.list.Generation(), hosts)
	if err != nil {
		r.watches.missed(hosts)
		return fmt.Errorf("sealing what is watched: %w", err)
	}
	if err := r.watches.handedIn(); err != nil {
		return err
	}
	if id != "" {
		r.log.Info("a change that is waited for is handed in", "batch", id, "hosts", len(hosts))
		r.uploader.Wake()
	}
	return nil
}
