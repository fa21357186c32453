package crawl

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
)

// maxRulesHops is how many redirects may lead to a robots.txt (RFC 9309, 2.3.1.2).
const maxRulesHops = 5

// robots gets the robots.txt of hosts.
type robots struct {
	parts *Parts
	pipe  *Pipeline
}

// of returns the rules of a host's scheme: those of an earlier run if they are still fresh.
func (r *robots) of(t *turn, scheme string) *rules {
	h := t.host
	for _, ru := range h.memory.rules {
		if ru.scheme == scheme {
			return ru
		}
	}
	ru := &rules{scheme: scheme}
	h.memory.rules = append(h.memory.rules, ru)
	if text, until, ok := r.parts.Manners.Rules.Load(scheme, h.Name); ok {
		read := preference.ParseRobots(text)
		ru.Robots, ru.until = r.parts.Manners.Shared.Share(read), until
		r.pushSitemaps(t, ru, read)
	}
	return ru
}

// fetch makes one access on the way to a host's robots.txt. A redirect is followed in the next
// turn. If it leads to another address, the host moves to that address for a turn, so that the
// interval holds there too.
func (r *robots) fetch(ctx context.Context, t *turn, ru *rules) {
	h := t.host
	if ru.way == nil {
		ru.way = &rulesWay{at: ru.scheme + "://" + h.Name + "/robots.txt", addr: h.address()}
	}
	way := ru.way
	t.out.More = true
	if t.addr != way.addr.Addr() { // a new link has put the host back at its own address
		r.parts.Manners.Gate.Add(way.addr.Addr(), h.Name)
		return
	}
	resp, err := r.pipe.requests.get(ctx, t, fetch.Request{
		URL: way.at, Addr: netip.AddrPortFrom(t.addr, way.addr.Port()), MaxBody: preference.MaxRobots + 1,
	})
	if kind := fetch.KindOf(err); kind == fetch.Canceled || kind == fetch.Over {
		return
	}
	if r.elsewhere(ctx, t, ru, err) {
		return
	}
	verdict := RobotsVerdict(resp, err)
	status, notBefore := 0, time.Time{}
	if err == nil {
		defer resp.Close()
		t.out.Rest, t.out.Wait = resp.Took, resp.Wait
		r.parts.Manners.Admission.Spend(resp.ResponseBytes)
		status, notBefore = resp.Status, retryAfter(resp.Header)
		if err := errors.Join(r.parts.Records.Journal.Add(exchange(way.at, resp)), r.store(h, way, resp, verdict)); err != nil {
			r.pipe.fail(t, err)
			return
		}
		if status/100 == 3 && way.hops < maxRulesHops {
			again, failed := r.redirect(ctx, h, way, resp.Header.Get("Location"))
			if again {
				return
			}
			if failed != nil {
				err, verdict = failed, polite.FromResponse(0, nil, failed)
			}
		}
	}
	if err != nil || weburl.Host(way.at) == t.name {
		h.visited(status, err)
	}
	ru.way = nil
	r.pipe.hosts.Wake(h) // at home, if redirects led away
	r.take(t, ru, verdict, func() time.Time {
		h.place.silent = err != nil
		return r.pipe.patience.backOff(h, status, notBefore)
	})
}

// RobotsVerdict returns what follows from the answer to a request for a robots.txt, or from the
// error in its place. Of a file that did not come whole nothing follows (RFC 9309, 2.3.1.4).
func RobotsVerdict(resp *fetch.Response, err error) polite.Verdict {
	status, body := 0, []byte(nil)
	if err == nil {
		status = resp.Status
		if status/100 == 2 || status/100 == 3 && resp.Header.Get("Location") == "" {
			body, err = resp.Whole(preference.MaxRobots + 1)
		}
	}
	return polite.FromResponse(status, body, err)
}

// elsewhere is requests.elsewhere on the way to a robots.txt. If another host has the file, the
// next access is to another address of that host, an interval later.
func (r *robots) elsewhere(ctx context.Context, t *turn, ru *rules, err error) bool {
	way := ru.way
	name := weburl.Host(way.at)
	if name == t.name {
		if !r.pipe.requests.elsewhere(ctx, t, err) {
			return false
		}
		ru.way = nil
		r.pipe.hosts.Wake(t.host)
		return true
	}
	if fetch.KindOf(err) != fetch.Connect {
		return false
	}
	way.dead = append(way.dead, t.addr)
	addr, err := r.parts.Fetcher.ResolveAgain(ctx, name, netip.Addr{}, way.dead...)
	if err != nil || len(way.dead) >= mostDead || slices.Contains(way.dead, addr.Addr()) {
		return false
	}
	way.addr = addr
	return true
}

// store adds the host's answer to a request for its robots.txt to the host's segment, also an
// answer that there is none, or that redirects. It is stored in full each time: a revisit would
// hardly be shorter. An answer that says nothing is not stored, since it is asked for again.
func (r *robots) store(h *Host, way *rulesWay, resp *fetch.Response, verdict polite.Verdict) error {
	again := verdict.NotNow() || resp.Status/100 == 3 && way.hops > 0
	if again || weburl.Host(way.at) != h.Name {
		return nil
	}
	url := way.at
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil
	}
	rec := answer(resp, url)
	rec.Preferences = preference.Of(url, resp.HTTP, verdict.Text)
	if resp.IsPage() {
		rec.Kind, rec.PayloadDigest = archive.Page, resp.Digest
	}
	all := resp.Body()
	defer all.Close()
	rec.Body = all
	h.dirty.Store(true)
	err := r.parts.Records.Batches.Append(h.Name, rec, func(cell batch.Cell) error {
		return h.Front.Beside(url, frontier.Done{Segment: cell.Segment, End: cell.End})
	})
	if errors.Is(err, archive.ErrRefused) {
		return r.parts.Records.Journal.Comment("not archived: %v", err)
	}
	return err
}

// take applies the verdict on a robots.txt to its host. backOff returns when to try again.
func (r *robots) take(t *turn, ru *rules, verdict polite.Verdict, backOff func() time.Time) {
	h := t.host
	if verdict.NotNow() {
		r.parts.Log.Info("host must wait", "host", h.Name, "reason", verdict.Why)
		t.out.Trouble = true
		t.out.NotBefore = backOff()
		return
	}
	h.recovered()
	ru.Robots, ru.until = r.parts.Manners.Shared.Share(verdict.Rules), time.Now().Add(r.parts.Settings.Page.Rules)
	if err := r.parts.Manners.Rules.Save(ru.scheme, h.Name, verdict.Text, ru.until); err != nil {
		r.pipe.fail(t, err)
		return
	}
	t.out.Delay = ru.CrawlDelay(r.parts.Manners.Agent)
	r.pushSitemaps(t, ru, verdict.Rules)
}

// redirect prepares the next access, and reports whether there is to be one. If the target's
// address is unknown, the error is like that of a server that cannot be reached.
func (r *robots) redirect(ctx context.Context, h *Host, way *rulesWay, location string) (bool, error) {
	to, err := weburl.Parse(way.at, location, nil)
	if err != nil || weburl.Host(to) == "" || location == "" {
		return false, nil
	}
	name := weburl.Host(to)
	var had netip.Addr
	var dead []netip.Addr
	if name == h.Name {
		had, dead = h.Home(), h.place.dead
	}
	addr, err := r.parts.Fetcher.ResolveAgain(ctx, name, had, dead...)
	if err != nil {
		return false, err
	}
	*way = rulesWay{at: to, addr: addr, hops: way.hops + 1}
	r.parts.Manners.Gate.Add(addr.Addr(), h.Name)
	return true, nil
}

// pushSitemaps queues the sitemaps that a robots.txt names, by URL or by path.
func (r *robots) pushSitemaps(t *turn, ru *rules, read *preference.Robots) {
	h := t.host
	var entries []frontier.Entry
	for _, sitemap := range read.Sitemaps {
		if url, err := weburl.Parse(ru.scheme+"://"+h.Name+"/robots.txt", sitemap, nil); err == nil && weburl.Host(url) == h.Name {
			entries = append(entries, frontier.Entry{URL: weburl.Canonical(url)})
		}
	}
	if len(entries) == 0 {
		return
	}
	putOff, err := frontier.PushNow(h.Front, entries...)
	h.Later.Store(max(0, h.Later.Load()-int64(putOff))) // a crawl within a cycle does not know what was put off
	if err != nil {
		r.pipe.fail(t, err)
	}
}
