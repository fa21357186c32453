package robotd

import (
	"net/http"
	"slices"
	"time"

	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/extract"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/trap"
	"sheaf/robotd/verdict"
)

// link is a URL that is to be queued, and whose it is.
type link struct {
	host *host
	frontier.Entry
}

const maxRedirects = 10

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
		if err == nil && t.entry.Redirects >= maxRedirects {
			t.lose(t.name, "redirects", to)
		}
		if err == nil && t.entry.Redirects < maxRedirects {
			c.follow(t, to, frontier.Entry{Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1})
			// A host that gives nothing without a session sends the visitor back with one.
			if weburl.Canonical(to) == t.entry.URL && to != t.entry.URL {
				t.links = append(t.links, link{t.host, frontier.Entry{URL: to, Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1}})
			}
		}
	case isPage(t.resp.Status):
		body, err := t.resp.Bytes(extract.MaxBytes + 1) // by the last one it shows that there is more
		if err != nil {
			t.err = err
			return
		}
		p, err := t.search(body)
		if err != nil {
			return // the URL is one that no link can be resolved against
		}
		asked := polite.RobotsTag(t.resp.Header.Values("X-Robots-Tag"), c.cfg.UserAgent(Version))
		t.noArchive = p.Robots.NoArchive || asked.NoArchive
		t.noIndex = p.Robots.NoIndex || asked.NoIndex
		for why, n := range p.Cut {
			t.loseMany(t.name, why, t.entry.URL, n)
		}
		links := slices.Concat(extract.HeaderLinks(t.resp.Header, t.entry.URL), p.Links)
		c.refer(t, links...)
		if c.judge(t, p, body) {
			return
		}
		if p.Robots.NoFollow || asked.NoFollow {
			return
		}
		t.host.calendars.Saw(pathQuery(t.entry.URL), p.Text)
		for _, l := range links {
			if c.wanted(&l) {
				c.follow(t, l.URL, frontier.Entry{Depth: t.entry.Depth + 1})
			}
		}
	default:
		c.judgeRefusal(t)
	}
}

// search finds what the page in hand says and links to; body is its beginning.
func (t *turn) search(body []byte) (*extract.Page, error) {
	contentType := t.resp.Header.Get("Content-Type")
	if len(body) > extract.MaxBytes && extract.Streams(body, contentType) {
		all := t.resp.Body()
		defer all.Close()
		return extract.Stream(all, contentType, t.entry.URL)
	}
	text := verdict.Enough
	if t.mayBeMissing() {
		text = extract.MaxText
	}
	return extract.LinksAndText(body, contentType, t.entry.URL, text)
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
	if to == nil && c.others[name] != nil { // it is visited in the next cycle
		t.resting = append(t.resting, link{Entry: frontier.Entry{URL: u.Canonical(), Depth: e.Depth, Redirects: e.Redirects}})
		return
	}
	if to == nil {
		// The manager would refuse a report with a name that cannot be one.
		if top, _, err := wire.NormalizeURL(u.Scheme() + "://" + name + "/"); err == nil {
			t.found = append(t.found, top)
		} else {
			t.lose(t.name, "host_name", url)
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
		why := trap.Check(pathQuery(e.URL), time.Now())
		if to == t.host && to.calendars.Endless(pathQuery(e.URL)) {
			why = trap.Calendar
		}
		if why != "" {
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
	for _, l := range t.resting {
		front, err := c.frontier.Host(weburl.Host(l.URL))
		if err == nil {
			_, err = front.Push(l.Entry)
		}
		if err != nil {
			return err
		}
	}
	for _, top := range t.found {
		if err := c.Robot.found.Add(wire.HostLine{URL: top}); err != nil {
			return err
		}
	}
	for _, e := range t.others {
		if err := c.found.Elsewhere(e); err != nil {
			return err
		}
	}
	return nil
}
