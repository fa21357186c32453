package crawl

import (
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
	"sheaf/robotd/page"
)

// maxRedirects is how many redirects in a row are followed.
const maxRedirects = 10

// Limits of links.
const (
	maxPath  = 2048 // bytes of path and query of a link that is followed
	maxLinks = 1000 // of one page in the archive; further ones are only counted
)

// NotRecorded is the reason for links beyond maxLinks: the archive lacks them, but they are
// followed.
const NotRecorded = "not_recorded"

// extracting is the second stage: see extract.
type extracting struct {
	parts *Parts
	pipe  *Pipeline
}

// extract is the second stage: it finds the links of a turn's page, and sorts them.
func (x *extracting) extract(t *turn) {
	if t.err == nil {
		x.preferences(t)
	}
	switch {
	case t.err != nil:
	case t.resp.Status/100 == 3 && t.resp.Header.Get("Location") != "":
		if to, err := weburl.Parse(t.entry.URL, t.resp.Header.Get("Location"), nil); err == nil {
			x.redirect(t, to)
		}
	case t.resp.IsPage():
		x.page(t)
	default:
		x.pipe.judge.refusal(t)
	}
}

// preferences notes what the answer asks of those who use it. A body that cannot be read fails
// later.
func (x *extracting) preferences(t *turn) {
	var body []byte
	if t.resp.IsPage() {
		body, _ = t.resp.Bytes(preference.Searched)
	}
	t.preferences = preference.Of(t.entry.URL, t.resp.HTTP, body)
}

func (x *extracting) redirect(t *turn, to string) {
	x.pipe.judge.redirect(t, to)
	x.refer(t, page.Link{URL: to, Tag: "redirect"})
	if t.entry.Redirects >= maxRedirects {
		t.cut(t.name, "redirects", to, 1)
		return
	}
	x.follow(t, to, frontier.Entry{Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1})
	// A host that gives nothing without a session redirects to the same URL with a session.
	if weburl.Canonical(to) == t.entry.URL && to != t.entry.URL {
		t.links = append(t.links, link{t.host, frontier.Entry{URL: to, Depth: t.entry.Depth, Redirects: t.entry.Redirects + 1}})
	}
}

func (x *extracting) page(t *turn) {
	body, err := t.resp.Bytes(page.MaxBytes + 1) // one more shows that there is more
	if err != nil {
		t.err = err
		return
	}
	p, err := t.resp.Search(body, t.entry.URL, t.text())
	if err != nil {
		return // no link can be resolved against the URL
	}
	asked := preference.ReadTag(t.resp.Header.Values("X-Robots-Tag"), x.parts.Manners.Agent)
	t.noArchive = p.Robots.NoArchive || asked.NoArchive
	t.noIndex = p.Robots.NoIndex || asked.NoIndex
	for why, n := range p.Cut {
		t.cut(t.name, why, t.entry.URL, n)
	}
	links := slices.Concat(page.HeaderLinks(t.resp.Header, t.entry.URL), p.Links)
	x.refer(t, links...)
	if x.pipe.judge.page(t, p, body) || p.Robots.NoFollow || asked.NoFollow {
		return
	}
	t.host.memory.calendars.Saw(weburl.PathQuery(t.entry.URL), t.entry.Depth, p)
	t.host.memory.circles.Saw(t.entry.URL, p)
	for i := range links {
		x.followLink(t, &links[i], t.entry.Depth+1)
	}
}

// refer notes the links of a page for the archive, whether they are followed or not. The links
// beyond maxLinks are only counted.
func (x *extracting) refer(t *turn, links ...page.Link) {
	if !x.parts.Settings.Links.Record {
		return
	}
	for i, l := range links {
		if len(t.outlinks) >= maxLinks {
			t.cut(t.name, NotRecorded, t.entry.URL, len(links)-i)
			return
		}
		kind := strings.ToLower(l.Tag)
		if l.NoFollow {
			kind += " nofollow"
		}
		t.outlinks = append(t.outlinks, archive.Link{URL: l.URL, Kind: kind})
	}
}

// followLink sorts a link of a page, unless the settings forbid to follow it.
func (x *extracting) followLink(t *turn, l *page.Link, depth int) {
	if l.NoFollow && x.parts.Settings.Page.ObeyRelLink || l.Tag == "form" && !x.parts.Settings.Page.Forms {
		return
	}
	x.follow(t, l.URL, frontier.Entry{Depth: depth})
}

// maxFoundHosts is the most hosts of others that the robot reports because of one page. So a page
// of links to invented names does not fill the manager's list.
const maxFoundHosts = 100

// follow sorts a link by its host.
func (x *extracting) follow(t *turn, url string, e frontier.Entry) {
	u, err := weburl.New(url, nil)
	if err != nil || u.Host() == "" || u.Scheme() != "http" && u.Scheme() != "https" {
		return
	}
	name := u.Host()
	to := t.host
	if name != to.Name {
		to = x.pipe.hosts.Get(name)
	}
	if to != nil {
		e.URL = u.Canonical()
		x.queueAt(t, to, e)
		return
	}
	if x.pipe.resting[name] != nil {
		e.URL = u.Canonical()
		t.resting = append(t.resting, e)
		return
	}
	// The manager would refuse a report of a name that cannot be a host's.
	top, host, err := wire.NormalizeURL(u.Scheme() + "://" + name + "/")
	if err != nil {
		t.cut(t.name, "host_name", url, 1)
		return
	}
	if !t.foundHosts[host] && len(t.foundHosts) == maxFoundHosts {
		t.cut(t.name, "page_hosts", url, 1)
		return
	}
	if t.foundHosts == nil {
		t.foundHosts = make(map[string]bool)
	}
	t.foundHosts[host] = true
	found := foreign{host: host, top: top}
	if page, _, err := wire.NormalizeURL(u.Canonical()); err == nil && page != top && x.mayFollow(page) == "" {
		found.page = page
	}
	t.found = append(t.found, found)
}

// mayFollow returns why no robot with these settings would follow a link, whatever the host; "": it
// may.
func (x *extracting) mayFollow(url string) (why string) {
	path := weburl.PathQuery(url)
	if len(path) > maxPath {
		return "length"
	}
	return page.Trap(path, time.Now())
}

// queueAt notes a link to a host of the crawl, or why it is not followed.
func (x *extracting) queueAt(t *turn, to *Host, e frontier.Entry) {
	why := ""
	switch {
	case e.Depth > x.parts.Settings.Page.MaxDepth:
		why = "depth"
	case to == t.host && to.memory.calendars.Endless(weburl.PathQuery(e.URL), e.Depth):
		why = page.Calendar
	default:
		why = x.mayFollow(e.URL)
	}
	if why == "" && to == t.host && to.memory.circles.Endless(weburl.PathQuery(t.entry.URL), weburl.PathQuery(e.URL)) {
		why = page.Repeats
	}
	share := to.Share()
	switch {
	case why != "":
		t.cut(to.Name, why, e.URL, 1)
	case !share.Has(e.URL):
		t.others = append(t.others, e)
	default:
		t.links = append(t.links, link{to, e})
	}
}
