package crawl

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/internal/page"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
)

// maxRedirects is how many redirects in a row are followed.
const maxRedirects = 10

// maxPath is how long path and query of a link that is followed may be, in bytes.
const maxPath = 2048

// NotRecorded is the reason for links beyond page.MaxRecorded: the archive lacks them, but they are
// followed.
const NotRecorded = "not_recorded"

// extract finds out what the answer of a turn is, which preferences it states, and what it links
// to.
func (t *turn) extract() {
	t.links = links{crawl: t.crawl, host: t.host, page: t.entry.URL}
	if t.err != nil {
		return
	}
	var body []byte
	if t.resp.IsPage() {
		body, _ = t.resp.Bytes(preference.Searched) // a body that cannot be read fails later
	}
	t.preferences = preference.Of(t.entry.URL, t.resp.HTTP, body)
	switch location := t.resp.Header.Get("Location"); {
	case t.resp.Status/100 == 3 && location != "":
		if to, err := weburl.Parse(t.entry.URL, location, nil); err == nil {
			t.redirect(to)
		}
	case t.resp.IsPage():
		t.page()
	case t.resp.Status != http.StatusNotModified && t.resp.Status != http.StatusNotFound && t.resp.Status != http.StatusGone:
		// It may turn the robot away, or name its terms.
		if t.mark = page.Terms(t.resp.Status, t.resp.Header); t.mark != page.None {
			return
		}
		if p, look := read(t.resp, t.entry.URL); p != nil {
			t.mark, _ = page.Judge(look)
		}
	}
}

// page finds a page's links, unless the answer is something else in place of a page: a refusal, a
// parked domain, an error page with status 200.
func (t *turn) page() {
	c, h := t.crawl, t.host
	body, err := t.resp.Bytes(page.MaxBytes + 1) // one more shows that there is more
	if err != nil {
		t.err = err
		return
	}
	p, err := t.resp.Search(body, t.entry.URL, t.text())
	if err != nil {
		return // no link can be resolved against the URL
	}
	asked := preference.ReadTag(t.resp.Header.Values("X-Robots-Tag"), c.parts.Manners.Agent)
	t.noArchive = p.Robots.NoArchive || asked.NoArchive
	t.noIndex = p.Robots.NoIndex || asked.NoIndex
	for why, n := range p.Cut {
		t.links.cut(t.name, why, t.entry.URL, n)
	}
	found := slices.Concat(page.HeaderLinks(t.resp.Header, t.entry.URL), p.Links)
	t.links.refer(found...)
	look := asJudged(t.resp, p, body)
	if p.HTML || body == nil {
		t.mark, _ = page.Judge(look)
	}
	if t.mark == page.None && p.HTML && !look.More && t.compares() && h.memory.missing.sketch.Like(c.parts.Sketcher.Sketch(look, t.entry.URL)) {
		t.mark = page.Missing
	}
	if t.mark != page.None || p.Robots.NoFollow || asked.NoFollow {
		return
	}
	h.memory.calendars.Saw(weburl.PathQuery(t.entry.URL), t.entry.Depth, p)
	h.memory.circles.Saw(t.entry.URL, p)
	for i := range found {
		t.links.followLink(&found[i], t.entry.Depth+1)
	}
}

// redirect follows a redirect. It marks a redirect to the URL to which the host sends requests for
// pages that cannot exist.
func (t *turn) redirect(to string) {
	if m := t.host.memory.missing; m != nil && t.entry.Depth > 0 && m.to != "" && weburl.Canonical(to) == m.to {
		t.mark = page.Missing
	}
	t.links.refer(page.Link{URL: to, Tag: "redirect"})
	if t.entry.Redirects >= maxRedirects {
		t.links.cut(t.name, "redirects", to, 1)
		return
	}
	t.links.follow(to, frontier.Entry{Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1})
	// A host that gives nothing without a session redirects to the same URL with a session.
	if weburl.Canonical(to) == t.entry.URL && to != t.entry.URL {
		t.links.queued = append(t.links.queued, link{t.host, frontier.Entry{URL: to, Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1}})
	}
}

// Bounds of the request for a page that cannot exist.
const (
	probeFrom = 5       // a host with fewer known URLs is not asked
	probeSize = 1 << 20 // bytes of the answer that are read
	judged    = 1 << 16 // bytes of markup in which signs are looked for
)

// probePath returns a path that no host has.
func probePath() string {
	name := make([]byte, 20)
	for i := range name {
		name[i] = 'a' + byte(rand.IntN(26))
	}
	return "/" + string(name) + ".html"
}

// missing returns what the answer to a request for a page that cannot exist looks like; nil: the
// answer says that there is no such page, or cannot be compared.
func (t *turn) missing(resp *fetch.Response, url string) *missing {
	if resp.Status/100 == 3 {
		if to, err := weburl.Parse(url, resp.Header.Get("Location"), nil); err == nil {
			return &missing{to: weburl.Canonical(to)}
		}
		return nil
	}
	if !resp.IsPage() {
		return nil
	}
	if p, v := read(resp, url); p != nil && p.HTML && !v.More {
		return &missing{sketch: t.crawl.parts.Sketcher.Sketch(v, url)}
	}
	return nil
}

// read parses an answer to judge it; nil: that is not possible.
func read(resp *fetch.Response, url string) (*page.Page, *page.Look) {
	body, err := resp.Bytes(probeSize)
	if err != nil {
		return nil, nil
	}
	p, err := page.Links(body, media.ContentType(resp.Header), url)
	if err != nil {
		return nil, nil
	}
	return p, asJudged(resp, p, body)
}

func asJudged(resp *fetch.Response, p *page.Page, body []byte) *page.Look {
	return &page.Look{
		Status: resp.Status, Header: resp.Header, Title: p.Title, Text: p.Text,
		More: p.MoreText || p.More || resp.Truncated != "", Body: body[:min(len(body), judged)],
	}
}

// links are the links of a page, sorted by what becomes of them.
type links struct {
	crawl *Crawl
	host  *Host  // of the page
	page  string // its URL; empty: what its host has shown of circles does not matter

	queued     []link              // to hosts of the crawl
	resting    []frontier.Entry    // of a short crawl: to assigned hosts that are not in it
	found      []foreign           // to hosts outside the assignment
	foundHosts map[string]bool     // of found
	others     []frontier.Entry    // to URLs of other robots' shares
	cuts       []batch.Uncollected // those that are not followed
	recorded   []archive.Link      // all, as the archive keeps them
}

// link is a URL to be queued, and its host.
type link struct {
	host *Host
	frontier.Entry
}

// foreign is a link to a host outside the assignment.
type foreign struct {
	host, top string
	page      string // "" if the link is to the top page, or no robot would follow it
}

// cut counts n links to a host that are not followed, and why. url is one of the links, or the page
// on which they stand.
func (l *links) cut(host, reason, url string, n int) {
	for i := range l.cuts {
		if e := &l.cuts[i]; e.Host == host && e.Reason == reason {
			e.N += int64(n)
			return
		}
	}
	l.cuts = append(l.cuts, batch.Uncollected{Kind: batch.KindCut, Reason: reason, Host: host, N: int64(n), URL: url})
}

// refer notes the links of a page for the archive, whether they are followed or not. The links
// beyond page.MaxRecorded are only counted.
func (l *links) refer(all ...page.Link) {
	if !l.crawl.parts.Settings.Links.Record {
		return
	}
	for i, link := range all {
		if len(l.recorded) >= page.MaxRecorded {
			l.cut(l.host.Name, NotRecorded, l.page, len(all)-i)
			return
		}
		l.recorded = append(l.recorded, archive.Link{URL: link.URL, Kind: link.Kind(), Rel: link.Rel, Anchor: link.Anchor})
	}
}

// followLink sorts a link of a page, unless the settings forbid to follow it.
func (l *links) followLink(to *page.Link, depth int) {
	if set := &l.crawl.parts.Settings.Page; to.NoFollow && set.ObeyRelLink || to.Tag == "form" && !set.Forms {
		return
	}
	l.follow(to.URL, frontier.Entry{Depth: depth})
}

// maxFoundHosts is how many unassigned hosts the robot reports because of one page, at most. So a
// page of links to invented names does not fill the manager's list.
const maxFoundHosts = 100

// follow sorts a link by its host: in the crawl, resting, or outside the assignment.
func (l *links) follow(url string, e frontier.Entry) {
	u, err := weburl.New(url, nil)
	if err != nil || u.Host() == "" || u.Scheme() != "http" && u.Scheme() != "https" {
		return
	}
	name := u.Host()
	to := l.host
	if name != to.Name {
		to = l.crawl.host(name)
	}
	if to != nil {
		e.URL = u.Canonical()
		l.queueAt(to, e)
		return
	}
	if l.crawl.resting[name] != nil {
		e.URL = u.Canonical()
		l.resting = append(l.resting, e)
		return
	}
	// The manager would refuse a report of a name that cannot be a host's.
	top, host, err := wire.NormalizeURL(u.Scheme() + "://" + name + "/")
	if err != nil {
		l.cut(l.host.Name, "host_name", url, 1)
		return
	}
	if !l.foundHosts[host] && len(l.foundHosts) == maxFoundHosts {
		l.cut(l.host.Name, "page_hosts", url, 1)
		return
	}
	if l.foundHosts == nil {
		l.foundHosts = make(map[string]bool)
	}
	l.foundHosts[host] = true
	found := foreign{host: host, top: top}
	if page, _, err := wire.NormalizeURL(u.Canonical()); err == nil && page != top && mayFollow(page) == "" {
		found.page = page
	}
	l.found = append(l.found, found)
}

// mayFollow returns why no robot would follow a link, whatever its host; "": robots may.
func mayFollow(url string) (why string) {
	path := weburl.PathQuery(url)
	if len(path) > maxPath {
		return "length"
	}
	return page.Trap(path, time.Now())
}

// queueAt notes a link to a host of the crawl, or why it is not followed.
func (l *links) queueAt(to *Host, e frontier.Entry) {
	why := ""
	switch {
	case e.Depth > l.crawl.parts.Settings.Page.MaxDepth:
		why = "depth"
	case to == l.host && to.memory.calendars.Endless(weburl.PathQuery(e.URL), e.Depth):
		why = page.Calendar
	default:
		why = mayFollow(e.URL)
	}
	if why == "" && to == l.host && to.memory.circles.Endless(weburl.PathQuery(l.page), weburl.PathQuery(e.URL)) {
		why = page.Repeats
	}
	share := to.Share()
	switch {
	case why != "":
		l.cut(to.Name, why, e.URL, 1)
	case !share.Has(e.URL):
		l.others = append(l.others, e)
	default:
		l.queued = append(l.queued, link{to, e})
	}
}
