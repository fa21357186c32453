package crawl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"sheaf/archive"
	"sheaf/internal/files"
	"sheaf/internal/media"
	"sheaf/internal/page"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/revisit"
)

// store is the end of a page's way: it decides what becomes of the page, queues its links, and
// stores it. The order matters to package frontier: the links go to their queues, then the page to
// the host's segment, then the queue moves on.
func (t *turn) store() {
	h := t.host
	if t.resp != nil {
		defer t.resp.Close()
	}
	if fetch.KindOf(t.err) == fetch.Canceled {
		return // the page stays the next one
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return
	}
	h.dirty.Store(true)
	err := t.err
	if !files.IsFull(err) { // else there was no room to keep the answer until it is stored
		err = t.settle()
	}
	if err != nil {
		t.fail(err)
		return
	}
	t.out.More = !h.idle.Load() && !h.Front.Empty()
}

// settle is store for a host that is locked. Its errors are errors of the disk.
func (t *turn) settle() error {
	h, rec, set := t.host, &t.crawl.parts.Records, &t.crawl.parts.Settings.Page
	var err error
	if t.err != nil {
		err = rec.Journal.Comment("%v", t.err)
	} else {
		err = rec.Journal.Add(exchange(t.entry.URL, t.resp))
	}
	if err != nil {
		return err
	}
	t.judgeServer()
	again := t.err != nil || Failed(t.resp.Status) || (t.resp.IsPage() || t.resp.Status/100 == 3) && t.resp.BrokeOff()
	if again && t.entry.Tries+1 < set.Tries {
		return h.Front.Retry()
	}
	if err := t.links.queue(t.past.Full.IsZero()); err != nil {
		return err
	}
	if lost := t.uncollected(); len(lost) > 0 {
		if err := rec.Ledger.Add(lost...); err != nil {
			return err
		}
	}
	if t.err != nil || t.noArchive {
		return h.Front.Finish(frontier.Done{})
	}
	err = t.append()
	if errors.Is(err, archive.ErrRefused) {
		lost := batch.Uncollected{Kind: batch.KindFailed, Reason: "not_archivable", Host: t.name, N: 1, URL: t.entry.URL}
		return errors.Join(rec.Journal.Comment("not archived: %v", err), rec.Ledger.Add(lost), h.Front.Finish(frontier.Done{}))
	}
	return err
}

// append adds the page's record to the host's segment, removes the page from the queue, and tells
// the tap, the watched pages and the counters.
func (t *turn) append() error {
	h, recs := t.host, &t.crawl.parts.Records
	rec, visit := t.record()
	if visit.Digest != "" && (rec.Kind == archive.Page || rec.Kind == archive.Revisit) { // the answer shows whether the page has changed
		changed := rec.Kind == archive.Page && t.resp.Digest != t.past.Digest
		revisit.Learn(&visit, t.past, t.resp.Start, changed, t.crawl.hours.Plan.Window.Location())
	}
	if rec.Kind != archive.Revisit {
		body := t.resp.Body()
		defer body.Close()
		rec.Body, rec.Deflated = body, t.resp.Deflated()
		if rec.Kind == archive.Page || t.resp.Status/100 == 3 { // another answer tells nothing of the site
			rec.Links = t.links.recorded
		}
	}
	cell, noted, err := recs.Batches.Append(t.name, rec)
	if err != nil {
		return fmt.Errorf("storing %s: %w", t.entry.URL, err)
	}
	tapped := t.tapped(&cell)
	visit = t.remembered(rec, visit, &cell)
	done := frontier.Done{Segment: cell.Segment, End: cell.End, Visit: visit}
	err = h.Front.Finish(done)
	noted()
	if err != nil {
		h.memory.unfinished = &done // the next turn repeats it
		return fmt.Errorf("storing %s: %w", t.entry.URL, err)
	}
	if tapped != nil {
		recs.Tap.Offer(tapped)
	}
	seen := *rec
	if rec.Kind == archive.Page && t.resp.BrokeOff() {
		seen.Kind = archive.Response // it does not show whether the page has changed
	}
	if err := recs.Watched.Stored(t.name, t.entry, &seen, t.past, visit, t.known.Digest != ""); err != nil {
		return err
	}
	links := &t.links
	recs.Tally.count(rec.Kind, t.resp.Certificate == "", len(links.queued)+len(links.resting)+len(links.found)+len(links.others))
	h.pages.Add(1)
	h.bytes.Add(t.resp.ResponseBytes)
	h.ms.Add(t.resp.Took.Milliseconds())
	return nil
}

// judgeServer notes what the visit has shown of the host's server, and when it may be visited
// again. An answer for which the page may be to blame does not hold up the host's other pages.
func (t *turn) judgeServer() {
	h := t.host
	if t.resp == nil {
		h.visited(0, t.err)
		switch kind := fetch.KindOf(t.err); {
		case kind == fetch.Protocol: // it answers, if oddly
			h.rest.hungUp = nil
			return
		case kind == fetch.Silent && !h.rest.hangsUp(t.entry.URL):
			return
		}
		t.out.Trouble, h.place.silent = true, true
		t.out.NotBefore = t.backOff(0, time.Time{})
		return
	}
	h.visited(t.resp.Status, nil)
	h.rest.hungUp = nil
	status, asked := t.resp.Status, retryAfter(t.resp.Header)
	switch {
	case Overloaded(status), t.mark == page.Blocked: // a host that turns the robot away is visited less often
		t.out.Trouble = Overloaded(status)
		t.out.NotBefore = t.backOff(status, asked)
		if t.out.Trouble {
			return
		}
	case Failed(status):
		t.out.NotBefore = asked
		h.rest.why.Store(nil)
	default:
		h.recovered()
	}
	t.out.Rest = t.resp.Took // a slow host rests as long as it worked
	t.out.Wait, t.out.Page = t.resp.Wait, isPage(t.resp, t.entry.URL)
	t.crawl.hours.Observe(h.Name, h.Home(), &h.memory.speed, t.resp.Start, t.resp.ResponseBytes, t.resp.Took)
}

// queue puts the links into the queues of their hosts. first says that the page was never stored
// before: each link is counted once.
func (l *links) queue(first bool) error {
	c, rec := l.crawl, &l.crawl.parts.Records
	byHost := make(map[*Host][]frontier.Entry)
	for _, to := range l.queued {
		if to.host == l.host || c.host(to.host.Name) == to.host { // it may have been dropped
			byHost[to.host] = append(byHost[to.host], to.Entry)
		}
	}
	for h, entries := range byHost {
		if left := c.parts.Settings.Page.MaxPerHost - h.Front.Len(); len(entries) > left {
			for _, e := range entries[max(0, left):] {
				l.cut(h.Name, "host_full", e.URL, 1)
			}
			entries = entries[:max(0, left)]
		}
		n, err := h.Front.Push(entries...)
		if err == nil && first {
			err = h.Front.CountLinks(entries)
		}
		if err != nil {
			return err
		}
		if n > 0 && h != l.host {
			c.wake(h)
		}
	}
	for _, e := range l.resting {
		front, err := rec.Frontier.Host(weburl.Host(e.URL))
		if err == nil {
			_, err = front.Push(e)
		}
		if err != nil {
			return err
		}
	}
	for _, link := range l.found {
		if err := rec.Found.Add(wire.HostLine{URL: link.top}); err != nil {
			return err
		}
		if link.page == "" {
			continue
		}
		if err := rec.Found.AddPage(link.host, link.page); err != nil {
			return err
		}
	}
	for _, e := range l.others {
		if err := rec.Found.Elsewhere(e); err != nil {
			return err
		}
	}
	return nil
}

// uncollected returns the ledger's lines about a page: why it was not simply collected, and the
// links that are not followed.
func (t *turn) uncollected() []batch.Uncollected {
	events := t.links.cuts
	enter := func(kind batch.Kind, reason string) {
		events = append(events, batch.Uncollected{Kind: kind, Reason: reason, Host: t.name, N: 1, URL: t.entry.URL})
	}
	switch {
	case t.err != nil:
		enter(batch.KindFailed, string(cmp.Or(fetch.KindOf(t.err), fetch.Local)))
	case Failed(t.resp.Status):
		enter(batch.KindFailed, strconv.Itoa(t.resp.Status))
	case t.noArchive:
		enter(batch.KindWithheld, "noarchive")
	}
	if t.mark != page.None {
		enter(batch.KindMarked, string(t.mark))
	}
	return events
}

// record returns the record of a turn's page without its body, and what to remember of the page.
func (t *turn) record() (*archive.Record, frontier.Visit) {
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

// addLine returns a copy of a header block with one more line.
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

// remembered returns what to remember of a page whose record is in a cell.
func (t *turn) remembered(rec *archive.Record, visit frontier.Visit, cell *batch.Cell) frontier.Visit {
	if rec.Kind != archive.Page {
		return visit
	}
	cut := t.resp.BrokeOff() || cell.BodyLen != t.resp.Size // the body in the cell is shorter if the segment had no room
	switch visit.Full = cell.Time; {
	case cut && t.past.Digest != "":
		return frontier.Visit{} // what is known of the whole page stays
	case cut:
		return frontier.Visit{Full: cell.Time} // the next visit takes it in full
	}
	return visit
}

// tapped reads a stored record for the tap. It returns nil if the tap has no consumer, or if
// reading fails. A failure is only logged, since the page is stored.
func (t *turn) tapped(cell *batch.Cell) []byte {
	if t.crawl.parts.Records.Tap == nil || !t.crawl.parts.Records.Tap.Active() {
		return nil
	}
	record, err := cell.WARC(context.Background())
	if err != nil {
		t.crawl.parts.Log.Warn("tap: record not read", "url", cell.URL, "err", err)
		return nil
	}
	return record
}

// isPage reports whether an answer is an HTML page, changed or not, and no picture or other file.
// If neither the type nor the body tells, the URL decides.
func isPage(resp *fetch.Response, url string) bool {
	if !resp.IsPage() && resp.Status != http.StatusNotModified {
		return false
	}
	contentType := media.ContentType(resp.Header)
	switch {
	case media.TypeOf(contentType).Essence != "":
		return media.IsHTML(media.Sniff(contentType, nil))
	case resp.Size > 0:
		const beginning = 512
		body, err := resp.Bytes(beginning)
		return err == nil && media.IsHTML(media.Sniff(contentType, body))
	}
	file, _, _ := strings.Cut(weburl.PathQuery(url), "?")
	known := media.TypeOf(mime.TypeByExtension(path.Ext(file))).Essence
	return known == "" || media.IsHTML(known)
}

// Failed reports whether a status is a failure after which the page is tried again.
func Failed(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// Overloaded reports whether a status asks for fewer visits to the host. Other failures are faults
// of the program that makes the page.
func Overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// maxRetryAfter bounds the Retry-After that is obeyed, so that no header stops a host for good.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the time from which an answer allows the next visit; zero: at any time.
func retryAfter(header http.Header) time.Time {
	now := time.Now()
	if wait := wire.RetryAfter(header, now); wait > 0 {
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

// Tally counts the records that were stored in a cycle, since the start. Its methods may be called
// concurrently.
type Tally struct {
	mu    sync.Mutex // guards all below
	all   Coverage   // the counts of records
	links int64      // in these pages
}

// count counts a record, and the links in it.
func (t *Tally) count(kind archive.Kind, verified bool, links int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links += int64(links)
	switch kind {
	case archive.Page:
		t.all.Pages++
	case archive.Revisit:
		t.all.Unchanged++
	default:
		t.all.Answers++
	}
	if !verified {
		t.all.Unverified++
	}
}

// Links returns how many links the pages of the cycle have had, since the program started.
func (t *Tally) Links() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.links
}

// Reset sets the counts to zero, for a new cycle.
func (t *Tally) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all, t.links = Coverage{}, 0
}

// Coverage returns the counts of records. Fields about pages that were not collected are empty.
func (t *Tally) Coverage() Coverage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}
