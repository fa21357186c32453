package crawl

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/weburl"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
)

// fetching is the first stage: see visit.
type fetching struct {
	parts  *Parts
	pipe   *Pipeline
	robots *robots
}

// visit is the first stage: it fetches the host's next page or, if that is due before, its
// robots.txt.
func (f *fetching) visit(ctx context.Context, t *turn) {
	ru := f.ready(ctx, t)
	if ru == nil {
		return
	}
	more, err := f.take(t, ru)
	if err != nil {
		f.pipe.fail(t, err)
	}
	if !more || err != nil {
		return
	}
	t.fetched = true
	t.resp, t.err = f.pipe.requests.get(ctx, t, f.request(t))
	if fetch.KindOf(t.err) == fetch.Over || f.pipe.requests.elsewhere(ctx, t, t.err) { // the page stays the next one
		t.fetched, t.out.More = false, true
	}
}

// ready prepares a turn, and returns the rules for the page to fetch. nil: the turn was needed for
// something else, or the host is not to be visited now.
func (f *fetching) ready(ctx context.Context, t *turn) *rules {
	h := t.host
	if h == nil || h.idle.Load() {
		return nil
	}
	f.pipe.hosts.setResting(h, false)
	if f.moved(ctx, t) || f.mustWait(t) {
		return nil
	}
	e, ok, err := h.Front.Head()
	if err != nil {
		f.pipe.fail(t, err)
	}
	if !ok || err != nil {
		return nil
	}
	scheme, _, _ := strings.Cut(e.URL, ":")
	ru := f.robots.of(t, scheme)
	if ru.way != nil || !ru.fresh(time.Now()) {
		f.robots.fetch(ctx, t, ru)
		return nil
	}
	if t.addr != h.Home() { // called back on the way to a robots.txt elsewhere
		f.parts.Manners.Gate.Add(h.Home(), h.Name)
		t.out.More = true
		return nil
	}
	t.out.Delay = ru.CrawlDelay(f.parts.Manners.Agent) // whatever becomes of the visit
	if f.probeDue(h, ru) {
		f.probe(ctx, t, ru)
		return nil
	}
	return ru
}

// request returns the HTTP request for a turn's page. If the page is a watched form, the request
// posts the form's fields.
func (f *fetching) request(t *turn) fetch.Request {
	req := fetch.Request{URL: t.entry.URL, ETag: t.known.ETag, LastModified: t.known.LastModified, Addr: t.host.address(), Text: t.text()}
	if form, ok := f.parts.Records.Watched.Form(t.host.Name, req.URL); ok {
		req.URL, req.Post, req.Header = form.Address, []byte(form.Body), http.Header{"Content-Type": {form.Media}}
	}
	return req
}

// moved looks up the host's address again if that is due, or if nothing answered at the last visit.
// It reports whether the host has another address now. The host's next turn is then there. Until
// the manager knows the other address, the host is visited at the old one, as long as that answers.
func (f *fetching) moved(ctx context.Context, t *turn) bool {
	h := t.host
	if t.addr != h.Home() { // on the way to a robots.txt elsewhere
		return false
	}
	if !h.place.silent && time.Since(h.place.learned) < f.parts.Settings.Network.Relearn {
		return false
	}
	addr, err := f.parts.Fetcher.ResolveAgain(ctx, h.Name, h.Home(), h.place.dead...)
	if err != nil {
		h.place.learned = time.Now() // the old address may still serve
		return false
	}
	if addr.Addr() == t.addr {
		h.Locate(addr)
		return false
	}
	if !f.parts.Manners.Moves.May(h.Name, addr.Addr()) {
		h.place.learned = time.Now().Add(min(f.parts.Settings.Network.Relearn, askAgain) - f.parts.Settings.Network.Relearn)
		t.out.More = h.place.silent
		return h.place.silent
	}
	h.Locate(addr)
	f.parts.Log.InfoContext(ctx, "host has moved", "host", h.Name, "from", t.addr, "to", addr.Addr())
	for _, ru := range h.memory.rules {
		ru.way = nil // an access on the way begins anew
	}
	f.parts.Manners.Gate.Add(addr.Addr(), h.Name)
	t.out.More = true
	return true
}

// askAgain is the time between two look-ups of a host whose move the manager does not know yet.
const askAgain = 5 * time.Second

// mustWait reports whether the host is not to be visited at this hour, by the settings or by its
// robots.txt, and ends the turn if so.
func (f *fetching) mustWait(t *turn) bool {
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
		if next := ru.VisitAt(f.parts.Manners.Agent, now); next.After(at) {
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

// take finds the page to fetch. It removes pages from the queue that are not to be fetched. A page
// of another scheme is left for the next turn, since another robots.txt holds for it.
func (f *fetching) take(t *turn, ru *rules) (more bool, err error) {
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
		skip, err := f.skip(h, e, ru)
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
		if v, _, newer := f.parts.Records.Watched.Visit(h.Name, e.URL); newer {
			known, ok = v, true
		}
		t.past = known
		if ok && time.Since(known.Full) < f.parts.Settings.Page.Full {
			t.known = known
		}
		return true, nil
	}
}

// skip reports whether a queued page is not to be fetched, and accounts for it.
func (f *fetching) skip(h *Host, e frontier.Entry, ru *rules) (bool, error) {
	share, url := h.Share(), weburl.Canonical(e.URL)
	switch {
	case f.parts.Records.Watched.VisitedSince(h.Name, e, f.pipe.hours.Round.Began):
		return true, nil
	case !share.Has(url): // queued when it was in this robot's share
		return true, f.parts.Records.Found.Elsewhere(e)
	case f.parts.List.Omits(h.Name, url):
		return true, errors.Join(
			f.parts.Records.Journal.Comment("left out for its owner: %s", e.URL),
			f.parts.Records.Ledger.Add(batch.Uncollected{Kind: batch.KindRefused, Reason: "owner", Host: h.Name, N: 1, URL: e.URL}))
	case !ru.Allowed(f.parts.Manners.Agent, weburl.PathQuery(e.URL)):
		return true, errors.Join(
			f.parts.Records.Journal.Comment("refused by robots.txt: %s", e.URL),
			f.parts.Records.Ledger.Add(batch.Uncollected{Kind: batch.KindRefused, Reason: "robots.txt", Host: h.Name, N: 1, URL: e.URL}))
	}
	return false, nil
}

// probeDue reports whether the host is to be asked for a page that cannot exist, once a cycle.
func (f *fetching) probeDue(h *Host, ru *rules) bool {
	return f.parts.Settings.Page.Probe && !h.memory.probed && h.Front.Len() >= probeFrom && ru.Allowed(f.parts.Manners.Agent, probePath())
}

// probe uses a turn to ask for a page that cannot exist.
func (f *fetching) probe(ctx context.Context, t *turn, ru *rules) {
	h := t.host
	t.out.More = true
	url := ru.scheme + "://" + h.Name + probePath()
	resp, err := f.pipe.requests.get(ctx, t, fetch.Request{URL: url, Addr: h.address(), MaxBody: probeSize})
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
	f.parts.Manners.Admission.Spend(resp.ResponseBytes)
	if err := f.parts.Records.Journal.Add(exchange(url, resp)); err != nil {
		f.pipe.fail(t, err)
		return
	}
	h.memory.missing = f.pipe.judge.missing(resp, url)
}

// requests makes the requests of turns.
type requests struct {
	parts    *Parts
	watchdog *watchdog
}

// get fetches for a turn. If the lease is over, or ends before the answer is there, the error's
// kind is fetch.Over: the page stays the next one. A fetch that the watchdog cancelled has failed
// for want of progress. A fetch whose turn was taken off the worker is cancelled.
func (r *requests) get(ctx context.Context, t *turn, req fetch.Request) (resp *fetch.Response, err error) {
	req.Progress, req.Allowed = t.watch.progress, r.parts.Manners.Lease.MayVisit
	ctx, cancel := r.parts.Manners.Lease.Bound(ctx)
	defer cancel()
	if t.run != nil {
		resp, err = t.run.Get(ctx, req)
	} else {
		resp, err = r.parts.Source.Get(ctx, req)
	}
	if !r.watchdog.has(t.watch) {
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
// while the host has another one. The host then moves in its next turn, an interval later, and has
// not failed.
func (r *requests) elsewhere(ctx context.Context, t *turn, err error) bool {
	if fetch.KindOf(err) != fetch.Connect {
		return false
	}
	p := &t.host.place
	p.dead = append(p.dead, t.addr)
	to, err := r.parts.Fetcher.ResolveAgain(ctx, t.name, t.addr, p.dead...)
	if err != nil || len(p.dead) >= mostDead || slices.Contains(p.dead, to.Addr()) {
		p.dead = nil // one may answer again
		return false
	}
	p.silent, t.out.More = true, true
	return true
}
