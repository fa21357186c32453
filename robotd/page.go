package robotd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/coverage"
	"sheaf/robotd/extract"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/room"
	"sheaf/robotd/trap"
	"sheaf/robotd/verdict"
)

// page is what a turn that fetches a page gathers on its way.
type page struct {
	fetched   bool // there is an answer or an error to be stored
	entry     frontier.Entry
	known     frontier.Visit // of an earlier cycle; zero where a full copy is wanted
	past      frontier.Visit // the same, wanted or not
	resp      *fetch.Response
	err       error
	links     []link           // within the assignment
	found     []string         // top pages of hosts outside of it
	others    []frontier.Entry // links to URLs of other robots\' shares
	outlinks  []archive.Link   // all, as the archive keeps them
	noArchive bool
	noIndex   bool
	mark      verdict.Mark     // what the answer is instead of a page
	cuts      []coverage.Event // links that are not followed
	rules     *rules           // by which the page was allowed
}

// link is a URL that is to be queued, and whose it is.
type link struct {
	host *host
	frontier.Entry
}

const maxRedirects = 10

// fetch does what is the host's turn: its robots.txt, or its next page.
func (c *crawl) fetch(ctx context.Context, t *turn) {
	h := t.host
	if h == nil || h.idle.Load() || c.moved(ctx, t) || c.resting(t) {
		return
	}
	e, ok, err := h.front.Head()
	if err != nil {
		c.fail(h, err)
	}
	if !ok || err != nil {
		return
	}
	scheme, _, _ := strings.Cut(e.URL, ":")
	ru := c.rulesFor(h, scheme)
	if ru.at != "" || !ru.fresh(time.Now()) {
		c.fetchRules(ctx, t, ru)
		return
	}
	if t.addr != h.home() { // called back on the way to a robots.txt elsewhere
		c.gate.Add(h.home(), h.name)
		t.out.More = true
		return
	}
	t.out.Delay = ru.CrawlDelay(c.cfg.userAgent()) // whatever becomes of the visit
	if c.probeDue(h, ru) {
		c.probe(ctx, t, ru)
		return
	}
	more, err := c.take(t, ru)
	if err != nil {
		c.fail(h, err)
	}
	if !more || err != nil {
		return
	}
	t.fetched = true
	t.resp, t.err = c.get(ctx, t, c.watches.request(h.name, fetch.Request{
		URL: t.entry.URL, ETag: t.known.ETag, LastModified: t.known.LastModified, Addr: h.address(),
	}))
	if fetch.KindOf(t.err) == fetch.Over { // nothing was asked: the page stays in hand
		t.fetched, t.out.More = false, true
	}
}

// take finds the page in hand, finishing those on the way that robots.txt refuses.
// A page that another scheme's robots.txt speaks of is left for the next turn.
func (c *crawl) take(t *turn, ru *rules) (more bool, err error) {
	h := t.host
	if h.unfinished != nil {
		if err := h.front.Finish(*h.unfinished); err != nil {
			return false, err
		}
		h.unfinished = nil
	}
	for {
		e, ok, err := h.front.Head()
		if err != nil || !ok {
			return false, err
		}
		if !strings.HasPrefix(e.URL, ru.scheme+":") {
			t.out.More = true
			return false, nil
		}
		if !h.share.Load().Has(weburl.Canonical(e.URL)) { // known from when it was this robot's
			if err := errors.Join(c.elsewhere(e), h.front.Finish(frontier.Done{})); err != nil {
				return false, err
			}
			continue
		}
		if !ru.Allowed(c.cfg.userAgent(), pathQuery(e.URL)) {
			refused := coverage.Event{Kind: coverage.Refused, Reason: "robots.txt", Host: h.name, N: 1, URL: e.URL}
			if err := errors.Join(c.journal.comment("refused by robots.txt: %s", e.URL), c.ledger.Add(refused), h.front.Finish(frontier.Done{})); err != nil {
				return false, err
			}
			continue
		}
		t.entry, t.rules = e, ru
		known, ok, err := h.front.Visit(e.URL)
		if err != nil {
			return false, err
		}
		t.past = known
		if ok && time.Since(known.Full) < c.cfg.Page.Full {
			t.known = known
		}
		return true, nil
	}
}

// pathQuery returns an absolute URL's path and query.
func pathQuery(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// extract finds the page's links and sorts them: to be queued, or to be reported.
func (c *crawl) extract(t *turn) {
	defer func() { c.storing.in <- t }()
	switch {
	case t.err != nil:
	case t.resp.Status/100 == 3 && t.resp.Header.Get("Location") != "":
		to, err := weburl.Parse(t.entry.URL, t.resp.Header.Get("Location"), nil)
		if err == nil {
			c.judgeRedirect(t, to)
			c.refer(t, extract.Link{URL: to, Tag: "redirect"})
		}
		if err == nil && t.entry.Redirects < maxRedirects {
			c.follow(t, to, frontier.Entry{Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1})
			// A host that gives nothing without a session sends the visitor back with one.
			if weburl.Canonical(to) == t.entry.URL && to != t.entry.URL {
				t.links = append(t.links, link{t.host, frontier.Entry{URL: to, Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1}})
			}
		}
	case isPage(t.resp.Status):
		body, err := t.resp.Bytes(extract.MaxBytes)
		if err != nil {
			t.err = err
			return
		}
		p, err := extract.Links(body, t.resp.Header.Get("Content-Type"), t.entry.URL)
		if err != nil {
			return // the URL is one that no link can be resolved against
		}
		asked := polite.RobotsTag(t.resp.Header.Values("X-Robots-Tag"), c.cfg.userAgent())
		t.noArchive = p.Robots.NoArchive || asked.NoArchive
		t.noIndex = p.Robots.NoIndex || asked.NoIndex
		links := slices.Concat(extract.HeaderLinks(t.resp.Header, t.entry.URL), p.Links)
		c.refer(t, links...)
		if c.judge(t, p, body) {
			return
		}
		if p.Robots.NoFollow || asked.NoFollow {
			return
		}
		for _, l := range links {
			if c.wanted(&l) {
				c.follow(t, l.URL, frontier.Entry{Depth: t.entry.Depth + 1})
			}
		}
	default:
		c.judgeRefusal(t)
	}
}

func isPage(status int) bool {
	return status == http.StatusOK || status == http.StatusNonAuthoritativeInfo
}

// wanted reports whether the settings let a link be followed.
func (c *crawl) wanted(link *extract.Link) bool {
	return !(link.NoFollow && c.cfg.Page.ObeyRelLink) && (link.Tag != "form" || c.cfg.Page.Forms)
}

// follow sorts one link.
func (c *crawl) follow(t *turn, url string, e frontier.Entry) {
	u, err := weburl.New(url, nil)
	if err != nil || u.Host() == "" || u.Scheme() != "http" && u.Scheme() != "https" {
		return
	}
	name := u.Host()
	to := t.host
	if name != to.name {
		to = c.host(name)
	}
	if to == nil {
		// The manager would refuse a report with a name that cannot be one.
		if top, _, err := wire.NormalizeURL(u.Scheme() + "://" + name + "/"); err == nil {
			t.found = append(t.found, top)
		}
		return
	}
	e.URL = u.Canonical()
	switch {
	case e.Depth > c.cfg.Page.MaxDepth:
		t.lose(name, "depth", e.URL)
	case len(pathQuery(e.URL)) > c.cfg.Page.MaxPath:
		t.lose(name, "length", e.URL)
	default:
		if why := trap.Check(pathQuery(e.URL), time.Now()); why != "" {
			t.lose(name, why, e.URL)
			return
		}
		if !to.share.Load().Has(e.URL) {
			t.others = append(t.others, e)
			return
		}
		t.links = append(t.links, link{to, e})
	}
}

// store ends a turn: the links go to their queues, the page to the host's
// segment, and the queue moves on, in this order, which package frontier relies on.
func (c *crawl) store(t *turn) {
	h := t.host
	defer c.finish(t)
	if t.resp != nil {
		defer t.resp.Close()
	}
	if fetch.KindOf(t.err) == fetch.Canceled {
		return // the page stays in hand
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return
	}
	h.dirty.Store(true)
	if room.IsFull(t.err) { // the answer is here and there is no room to keep it until it is stored
		c.fail(h, t.err)
		return
	}
	if err := c.settle(t); err != nil {
		c.fail(h, err)
		return
	}
	t.out.More = !h.idle.Load() && !h.front.Empty()
}

// settle decides what becomes of the page and does it. An error is the disk's.
func (c *crawl) settle(t *turn) error {
	if err := c.note(t); err != nil {
		return err
	}
	h := t.host
	failed := t.err != nil || overloaded(t.resp.Status)
	if failed {
		t.out.Trouble = true
		if t.resp != nil {
			t.out.NotBefore = c.backOff(h, t.resp.Status, retryAfter(t.resp.Header))
		} else {
			t.out.NotBefore = c.backOff(h, 0, time.Time{})
			h.lost = true
		}
		if t.entry.Tries+1 < c.cfg.Page.Tries {
			return h.front.Retry()
		}
	} else {
		if t.mark == verdict.Blocked { // who is turned away comes less often
			t.out.NotBefore = c.backOff(h, t.resp.Status, retryAfter(t.resp.Header))
		} else {
			h.failures = 0
		}
		t.out.Rest = t.resp.Took // a slow host rests as long as it worked
		t.out.Wait = t.resp.Wait
		c.timed(h, t.resp)
	}
	if err := c.queue(t); err != nil {
		return err
	}
	if err := c.account(t); err != nil {
		return err
	}
	if t.err != nil || t.noArchive {
		return h.front.Finish(frontier.Done{})
	}
	err := c.append(t)
	if errors.Is(err, archive.ErrRefused) {
		return errors.Join(c.journal.comment("not archived: %v", err), h.front.Finish(frontier.Done{}))
	}
	return err
}

// note writes the exchange to the log of the collection.
func (c *crawl) note(t *turn) error {
	if t.err != nil {
		return c.journal.comment("%v", t.err)
	}
	return c.journal.add(exchange(t.entry.URL, t.resp))
}

func exchange(url string, resp *fetch.Response) wire.LogLine {
	return wire.LogLine{
		URL: url, Sent: resp.RequestBytes, Got: resp.ResponseBytes,
		Took: resp.Took, Header: strings.TrimRight(string(resp.HTTP), "\r\n"),
	}
}

// queue puts the links into the queues of their hosts and wakes those.
func (c *crawl) queue(t *turn) error {
	byHost := make(map[*host][]frontier.Entry)
	for _, l := range t.links {
		if l.host == t.host || c.host(l.host.name) == l.host { // it may have gone to another robot
			byHost[l.host] = append(byHost[l.host], l.Entry)
		}
	}
	for h, entries := range byHost {
		if left := c.cfg.Page.MaxPerHost - h.front.Len(); len(entries) > left {
			for _, e := range entries[max(0, left):] {
				t.lose(h.name, "host_full", e.URL)
			}
			entries = entries[:max(0, left)]
		}
		n, err := h.front.Push(entries...)
		if err != nil {
			return err
		}
		if n > 0 && h != t.host {
			c.wake(h)
		}
	}
	for _, top := range t.found {
		if err := c.Robot.found.add(wire.HostLine{URL: top}); err != nil {
			return err
		}
	}
	for _, e := range t.others {
		if err := c.elsewhere(e); err != nil {
			return err
		}
	}
	return nil
}

// append adds the page's record to the host's segment and finishes the page.
func (c *crawl) append(t *turn) error {
	rec, visit := record(t)
	t.learn(rec.Kind, &visit, c.plan.Window.Location())
	if rec.Kind != archive.Revisit {
		body := t.resp.Body()
		defer body.Close()
		rec.Body, rec.Links = body, t.linksOf(rec)
	}
	var tapped []byte
	err := c.batches.Append(t.name, rec, func(cell batch.Cell) error {
		tapped = c.tapped(&cell)
		if rec.Kind == archive.Page {
			visit.Full = cell.Time
		}
		done := frontier.Done{Segment: cell.Segment, End: cell.End, Visit: visit}
		err := t.host.front.Finish(done)
		if err != nil {
			t.host.unfinished = &done
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("storing %s: %w", t.entry.URL, err)
	}
	if tapped != nil {
		c.tap.Offer(tapped)
	}
	c.watches.noticed(t.host.name, rec, t.known.Digest != "")
	t.host.pages.Add(1)
	c.tally.count(rec.Kind)
	t.host.bytes.Add(t.resp.ResponseBytes)
	t.host.ms.Add(t.resp.Took.Milliseconds())
	return nil
}

// record makes a page's record, but for its body, and what to remember of it.
func record(t *turn) (*archive.Record, frontier.Visit) {
	resp := t.resp
	rec := &archive.Record{
		Kind: archive.Response, URL: t.entry.URL, Time: resp.Start.UTC(),
		HTTP: resp.HTTP, Truncated: resp.Truncated,
	}
	if t.noIndex {
		rec.HTTP = mark(rec.HTTP, "X-Crawler-Robots: noindex")
	}
	if resp.IP.IsValid() {
		rec.IP = resp.IP.String()
	}
	if t.mark != verdict.None {
		rec.HTTP = mark(rec.HTTP, "X-Crawler-Verdict: "+string(t.mark))
	}
	notModified := resp.Status == http.StatusNotModified
	same := isPage(resp.Status) && resp.Truncated == "" && resp.Digest == t.known.Digest
	switch {
	case isPage(resp.Status) && t.mark != verdict.None:
		return rec, frontier.Visit{} // what is known of the page itself stays
	case t.known.Digest != "" && (notModified || same):
		rec.Kind, rec.Truncated = archive.Revisit, ""
		rec.PayloadDigest, rec.RefersTo, rec.RefersDate = t.known.Digest, rec.URL, t.known.Full
		if notModified {
			rec.Profile = archive.ServerNotModified
		}
		return rec, refreshed(t.known, resp.Header)
	case isPage(resp.Status):
		rec.Kind, rec.PayloadDigest = archive.Page, resp.Digest
		if resp.Truncated != "" {
			return rec, frontier.Visit{} // to be taken in full the next time too
		}
		return rec, refreshed(frontier.Visit{Digest: resp.Digest}, resp.Header)
	case resp.Status == http.StatusNotFound || resp.Status == http.StatusGone || resp.Status/100 == 3:
		return rec, frontier.Visit{Gone: true}
	}
	return rec, frontier.Visit{}
}

// mark adds a line to a header block that is to be stored.
func mark(header []byte, line string) []byte {
	const end = "\r\n"
	return append(bytes.Clone(header[:len(header)-len(end)]), line+end+end...)
}

// refreshed puts an answer's validators over the ones that are known; a 304 may
// leave out what has not changed.
func refreshed(v frontier.Visit, h http.Header) frontier.Visit {
	if value := h.Get("ETag"); value != "" {
		v.ETag = value
	}
	if value := h.Get("Last-Modified"); value != "" {
		v.LastModified = value
	}
	return v
}
