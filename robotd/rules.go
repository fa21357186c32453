package robotd

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"sheaf/internal/weburl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/upload"
)

// rules is what the robots.txt of one of a host's schemes says, and how far its
// fetching has come. A file speaks for its scheme and port only (RFC 9309, 2.3).
type rules struct {
	*polite.Robots           // nil: not known
	scheme         string    // "http" or "https"
	until          time.Time // when it must be fetched again
	way            *rulesWay // nil: it is not being fetched
}

// rulesWay is how far the fetching of a robots.txt has come, whose redirects are followed.
type rulesWay struct {
	at   string         // URL to fetch it from next
	addr netip.AddrPort // where that URL lives
	hops int
}

// maxRulesHops is how many redirects lead to a robots.txt (RFC 9309, 2.3.1.2).
const maxRulesHops = 5

func (ru *rules) fresh(now time.Time) bool { return ru.Robots != nil && now.Before(ru.until) }

// rulesFor returns the scheme's rules, those kept by an earlier run if they are young.
func (c *crawl) rulesFor(h *host, scheme string) *rules {
	for _, ru := range h.rules {
		if ru.scheme == scheme {
			return ru
		}
	}
	ru := &rules{scheme: scheme}
	h.rules = append(h.rules, ru)
	if text, until, ok := c.robots.Load(scheme, h.name); ok && c.cfg.Page.Rules > 0 {
		read := polite.Parse(text)
		ru.Robots, ru.until = c.shared.Share(read), until
		c.pushSitemaps(h, read)
	}
	return ru
}

// fetchRules does one access on the way to the host's robots.txt. A redirect is
// followed with the next turn; one that leads to another address takes the host
// there for a turn, so that the interval holds for that address too.
func (c *crawl) fetchRules(ctx context.Context, t *turn, ru *rules) {
	h := t.host
	if ru.way == nil {
		ru.way = &rulesWay{at: ru.scheme + "://" + h.name + "/robots.txt", addr: h.address()}
	}
	way := ru.way
	t.out.More = true
	if t.addr != way.addr.Addr() { // a link to the host called it home on the way
		c.gate.Add(way.addr.Addr(), h.name)
		return
	}
	resp, err := c.get(ctx, t, fetch.Request{
		URL: way.at, Addr: netip.AddrPortFrom(t.addr, way.addr.Port()), MaxBody: polite.MaxRobots + 1,
	})
	if fetch.KindOf(err) == fetch.Canceled {
		return
	}
	status, body := 0, []byte(nil)
	notBefore := time.Time{}
	if err == nil {
		defer resp.Close()
		t.out.Rest, t.out.Wait = resp.Took, resp.Wait
		c.spend(resp.ResponseBytes)
		status = resp.Status
		notBefore = retryAfter(resp.Header)
		body, err = resp.Bytes(polite.MaxRobots + 1)
		if err := c.journal.Add(exchange(way.at, resp)); err != nil {
			c.fail(h, err)
			return
		}
		if status/100 == 3 && way.hops < maxRulesHops {
			again, failed := c.redirectRules(ctx, h, way, resp.Header.Get("Location"))
			if again {
				return
			}
			err = errors.Join(err, failed)
		}
	}
	verdict := polite.FromResponse(status, body, err)
	ru.way = nil
	c.wake(h) // home, where redirects led away
	if !verdict.NotNow() {
		h.recovered()
		ru.Robots, ru.until = c.shared.Share(verdict.Rules), time.Now().Add(c.cfg.Page.Rules)
		if err := c.robots.Save(ru.scheme, h.name, verdict.Text, ru.until); err != nil {
			c.fail(h, err)
			return
		}
		t.out.Delay = ru.CrawlDelay(c.cfg.UserAgent(Version))
		c.pushSitemaps(h, verdict.Rules)
		return
	}
	c.log.Info("host must wait", "host", h.name, "why", verdict.Why)
	h.lost = err != nil
	t.out.Trouble = true
	t.out.NotBefore = c.backOff(h, status, notBefore)
}

// redirectRules prepares the next access; it reports whether there is to be one. A
// target whose address nobody can tell is an error as a server that cannot be reached is.
func (c *crawl) redirectRules(ctx context.Context, h *host, way *rulesWay, location string) (bool, error) {
	to, err := weburl.Parse(way.at, location, nil)
	if err != nil || weburl.Host(to) == "" || location == "" {
		return false, nil
	}
	addr, err := c.fetcher.Resolve(ctx, weburl.Host(to))
	if err != nil {
		return false, err
	}
	*way = rulesWay{at: to, addr: addr, hops: way.hops + 1}
	c.gate.Add(addr.Addr(), h.name)
	return true, nil
}

func (c *crawl) pushSitemaps(h *host, read *polite.Robots) {
	for _, sitemap := range read.Sitemaps {
		if url, err := weburl.Parse("", sitemap, nil); err == nil && weburl.Host(url) == h.name {
			if _, err := h.front.Push(frontier.Entry{URL: weburl.Canonical(url)}); err != nil {
				c.fail(h, err)
			}
		}
	}
}

// overloaded tells answers that ask for fewer visits.
func overloaded(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// maxRetryAfter bounds what a Retry-After may ask for: it slows a host and never loses it.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns when an answer allows the next visit; zero where it does not say.
func retryAfter(header http.Header) time.Time {
	now := time.Now()
	if wait := upload.RetryAfter(header, now); wait > 0 {
		return now.Add(min(wait, maxRetryAfter))
	}
	return time.Time{}
}

// resting ends a turn that came at a time at which the host is not to be visited: by
// the operator's setting, or by its robots.txt.
func (c *crawl) resting(t *turn) bool {
	now := time.Now()
	at, why := now, ""
	if s := t.host.quiet; s != nil && s.Open(now) {
		why = "not_between"
		if at = s.Until(now); at.IsZero() { // for good
			at = now.Add(maxRetryAfter)
		}
	}
	for _, ru := range t.host.rules {
		if ru.Robots == nil {
			continue
		}
		if next := ru.VisitAt(c.cfg.UserAgent(Version), now); next.After(at) {
			at, why = next, "robots.txt's hours"
		}
	}
	if !at.After(now) {
		return false
	}
	t.out.NotBefore, t.out.More = at, true
	t.host.waits.Store(&why)
	return true
}

// moved asks for the host's address again where that is due, or where nothing
// answered at the last visit. It reports whether the host lives elsewhere now; its
// turn then comes there.
func (c *crawl) moved(ctx context.Context, t *turn) bool {
	h := t.host
	if t.addr != h.home() { // on the way to a robots.txt elsewhere
		return false
	}
	if !h.lost && time.Since(h.located) < c.cfg.Network.Relearn {
		return false
	}
	addr, err := c.fetcher.ResolveAgain(ctx, h.name, h.home())
	if err != nil {
		h.located = time.Now() // the old address may still serve
		return false
	}
	h.locate(addr)
	if addr.Addr() == t.addr {
		return false
	}
	c.log.Info("host has moved", "host", h.name, "from", t.addr, "to", addr.Addr())
	for _, ru := range h.rules {
		ru.way = nil // an access on the way begins anew
	}
	c.gate.Add(addr.Addr(), h.name)
	t.out.More = true
	return true
}
