package robotd

import (
	"context"
	"errors"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/coverage"
	"sheaf/robotd/diskguard"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
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
	resting   []link           // of a short crawl, links to hosts that are not in it
	outlinks  []archive.Link   // all, as the archive keeps them
	noArchive bool
	noIndex   bool
	mark      verdict.Mark     // what the answer is instead of a page
	cuts      []coverage.Event // links that are not followed
	rules     *rules           // by which the page was allowed
}

// fetch does what is the host's turn: its robots.txt, or its next page.
func (c *crawl) fetch(ctx context.Context, t *turn) {
	h := t.host
	if h == nil || h.idle.Load() {
		return
	}
	c.setResting(h, false)
	if c.moved(ctx, t) || c.resting(t) {
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
	if ru.way != nil || !ru.fresh(time.Now()) {
		c.fetchRules(ctx, t, ru)
		return
	}
	if t.addr != h.home() { // called back on the way to a robots.txt elsewhere
		c.gate.Add(h.home(), h.name)
		t.out.More = true
		return
	}
	t.out.Delay = ru.CrawlDelay(c.cfg.UserAgent(Version)) // whatever becomes of the visit
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
		if c.cameAlready(h, e) {
			if err := h.front.Finish(frontier.Done{}); err != nil {
				return false, err
			}
			continue
		}
		if !h.share.Load().Has(weburl.Canonical(e.URL)) { // known from when it was this robot's
			if err := errors.Join(c.found.Elsewhere(e), h.front.Finish(frontier.Done{})); err != nil {
				return false, err
			}
			continue
		}
		if !ru.Allowed(c.cfg.UserAgent(Version), pathQuery(e.URL)) {
			refused := coverage.Event{Kind: coverage.Refused, Reason: "robots.txt", Host: h.name, N: 1, URL: e.URL}
			if err := errors.Join(c.journal.Comment("refused by robots.txt: %s", e.URL), c.ledger.Add(refused), h.front.Finish(frontier.Done{})); err != nil {
				return false, err
			}
			continue
		}
		t.entry, t.rules = e, ru
		known, ok, err := h.front.Visit(e.URL)
		if err != nil {
			return false, err
		}
		if v, _, newer := c.watches.visit(h.name, e.URL); newer {
			known, ok = v, true
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
	if diskguard.IsFull(t.err) { // the answer is here and there is no room to keep it until it is stored
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
			h.recovered()
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
		lost := coverage.Event{Kind: coverage.Failed, Reason: "not_archivable", Host: t.name, N: 1, URL: t.entry.URL}
		return errors.Join(c.journal.Comment("not archived: %v", err), c.ledger.Add(lost), h.front.Finish(frontier.Done{}))
	}
	return err
}

// note writes the exchange to the log of the collection.
func (c *crawl) note(t *turn) error {
	if t.err != nil {
		return c.journal.Comment("%v", t.err)
	}
	return c.journal.Add(exchange(t.entry.URL, t.resp))
}

func exchange(url string, resp *fetch.Response) wire.LogLine {
	return wire.LogLine{
		URL: url, Sent: resp.RequestBytes, Got: resp.ResponseBytes,
		Took: resp.Took, Header: strings.TrimRight(string(resp.HTTP), "\r\n"),
	}
}
