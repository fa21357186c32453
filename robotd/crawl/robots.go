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
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
)

// maxRulesHops is how many redirects may lead to a robots.txt (RFC 9309, 2.3.1.2).
const maxRulesHops = 5

// rulesOf returns the rules of a host's scheme. At first these are the stored rules, if they are
// still fresh.
func (t *turn) rulesOf(scheme string) *rules {
	h := t.host
	for _, ru := range h.memory.rules {
		if ru.scheme == scheme {
			return ru
		}
	}
	ru := &rules{scheme: scheme}
	h.memory.rules = append(h.memory.rules, ru)
	if text, until, ok := t.crawl.parts.Manners.Rules.Load(scheme, h.Name); ok {
		read := preference.ParseRobots(text)
		ru.Robots, ru.until = t.crawl.parts.Manners.Shared.Share(read), until
		t.pushSitemaps(ru, read)
	}
	return ru
}

// fetchRules makes one access on the way to a host's robots.txt. A redirect is followed in the next
// turn. If it leads to another address, the host moves to that address for a turn, so that the
// interval holds there too.
func (t *turn) fetchRules(ctx context.Context, ru *rules) {
	h := t.host
	if ru.way == nil {
		ru.way = &rulesWay{at: ru.scheme + "://" + h.Name + "/robots.txt", addr: h.address()}
	}
	way := ru.way
	t.out.More = true
	if t.addr != way.addr.Addr() { // a new link has put the host back at its own address
		t.crawl.parts.Manners.Gate.Add(way.addr.Addr(), h.Name)
		return
	}
	resp, err := t.get(ctx, fetch.Request{
		URL: way.at, Addr: netip.AddrPortFrom(t.addr, way.addr.Port()), MaxBody: preference.MaxRobots + 1,
	})
	if kind := fetch.KindOf(err); kind == fetch.Canceled || kind == fetch.Over {
		return
	}
	if t.rulesElsewhere(ctx, ru, err) {
		return
	}
	verdict := RobotsVerdict(resp, err)
	status, notBefore := 0, time.Time{}
	if err == nil {
		defer resp.Close()
		t.out.Rest, t.out.Wait = resp.Took, resp.Wait
		t.crawl.parts.Manners.Admission.Spend(resp.ResponseBytes)
		status, notBefore = resp.Status, retryAfter(resp.Header)
		if err := errors.Join(t.crawl.parts.Records.Journal.Add(exchange(way.at, resp)), t.storeRules(way, resp, verdict)); err != nil {
			t.fail(err)
			return
		}
		if status/100 == 3 && way.hops < maxRulesHops {
			again, failed := t.redirectRules(ctx, way, resp.Header.Get("Location"))
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
	t.crawl.wake(h) // at home, if redirects led away
	if verdict.NotNow() {
		t.crawl.parts.Log.InfoContext(ctx, "host must wait", "host", h.Name, "reason", verdict.Why)
		t.out.Trouble, h.place.silent = true, err != nil
		t.out.NotBefore = t.backOff(status, notBefore)
		return
	}
	h.recovered()
	t.keepRules(ru, verdict)
}

// RobotsVerdict returns what follows from the answer to a request for a robots.txt, or from the
// error in its place. A file that did not come whole says nothing (RFC 9309, 2.3.1.4).
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

// rulesElsewhere does for a robots.txt what elsewhere does for a page. If another host has the
// file, the next access is to another address of that host, an interval later.
func (t *turn) rulesElsewhere(ctx context.Context, ru *rules, err error) bool {
	way := ru.way
	name := weburl.Host(way.at)
	if name == t.name {
		if !t.elsewhere(ctx, err) {
			return false
		}
		ru.way = nil
		t.crawl.wake(t.host)
		return true
	}
	if fetch.KindOf(err) != fetch.Connect {
		return false
	}
	way.dead = append(way.dead, t.addr)
	addr, err := t.crawl.parts.Fetcher.ResolveAgain(ctx, name, netip.Addr{}, way.dead...)
	if err != nil || len(way.dead) >= mostDead || slices.Contains(way.dead, addr.Addr()) {
		return false
	}
	way.addr = addr
	return true
}

// storeRules adds the host's answer to a request for its robots.txt to the host's segment, also an
// answer that there is no such file, or that redirects. The answer is stored in full each time: a
// revisit would hardly be shorter. An answer that says nothing is not stored, since the robot asks
// again.
func (t *turn) storeRules(way *rulesWay, resp *fetch.Response, verdict polite.Verdict) error {
	again := verdict.NotNow() || resp.Status/100 == 3 && way.hops > 0
	if again || weburl.Host(way.at) != t.name {
		return nil
	}
	url, h := way.at, t.host
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
	cell, noted, err := t.crawl.parts.Records.Batches.Append(h.Name, rec)
	if errors.Is(err, archive.ErrRefused) {
		return t.crawl.parts.Records.Journal.Comment("not archived: %v", err)
	}
	if err != nil {
		return err
	}
	defer noted()
	return h.Front.Beside(url, frontier.Done{Segment: cell.Segment, End: cell.End})
}

// keepRules lets the rules of a robots.txt hold from now on.
func (t *turn) keepRules(ru *rules, verdict polite.Verdict) {
	ru.Robots, ru.until = t.crawl.parts.Manners.Shared.Share(verdict.Rules), time.Now().Add(t.crawl.parts.Settings.Page.Rules)
	if err := t.crawl.parts.Manners.Rules.Save(ru.scheme, t.name, verdict.Text, ru.until); err != nil {
		t.fail(err)
		return
	}
	t.out.Delay = ru.CrawlDelay(t.crawl.parts.Manners.Agent)
	t.pushSitemaps(ru, verdict.Rules)
}

// redirectRules prepares the access to which a redirect leads, and reports whether there is to be
// one. If the target's address is unknown, the error is like that of a server that cannot be
// reached.
func (t *turn) redirectRules(ctx context.Context, way *rulesWay, location string) (bool, error) {
	to, err := weburl.Parse(way.at, location, nil)
	if err != nil || weburl.Host(to) == "" || location == "" {
		return false, nil
	}
	h, name := t.host, weburl.Host(to)
	var had netip.Addr
	var dead []netip.Addr
	if name == h.Name {
		had, dead = h.Home(), h.place.dead
	}
	addr, err := t.crawl.parts.Fetcher.ResolveAgain(ctx, name, had, dead...)
	if err != nil {
		return false, err
	}
	*way = rulesWay{at: to, addr: addr, hops: way.hops + 1}
	t.crawl.parts.Manners.Gate.Add(addr.Addr(), h.Name)
	return true, nil
}

// pushSitemaps queues the host's own sitemaps that its robots.txt names, by URL or by path.
func (t *turn) pushSitemaps(ru *rules, read *preference.Robots) {
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
		t.fail(err)
	}
}
