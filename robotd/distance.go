package robotd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sheaf/internal/loop"
	"sheaf/internal/page"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// probes are an order of the manager to measure hosts.
type probes struct {
	sent polite.Instant // a moment before the manager was asked for them
	asks []wire.ProbeAsk
}

// Probe measures the distance of hosts that other robots collect, at the manager's order (paper
// 001, 4.2.5), until ctx ends: it fetches a few files, only to know how quickly they come. It is as
// polite as a crawl and goes to no address that the crawl visits. Nothing is stored.
func (s *session) Probe(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case order := <-s.asks:
			for _, ask := range order.asks {
				result, ok := s.measureIn(ctx, order.sent, ask)
				if !ok {
					break // not now; the manager asks again
				}
				host := weburl.Host(ask.URL)
				s.progress.measured(host, result)
				err := s.robot.records.Journal.Comment("distance of %s: %d files, %d bytes, %d ms %s", host, result.Files, result.Bytes, result.MS, result.Failed)
				if err := s.robot.manners.Admission.Tolerate(err); err != nil {
					return err
				}
			}
		}
	}
}

// measureIn calls measure, and ends it when the robot no longer has the address for itself. The
// time counts on the clock of leases, which goes on while the machine is stopped. If half of the
// time is over, because the order had to wait, nothing is measured.
func (s *session) measureIn(ctx context.Context, sent polite.Instant, ask wire.ProbeAsk) (result wire.ProbeResult, ok bool) {
	if ask.ForMS == 0 {
		return s.measure(ctx, ask, s.robot.manners.Lease.MayVisit)
	}
	end := sent + polite.Instant(time.Duration(ask.ForMS)*time.Millisecond)
	left := func() time.Duration { return time.Duration(end - polite.Sent()) }
	if left() < time.Duration(ask.ForMS)*time.Millisecond/2 {
		return result, false
	}
	own, cancel := context.WithTimeout(ctx, left())
	defer cancel()
	result, ok = s.measure(own, ask, func() bool { return left() > 0 && s.robot.manners.Lease.MayVisit() })
	if !ok && own.Err() != nil && ctx.Err() == nil {
		return wire.ProbeResult{Failed: "the time for the probe is over"}, true
	}
	return result, ok
}

// measure measures the distance of one host. may is asked before each visit. ok is false if it had
// to stop.
func (s *session) measure(ctx context.Context, ask wire.ProbeAsk, may func() bool) (result wire.ProbeResult, ok bool) {
	failed := func(why string) (wire.ProbeResult, bool) { return wire.ProbeResult{Failed: why}, true }
	host := weburl.Host(ask.URL)
	had, _ := netip.ParseAddr(ask.Address)
	addr, err := s.robot.fetcher.ResolveAgain(ctx, host, had)
	switch {
	case ctx.Err() != nil:
		return result, false
	case err != nil:
		return failed(err.Error())
	case s.visits(addr.Addr()):
		return failed("this robot has hosts at that address")
	case ask.Address != "" && addr.Addr() != had:
		return failed(fmt.Sprintf("the host is at %s here, and other robots leave only %s alone", addr.Addr(), had))
	}
	if !loop.Pause(ctx, s.robot.cfg.Interval) { // another robot may have been there a moment ago
		return result, false
	}
	get := func(url string) (*fetch.Response, error) {
		return s.robot.fetcher.Get(ctx, fetch.Request{URL: url, Addr: addr, Allowed: may})
	}
	scheme, _, _ := strings.Cut(ask.URL, "://")
	rules, why := s.rulesAt(get, scheme+"://"+host+"/robots.txt")
	if rules == nil {
		return failed(why)
	}
	interval := max(s.robot.cfg.Interval, rules.CrawlDelay(s.robot.manners.Agent))
	queue, seen := []string{ask.URL}, map[string]bool{ask.URL: true}
	for len(queue) > 0 && result.Files < min(ask.Files, wire.MaxProbeFiles) {
		url := queue[0]
		queue = queue[1:]
		if !rules.Allowed(s.robot.manners.Agent, weburl.PathQuery(url)) {
			continue
		}
		if !loop.Pause(ctx, interval) || !s.robot.manners.Admission.MayVisit(time.Now()) {
			return result, false
		}
		links, err := s.fetch(get, url, &result)
		if err != nil {
			result.Failed = err.Error()
			return result, ctx.Err() == nil
		}
		for _, link := range links {
			if weburl.Host(link) == host && !seen[link] && len(seen) < 1000 {
				seen[link] = true
				queue = append(queue, link)
			}
		}
	}
	return result, true
}

// fetch fetches one file and adds it to the result. It returns the URLs to which the file leads. An
// answer that the host is overloaded is an error.
func (s *session) fetch(get func(string) (*fetch.Response, error), url string, result *wire.ProbeResult) (links []string, err error) {
	resp, err := get(url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Close()) }()
	s.robot.manners.Admission.Spend(resp.ResponseBytes)
	result.Files, result.Bytes, result.MS = result.Files+1, result.Bytes+resp.ResponseBytes, result.MS+resp.Took.Milliseconds()
	if crawl.Overloaded(resp.Status) {
		return nil, errors.New(http.StatusText(resp.Status))
	}
	return linksOf(url, resp), nil
}

// rulesAt fetches a robots.txt. It returns nil, and why, if the host must not be visited.
func (s *session) rulesAt(get func(string) (*fetch.Response, error), url string) (*preference.Robots, string) {
	resp, err := get(url)
	if err == nil {
		defer resp.Close()
		s.robot.manners.Admission.Spend(resp.ResponseBytes)
		if resp.Status/100 == 3 {
			return nil, "robots.txt is elsewhere"
		}
	}
	v := crawl.RobotsVerdict(resp, err)
	if v.NotNow() {
		return nil, v.Why
	}
	return v.Rules, ""
}

// linksOf returns the URLs to which an answer leads.
func linksOf(url string, resp *fetch.Response) []string {
	if to, err := weburl.Parse(url, resp.Header.Get("Location"), nil); err == nil && resp.Status/100 == 3 {
		return []string{weburl.Canonical(to)}
	}
	body, err := resp.Bytes(page.MaxBytes + 1)
	if err != nil {
		return nil
	}
	found, err := resp.Search(body, url, 0)
	if err != nil {
		return nil
	}
	var links []string
	for _, l := range found.Links {
		links = append(links, weburl.Canonical(l.URL))
	}
	return links
}

// visits reports whether the crawl visits an address.
func (s *session) visits(addr netip.Addr) bool {
	c := s.robot.crawler.Current()
	return c != nil && slices.ContainsFunc(c.Hosts(), func(h *crawl.Host) bool { return h.IsAt(addr) })
}
