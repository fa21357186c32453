package robotd

import (
	"bytes"
	"fmt"
	"net/http"

	"sheaf/archive"
	"sheaf/robotd/batch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/verdict"
)

// append adds the page's record to the host's segment and finishes the page.
func (c *crawl) append(t *turn) error {
	rec, visit := record(t)
	t.learn(rec.Kind, &visit, c.plan.Window.Location())
	if rec.Kind != archive.Revisit {
		body := t.resp.Body()
		defer body.Close()
		rec.Body, rec.Links = body, t.linksOf(rec)
	}
	var tapped []byte
	err := c.batches.Append(t.name, rec, func(cell batch.Cell) error {
		tapped = c.tapped(&cell)
		if cell.Truncated != "" { // for want of room in the segment, perhaps: it is to be taken in full the next time
			visit = frontier.Visit{}
		}
		if rec.Kind == archive.Page {
			visit.Full = cell.Time
		}
		done := frontier.Done{Segment: cell.Segment, End: cell.End, Visit: visit}
		err := t.host.front.Finish(done)
		if err != nil {
			t.host.unfinished = &done
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("storing %s: %w", t.entry.URL, err)
	}
	if tapped != nil {
		c.tap.Offer(tapped)
	}
	c.came(t, rec, visit)
	if err := c.watches.noticed(t.host.name, rec, t.known.Digest != ""); err != nil {
		return err
	}
	t.host.pages.Add(1)
	c.tally.count(rec.Kind)
	if t.resp.Certificate != "" {
		c.tally.unverified.Add(1)
	}
	t.host.bytes.Add(t.resp.ResponseBytes)
	t.host.ms.Add(t.resp.Took.Milliseconds())
	return nil
}

// record makes a page's record, but for its body, and what to remember of it.
func record(t *turn) (*archive.Record, frontier.Visit) {
	resp := t.resp
	rec := &archive.Record{
		Kind: archive.Response, URL: t.entry.URL, Time: resp.Start.UTC(),
		HTTP: resp.HTTP, Truncated: resp.Truncated,
	}
	if t.noIndex {
		rec.HTTP = mark(rec.HTTP, "X-Crawler-Robots: noindex")
	}
	if resp.IP.IsValid() {
		rec.IP = resp.IP.String()
	}
	if resp.Certificate != "" {
		rec.HTTP = mark(rec.HTTP, "X-Crawler-Certificate: "+resp.Certificate)
	}
	if t.mark != verdict.None {
		rec.HTTP = mark(rec.HTTP, "X-Crawler-Verdict: "+string(t.mark))
	}
	notModified := resp.Status == http.StatusNotModified
	same := isPage(resp.Status) && resp.Truncated == "" && resp.Digest == t.known.Digest
	switch {
	case isPage(resp.Status) && t.mark != verdict.None:
		return rec, frontier.Visit{} // what is known of the page itself stays
	case t.known.Digest != "" && (notModified || same):
		rec.Kind, rec.Truncated = archive.Revisit, ""
		rec.PayloadDigest, rec.RefersTo, rec.RefersDate = t.known.Digest, rec.URL, t.known.Full
		if notModified {
			rec.Profile = archive.ServerNotModified
		}
		return rec, refreshed(t.known, resp.Header)
	case isPage(resp.Status):
		rec.Kind, rec.PayloadDigest = archive.Page, resp.Digest
		if resp.Truncated != "" {
			return rec, frontier.Visit{} // to be taken in full the next time too
		}
		return rec, refreshed(frontier.Visit{Digest: resp.Digest}, resp.Header)
	case resp.Status == http.StatusNotFound || resp.Status == http.StatusGone || resp.Status/100 == 3:
		return rec, frontier.Visit{Gone: true}
	}
	return rec, frontier.Visit{}
}

// mark adds a line to a header block that is to be stored.
func mark(header []byte, line string) []byte {
	const end = "\r\n"
	return append(bytes.Clone(header[:len(header)-len(end)]), line+end+end...)
}

// refreshed puts an answer's validators over the ones that are known; a 304 may
// leave out what has not changed.
func refreshed(v frontier.Visit, h http.Header) frontier.Visit {
	if value := h.Get("ETag"); value != "" {
		v.ETag = value
	}
	if value := h.Get("Last-Modified"); value != "" {
		v.LastModified = value
	}
	return v
}
