package crawl

import (
	"bytes"
	"net/http"

	"sheaf/archive"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/page"
)

// record returns the record of a turn's page without its body, and what to remember of the page.
func record(t *turn) (*archive.Record, frontier.Visit) {
	resp := t.resp
	rec := answer(resp, t.entry.URL)
	rec.Preferences = t.preferences
	if t.noIndex {
		rec.HTTP = addLine(rec.HTTP, "X-Crawler-Robots: noindex")
	}
	if t.mark != page.None {
		rec.HTTP = addLine(rec.HTTP, "X-Crawler-Verdict: "+string(t.mark))
	}
	notModified := resp.Status == http.StatusNotModified
	same := resp.IsPage() && !resp.BrokeOff() && resp.Digest == t.known.Digest
	switch {
	case resp.IsPage() && t.mark != page.None:
		return rec, frontier.Visit{} // what is known of the page itself stays
	case t.known.Digest != "" && (notModified || same):
		rec.Kind, rec.Truncated = archive.Revisit, ""
		rec.PayloadDigest, rec.RefersTo, rec.RefersDate = t.known.Digest, rec.URL, t.known.Full
		if notModified {
			rec.Profile = archive.ServerNotModified
		}
		return rec, refreshed(t.known, resp.Header)
	case resp.IsPage():
		rec.Kind, rec.PayloadDigest = archive.Page, resp.Digest
		if resp.BrokeOff() {
			return rec, frontier.Visit{}
		}
		return rec, refreshed(frontier.Visit{Digest: resp.Digest}, resp.Header)
	case resp.Status == http.StatusNotFound || resp.Status == http.StatusGone || resp.Status/100 == 3:
		return rec, frontier.Visit{Gone: true}
	}
	return rec, frontier.Visit{}
}

// answer returns a record of any response, without its body.
func answer(resp *fetch.Response, url string) *archive.Record {
	rec := &archive.Record{
		Kind: archive.Response, URL: url, Time: resp.Start.UTC(),
		HTTP: resp.HTTP, Truncated: resp.Truncated,
	}
	if resp.IP.IsValid() {
		rec.IP = resp.IP.String()
	}
	if resp.Certificate != "" {
		rec.HTTP = addLine(rec.HTTP, "X-Crawler-Certificate: "+resp.Certificate)
	}
	return rec
}

// addLine adds a line to a header block.
func addLine(header []byte, line string) []byte {
	const end = "\r\n"
	return append(bytes.Clone(header[:len(header)-len(end)]), line+end+end...)
}

// refreshed puts the validators of an answer over the known ones. A 304 may leave out those that
// have not changed.
func refreshed(v frontier.Visit, h http.Header) frontier.Visit {
	if value := h.Get("ETag"); value != "" {
		v.ETag = value
	}
	if value := h.Get("Last-Modified"); value != "" {
		v.LastModified = value
	}
	return v
}

// linksOf returns the links that are stored with a record: of a full page, and of a redirect. An
// answer that is no page (page.Judge) tells nothing of the site.
func (t *turn) linksOf(rec *archive.Record) []archive.Link {
	if rec.Kind == archive.Page || rec.Kind == archive.Response && t.resp.Status/100 == 3 {
		return t.outlinks
	}
	return nil
}
