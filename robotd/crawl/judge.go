package crawl

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"sheaf/internal/media"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/page"
)

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

// judge finds answers that are no pages: refusals, parked domains, error pages with status 200.
type judge struct {
	sketcher *page.Sketcher
}

// missing returns what an answer to a request for a page that cannot exist looks like; nil: it says
// that there is no such page.
func (j *judge) missing(resp *fetch.Response, url string) *missing {
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
		return &missing{sketch: j.sketcher.Sketch(v, url)}
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

// mayBeMissing reports whether the page is to be compared with the host's answer for pages that
// cannot exist. A host's top page is not, since that answer may look like it.
func (t *turn) mayBeMissing() bool {
	return t.compares() && t.resp.IsPage()
}

// compares is mayBeMissing before the page has come.
func (t *turn) compares() bool {
	m := t.host.memory.missing
	return m != nil && m.sketch != nil && t.entry.Depth > 0
}

// text returns how many bytes of the page's text are needed to judge it.
func (t *turn) text() int {
	if t.compares() {
		return page.MaxText
	}
	return page.Enough
}

// page marks an answer that is no page, and reports whether it did.
func (j *judge) page(t *turn, p *page.Page, body []byte) bool {
	v := asJudged(t.resp, p, body)
	if p.HTML || body == nil {
		t.mark, _ = page.Judge(v)
	}
	if t.mark == page.None && p.HTML && !v.More && t.mayBeMissing() &&
		t.host.memory.missing.sketch.Like(j.sketcher.Sketch(v, t.entry.URL)) {
		t.mark = page.Missing
	}
	return t.mark != page.None
}

// refusal marks an answer with an error status that turns the robot away, or names its terms.
func (j *judge) refusal(t *turn) {
	if t.resp.Status == http.StatusNotModified || t.resp.Status == http.StatusNotFound || t.resp.Status == http.StatusGone {
		return
	}
	if t.mark = page.Terms(t.resp.Status, t.resp.Header); t.mark != page.None {
		return
	}
	if p, v := read(t.resp, t.entry.URL); p != nil {
		t.mark, _ = page.Judge(v)
	}
}

// redirect marks a redirect to where the host sends requests for pages that cannot exist.
func (j *judge) redirect(t *turn, to string) {
	if m := t.host.memory.missing; m != nil && t.entry.Depth > 0 && m.to != "" && weburl.Canonical(to) == m.to {
		t.mark = page.Missing
	}
}

// Failed reports whether a status says that the page may come another time.
func Failed(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// Overloaded reports whether a status asks for fewer visits to the host. Other failures are faults
// of the program that makes the page.
func Overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// maxRetryAfter is the longest Retry-After that is obeyed: it slows a host and never loses it.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns when an answer allows the next visit; zero: it does not say.
func retryAfter(header http.Header) time.Time {
	now := time.Now()
	if wait := batch.RetryAfter(header, now); wait > 0 {
		return now.Add(min(wait, maxRetryAfter))
	}
	return time.Time{}
}

// exchange returns the line of the collection's log for an answer.
func exchange(url string, resp *fetch.Response) wire.LogLine {
	return wire.LogLine{
		URL: url, Sent: resp.RequestBytes, Got: resp.ResponseBytes,
		Took: resp.Took, Header: strings.TrimRight(string(resp.HTTP), "\r\n"),
	}
}
