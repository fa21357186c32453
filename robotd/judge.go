package robotd

import (
	"context"
	"math/rand/v2"
	"net/http"

	"sheaf/internal/weburl"
	"sheaf/robotd/extract"
	"sheaf/robotd/fetch"
	"sheaf/robotd/verdict"
)

// missing is what a host answers where nothing can be, if that looks like a page.
type missing struct {
	to     string          // where it redirects to; empty: it does not
	sketch *verdict.Sketch // of its page; nil: none
}

// Bounds of the question what a host answers where nothing can be.
const (
	probeFrom = 5       // URLs known of a host; one with fewer is not asked
	probeSize = 1 << 20 // bytes read of the answer
	judged    = 1 << 16 // bytes of markup in which signs are looked for
)

// probeDue reports whether the host is to be asked, once a cycle.
func (c *crawl) probeDue(h *host, ru *rules) bool {
	return c.cfg.Page.Probe && !h.probed && h.front.Len() >= probeFrom && ru.Allowed(c.cfg.UserAgent(Version), probePath())
}

// probePath is a path that no host has.
func probePath() string {
	name := make([]byte, 20)
	for i := range name {
		name[i] = 'a' + byte(rand.IntN(26))
	}
	return "/" + string(name) + ".html"
}

// probe is a turn that asks for a page that is not there.
func (c *crawl) probe(ctx context.Context, t *turn, ru *rules) {
	h := t.host
	t.out.More = true
	url := ru.scheme + "://" + h.name + probePath()
	resp, err := c.get(ctx, t, fetch.Request{URL: url, Addr: h.address(), MaxBody: probeSize})
	if kind := fetch.KindOf(err); kind == fetch.Canceled || kind == fetch.Over {
		return // nothing was learned: the next turn asks
	}
	h.probed = true
	if err != nil {
		return // the host's own pages will show what is wrong
	}
	defer resp.Close()
	t.out.Rest, t.out.Wait = resp.Took, resp.Wait
	t.out.NotBefore = retryAfter(resp.Header)
	c.spend(resp.ResponseBytes)
	if err := c.journal.Add(exchange(url, resp)); err != nil {
		c.fail(h, err)
		return
	}
	if resp.Status/100 == 3 {
		if to, err := weburl.Parse(url, resp.Header.Get("Location"), nil); err == nil {
			h.missing = &missing{to: weburl.Canonical(to)}
		}
		return
	}
	if !isPage(resp.Status) {
		return // it says that it has no such page
	}
	if p, v := read(resp, url); p != nil && p.HTML && !v.More && resp.Truncated == "" {
		h.missing = &missing{sketch: c.sketcher.Sketch(v, url)}
	}
}

// read takes an answer apart, for judgement only.
func read(resp *fetch.Response, url string) (*extract.Page, *verdict.Page) {
	body, err := resp.Bytes(probeSize)
	if err != nil {
		return nil, nil
	}
	p, err := extract.Links(body, resp.Header.Get("Content-Type"), url)
	if err != nil {
		return nil, nil
	}
	return p, asJudged(resp, p, body)
}

func asJudged(resp *fetch.Response, p *extract.Page, body []byte) *verdict.Page {
	return &verdict.Page{
		Status: resp.Status, Header: resp.Header, Title: p.Title, Text: p.Text,
		More: p.MoreText || p.More, Body: body[:min(len(body), judged)],
	}
}

// mayBeMissing reports whether the page is to be compared with the host's answer to what is not there.
func (t *turn) mayBeMissing() bool {
	return t.host.missing != nil && t.host.missing.sketch != nil && t.entry.Depth > 0 && isPage(t.resp.Status)
}

// judge marks an answer that is no page, and reports whether it did. A host's top
// page is never taken for its answer to what is not there, which may well look like it.
func (c *crawl) judge(t *turn, p *extract.Page, body []byte) bool {
	v := asJudged(t.resp, p, body)
	if p.HTML || body == nil {
		t.mark, _ = verdict.Judge(v)
	}
	if t.mark == verdict.None && p.HTML && !v.More && t.mayBeMissing() &&
		t.host.missing.sketch.Like(c.sketcher.Sketch(v, t.entry.URL)) {
		t.mark = verdict.Missing
	}
	return t.mark != verdict.None
}

// judgeRefusal looks whether an answer that is no page by its status turns the robot away.
func (c *crawl) judgeRefusal(t *turn) {
	if t.resp.Status == http.StatusNotModified || t.resp.Status == http.StatusNotFound || t.resp.Status == http.StatusGone {
		return
	}
	if p, v := read(t.resp, t.entry.URL); p != nil {
		t.mark, _ = verdict.Judge(v)
	}
}

// judgeRedirect marks a redirect that leads where the host sends whoever asks for
// what is not there.
func (c *crawl) judgeRedirect(t *turn, to string) {
	if m := t.host.missing; m != nil && t.entry.Depth > 0 && m.to != "" && weburl.Canonical(to) == m.to {
		t.mark = verdict.Missing
	}
}
