package robotd

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/extract"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// probeLater takes the manager's question how far hosts are. What comes while one is
// being measured is not kept: the manager asks again.
func (r *Robot) probeLater(asks []wire.ProbeAsk) {
	select {
	case r.asks <- asks:
	default:
	}
}

// measureDistances measures what the manager asks for, host after host, until ctx ends.
func (r *Robot) measureDistances(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case asks := <-r.asks:
			for _, ask := range asks {
				result, ok := r.measure(ctx, ask)
				if !ok {
					break // not now; the manager asks again
				}
				host := weburl.Host(ask.URL)
				r.progress.measured(host, result)
				if err := r.journal.Comment("distance of %s: %d files, %d bytes, %d ms %s", host, result.Files, result.Bytes, result.MS, result.Failed); err != nil {
					return err
				}
			}
		}
	}
}

// measure fetches files of a host that is another robot's, only to know how quickly they come
// (paper 001, 4.2.5). It is as polite as the crawl: within the window, one file an
// interval, as robots.txt says, and at no address that this robot visits anyway. Nothing
// is stored. It reports false where it had to stop.
func (r *Robot) measure(ctx context.Context, ask wire.ProbeAsk) (result wire.ProbeResult, ok bool) {
	failed := func(why string) (wire.ProbeResult, bool) { return wire.ProbeResult{Failed: why}, true }
	host := weburl.Host(ask.URL)
	addr, err := r.fetcher.Resolve(ctx, host)
	switch {
	case ctx.Err() != nil:
		return result, false
	case err != nil:
		return failed(err.Error())
	case r.visits(addr.Addr()):
		return failed("this robot has hosts at that address")
	}
	get := func(url string) (*fetch.Response, error) {
		return r.fetcher.Get(ctx, fetch.Request{URL: url, Addr: addr})
	}
	scheme, _, _ := strings.Cut(ask.URL, "://")
	rules, why := r.rulesAt(get, scheme+"://"+host+"/robots.txt")
	if rules == nil {
		return failed(why)
	}
	rest := max(r.cfg.Interval, rules.CrawlDelay(r.cfg.UserAgent(Version)))
	queue, seen := []string{ask.URL}, map[string]bool{ask.URL: true}
	for len(queue) > 0 && result.Files < min(ask.Files, wire.MaxProbeFiles) {
		url := queue[0]
		queue = queue[1:]
		if !rules.Allowed(r.cfg.UserAgent(Version), pathQuery(url)) {
			continue
		}
		if sleep(ctx, rest) != nil || !r.mayVisit(time.Now()) {
			return result, false
		}
		resp, err := get(url)
		if err != nil {
			result.Failed = err.Error()
			return result, ctx.Err() == nil
		}
		r.spend(resp.ResponseBytes)
		result.Files, result.Bytes, result.MS = result.Files+1, result.Bytes+resp.ResponseBytes, result.MS+resp.Took.Milliseconds()
		if overloaded(resp.Status) {
			result.Failed = http.StatusText(resp.Status)
			queue = nil
		}
		for _, link := range linksOf(url, resp) {
			if weburl.Host(link) == host && !seen[link] && len(seen) < 1000 {
				seen[link] = true
				queue = append(queue, link)
			}
		}
		if err := resp.Close(); err != nil {
			result.Failed = err.Error()
			return result, true
		}
	}
	return result, true
}

// rulesAt fetches a robots.txt; nil rules mean that the host is to be left alone, and why.
func (r *Robot) rulesAt(get func(string) (*fetch.Response, error), url string) (*polite.Robots, string) {
	var status int
	var body []byte
	resp, err := get(url)
	if err == nil {
		defer resp.Close()
		r.spend(resp.ResponseBytes)
		status = resp.Status
		body, err = resp.Bytes(polite.MaxRobots + 1)
	}
	if status/100 == 3 {
		return nil, "robots.txt is elsewhere"
	}
	v := polite.FromResponse(status, body, err)
	if v.NotNow() {
		return nil, v.Why
	}
	return v.Rules, ""
}

// linksOf gives where an answer leads.
func linksOf(url string, resp *fetch.Response) []string {
	if to, err := weburl.Parse(url, resp.Header.Get("Location"), nil); err == nil && resp.Status/100 == 3 {
		return []string{weburl.Canonical(to)}
	}
	body, err := resp.Bytes(extract.MaxBytes)
	if err != nil {
		return nil
	}
	page, err := extract.LinksAndText(body, resp.Header.Get("Content-Type"), url, 0)
	if err != nil {
		return nil
	}
	var links []string
	for _, l := range page.Links {
		links = append(links, weburl.Canonical(l.URL))
	}
	return links
}

// visits reports whether the crawl goes to the address.
func (r *Robot) visits(addr netip.Addr) bool {
	r.mu.Lock()
	c := r.crawl
	r.mu.Unlock()
	if c == nil {
		return false
	}
	for _, h := range c.all() {
		if at := h.addr.Load(); at != nil && at.Addr() == addr {
			return true
		}
	}
	return false
}

// mayVisit reports whether visits are allowed now.
func (r *Robot) mayVisit(now time.Time) bool {
	from, _ := r.opening(now)
	return !from.After(now)
}
