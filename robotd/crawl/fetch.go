package crawl

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/page"
	"sheaf/internal/weburl"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
)

// fetch fetches the host's next page, or uses the turn for what is due before: a look-up, the
// host's robots.txt, or a question for a page that cannot exist. It reports whether there is an
// answer or an error to store.
func (t *turn) fetch(ctx context.Context) bool {
	c, h := t.crawl, t.host
	if h == nil || h.idle.Load() {
		return false
	}
	c.setResting(h, false)
	if t.moved(ctx) || t.mustWait() {
		return false
	}
	e, ok, err := h.Front.Head()
	if err != nil {
		t.fail(err)
	}
	if !ok || err != nil {
		return false
	}
	scheme, _, _ := strings.Cut(e.URL, ":")
	ru := t.rulesOf(scheme)
	if ru.way != nil || !ru.fresh(time.Now()) {
		t.fetchRules(ctx, ru)
		return false
	}
	if t.addr != h.Home() { // called back on the way to a robots.txt elsewhere
		c.parts.Manners.Gate.Add(h.Home(), h.Name)
		t.out.More = true
		return false
	}
	t.out.Delay = ru.CrawlDelay(c.parts.Manners.Agent) // whatever becomes of the visit
	if c.parts.Settings.Page.Probe && !h.memory.probed && h.Front.Len() >= probeFrom && ru.Allowed(c.parts.Manners.Agent, probePath()) {
		t.probe(ctx, ru)
		return false
	}
	more, err := t.take(ru)
	if err != nil {
		t.fail(err)
	}
	if !more || err != nil {
		return false
	}
	t.resp, t.err = t.get(ctx, t.request())
	if fetch.KindOf(t.err) == fetch.Over || t.elsewhere(ctx, t.err) { // the page stays the next one
		t.out.More = true
		return false
	}
	return true
}

// request returns the HTTP request for a turn's page. If the page is a watched form, the request
// posts the form's fields.
func (t *turn) request() fetch.Request {
	req := fetch.Request{URL: t.entry.URL, ETag: t.known.ETag, LastModified: t.known.LastModified, Addr: t.host.address(), Text: t.text()}
	if form, ok := t.crawl.parts.Records.Watched.Form(t.host.Name, req.URL); ok {
		req.URL, req.Post, req.Header = form.Address, []byte(form.Body), http.Header{"Content-Type": {form.Media}}
	}
	return req
}

// compares reports whether the page is to be compared with the host's answer for pages that cannot
// exist. A seed, such as the top page, is not compared, since that answer may look like it.
func (t *turn) compares() bool {
	m := t.host.memory.missing
	return m != nil && m.sketch != nil && t.entry.Depth > 0
}

// text returns how many bytes of the page's text are needed to judge it.
func (t *turn) text() int {
	if t.compares() {
		return page.MaxText
	}
	return page.Enough
}

// moved looks up the host's address again if that is due, or if nothing answered at the last visit.
// It reports whether that ends the turn: if the host has moved, its next turn is at the other
// address. Until the manager knows the other address, the host is visited at the old one, as long
// as the old one answers.
func (t *turn) moved(ctx context.Context) bool {
	h := t.host
	if t.addr != h.Home() { // on the way to a robots.txt elsewhere
		return false
	}
	if !h.place.silent && time.Since(h.place.learned) < t.crawl.parts.Settings.Network.Relearn {
		return false
	}
	addr, err := t.crawl.parts.Fetcher.ResolveAgain(ctx, h.Name, h.Home(), h.place.dead...)
	if err != nil {
		h.place.learned = time.Now() // the old address may still serve
		return false
	}
	if addr.Addr() == t.addr {
		h.Locate(addr)
		return false
	}
	if !t.crawl.parts.Manners.Moves.May(h.Name, addr.Addr()) {
		h.place.learned = time.Now().Add(min(t.crawl.parts.Settings.Network.Relearn, askAgain) - t.crawl.parts.Settings.Network.Relearn)
		t.out.More = h.place.silent
		return h.place.silent
	}
	h.Locate(addr)
	t.crawl.parts.Log.InfoContext(ctx, "host has moved", "host", h.Name, "from", t.addr, "to", addr.Addr())
	for _, ru := range h.memory.rules {
		ru.way = nil // an access on the way begins anew
	}
	t.crawl.parts.Manners.Gate.Add(addr.Addr(), h.Name)
	t.out.More = true
	return true
}

// askAgain is the time between two look-ups of a host whose move the manager does not know yet.
const askAgain = 5 * time.Second

// mustWait reports whether the host is not to be visited at this hour, by the settings or by its
// robots.txt, and ends the turn if so.
func (t *turn) mustWait() bool {
	now := time.Now()
	at, why := now, ""
	if s := t.host.Quiet; s != nil && s.Open(now) {
		why = "not_between"
		if at = s.Until(now); at.IsZero() { // for good
			at = now.Add(maxRetryAfter)
		}
	}
	for _, ru := range t.host.memory.rules {
		if ru.Robots == nil {
			continue
		}
		if next := ru.VisitAt(t.crawl.parts.Manners.Agent, now); next.After(at) {
			at, why = next, "robots.txt's hours"
		}
	}
	if !at.After(now) {
		return false
	}
	t.out.NotBefore, t.out.More = at, true
	t.host.rest.why.Store(&why)
	return true
}

// take finds the page to fetch, and reports whether there is one. It removes pages from the queue
// that are not to be fetched. A page of another scheme is left for the next turn, since another
// robots.txt holds for it.
func (t *turn) take(ru *rules) (more bool, err error) {
	h := t.host
	if h.memory.unfinished != nil {
		if err := h.Front.Finish(*h.memory.unfinished); err != nil {
			return false, err
		}
		h.memory.unfinished = nil
	}
	for {
		e, ok, err := h.Front.Head()
		if err != nil || !ok {
			return false, err
		}
		if !strings.HasPrefix(e.URL, ru.scheme+":") {
			t.out.More = true
			return false, nil
		}
		skip, err := t.skip(e, ru)
		if err != nil {
			return false, err
		}
		if skip {
			if err := h.Front.Finish(frontier.Done{}); err != nil {
				return false, err
			}
			continue
		}
		t.entry, t.rules = e, ru
		known, ok, err := h.Front.Visit(e.URL)
		if err != nil {
			return false, err
		}
		if v, _, newer := t.crawl.parts.Records.Watched.Visit(h.Name, e.URL); newer {
			known, ok = v, true
		}
		t.past = known
		if ok && time.Since(known.Full) < t.crawl.parts.Settings.Page.Full {
			t.known = known
		}
		return true, nil
	}
}

// skip reports whether a queued page is not to be fetched, and accounts for it.
func (t *turn) skip(e frontier.Entry, ru *rules) (bool, error) {
	c, rec, share, url := t.crawl, &t.crawl.parts.Records, t.host.Share(), weburl.Canonical(e.URL)
	why, told := "", ""
	switch {
	case rec.Watched.VisitedSince(t.name, e, c.hours.Round.Began):
		return true, nil
	case !share.Has(url): // queued when it was in this robot's share
		return true, rec.Found.Elsewhere(e)
	case c.parts.List.Omits(t.name, url):
		why, told = "owner", "left out for its owner: %s"
	case !ru.Allowed(c.parts.Manners.Agent, weburl.PathQuery(e.URL)):
		why, told = "robots.txt", "refused by robots.txt: %s"
	default:
		return false, nil
	}
	lost := batch.Uncollected{Kind: batch.KindRefused, Reason: why, Host: t.name, N: 1, URL: e.URL}
	return true, errors.Join(rec.Journal.Comment(told, e.URL), rec.Ledger.Add(lost))
}

// probe uses a turn to ask for a page that cannot exist.
func (t *turn) probe(ctx context.Context, ru *rules) {
	h := t.host
	t.out.More = true
	url := ru.scheme + "://" + h.Name + probePath()
	resp, err := t.get(ctx, fetch.Request{URL: url, Addr: h.address(), MaxBody: probeSize})
	if kind := fetch.KindOf(err); kind == fetch.Canceled || kind == fetch.Over {
		return // nothing was learned: the next turn asks again
	}
	h.memory.probed = true
	if err != nil {
		return // the host's own pages will show what is wrong
	}
	defer resp.Close()
	t.out.Rest, t.out.Wait = resp.Took, resp.Wait
	t.out.NotBefore = retryAfter(resp.Header)
	t.crawl.parts.Manners.Admission.Spend(resp.ResponseBytes)
	if err := t.crawl.parts.Records.Journal.Add(exchange(url, resp)); err != nil {
		t.fail(err)
		return
	}
	h.memory.missing = t.missing(resp, url)
}

// get fetches for a turn. If the lease is over, or ends before the answer is there, the error's
// kind is fetch.Over: the page stays the next one. If the watchdog cancelled the fetch, the kind is
// fetch.TooSlow. If the worker has lost the turn, the kind is fetch.Canceled.
func (t *turn) get(ctx context.Context, req fetch.Request) (resp *fetch.Response, err error) {
	req.Progress, req.Allowed = t.watch.progress, t.crawl.parts.Manners.Lease.MayVisit
	ctx, cancel := t.crawl.parts.Manners.Lease.Bound(ctx)
	defer cancel()
	if t.run != nil {
		resp, err = t.run.Get(ctx, req)
	} else {
		resp, err = t.crawl.parts.Source.Get(ctx, req)
	}
	if !t.crawl.watchdog.has(t.watch) {
		if resp != nil {
			err = errors.Join(err, resp.Close())
		}
		return nil, &fetch.Error{Kind: fetch.Canceled, URL: req.URL, Err: errors.Join(errStalled, err)}
	}
	if cause := context.Cause(ctx); fetch.KindOf(err) == fetch.Canceled {
		switch {
		case errors.Is(cause, errStalled):
			err = &fetch.Error{Kind: fetch.TooSlow, URL: req.URL, Err: errStalled}
		case errors.Is(cause, polite.ErrLeaseOver):
			err = &fetch.Error{Kind: fetch.Over, URL: req.URL, Err: cause}
		}
	}
	return resp, err
}

// mostDead is how many addresses of a host are tried before the host counts as failed.
const mostDead = 8

// elsewhere reports whether a fetch has failed because the host's address takes no connection,
// while the host has another address. The host then moves in its next turn, an interval later, and
// has not failed.
func (t *turn) elsewhere(ctx context.Context, err error) bool {
	if fetch.KindOf(err) != fetch.Connect {
		return false
	}
	p := &t.host.place
	p.dead = append(p.dead, t.addr)
	to, err := t.crawl.parts.Fetcher.ResolveAgain(ctx, t.name, t.addr, p.dead...)
	if err != nil || len(p.dead) >= mostDead || slices.Contains(p.dead, to.Addr()) {
		p.dead = nil // one may answer again
		return false
	}
	p.silent, t.out.More = true, true
	return true
}
