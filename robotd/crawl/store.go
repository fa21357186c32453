package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/page"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// storing is the third stage: see store.
type storing struct {
	parts *Parts
	pipe  *Pipeline
}

// store is the third stage: it queues the links of a turn's page, and stores the page.
func (s *storing) store(t *turn) {
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
	if polite.IsFull(t.err) { // there was no room to keep the answer until it is stored
		s.pipe.fail(t, t.err)
		return
	}
	if err := s.settle(t); err != nil {
		s.pipe.fail(t, err)
		return
	}
	t.out.More = !h.idle.Load() && !h.Front.Empty()
}

// settle decides what becomes of the page, and does it. The order matters to package frontier: the
// links go to their queues, then the page to the host's segment, then the queue moves on. An error
// is one of the disk.
func (s *storing) settle(t *turn) error {
	if err := s.note(t); err != nil {
		return err
	}
	h := t.host
	s.judgeServer(t)
	again := t.err != nil || Failed(t.resp.Status) || (t.resp.IsPage() || t.resp.Status/100 == 3) && t.resp.BrokeOff()
	if again && t.entry.Tries+1 < s.parts.Settings.Page.Tries {
		return h.Front.Retry()
	}
	if err := s.queue(t); err != nil {
		return err
	}
	if err := s.account(t); err != nil {
		return err
	}
	if t.err != nil || t.noArchive {
		return h.Front.Finish(frontier.Done{})
	}
	err := s.append(t)
	if errors.Is(err, archive.ErrRefused) {
		lost := batch.Uncollected{Kind: batch.KindFailed, Reason: "not_archivable", Host: t.name, N: 1, URL: t.entry.URL}
		return errors.Join(s.parts.Records.Journal.Comment("not archived: %v", err), s.parts.Records.Ledger.Add(lost), h.Front.Finish(frontier.Done{}))
	}
	return err
}

// append adds the page's record to the host's segment, and removes the page from the queue.
func (s *storing) append(t *turn) error {
	rec, visit := record(t)
	s.learn(t, rec, &visit)
	if rec.Kind != archive.Revisit {
		body := t.resp.Body()
		defer body.Close()
		rec.Body, rec.Deflated, rec.Links = body, t.resp.Deflated(), t.linksOf(rec)
	}
	var tapped []byte
	err := s.parts.Records.Batches.Append(t.name, rec, func(cell batch.Cell) error {
		tapped = s.tapped(&cell)
		visit = t.remembered(rec, visit, &cell)
		return t.host.finish(frontier.Done{Segment: cell.Segment, End: cell.End, Visit: visit})
	})
	if err != nil {
		return fmt.Errorf("storing %s: %w", t.entry.URL, err)
	}
	if tapped != nil {
		s.parts.Records.Tap.Offer(tapped)
	}
	seen := *rec
	if rec.Kind == archive.Page && t.resp.BrokeOff() {
		seen.Kind = archive.Response // it does not show whether the page has changed
	}
	if err := s.parts.Records.Watched.Stored(t.name, t.entry, &seen, t.past, visit, t.known.Digest != ""); err != nil {
		return err
	}
	s.count(t, rec.Kind)
	return nil
}

// isPage reports whether an answer is a page, changed or not, and no picture or other file. If
// neither a type nor a body tells, the URL does.
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

// judgeServer notes what the visit has shown of the host's server, and when it may be visited
// again. An answer for which the page may be to blame does not hold up the host's other pages.
func (s *storing) judgeServer(t *turn) {
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
		t.out.NotBefore = s.pipe.patience.backOff(h, 0, time.Time{})
		return
	}
	h.visited(t.resp.Status, nil)
	h.rest.hungUp = nil
	status, asked := t.resp.Status, retryAfter(t.resp.Header)
	switch {
	case Overloaded(status), t.mark == page.Blocked: // a host that turns the robot away is visited less often
		t.out.Trouble = Overloaded(status)
		t.out.NotBefore = s.pipe.patience.backOff(h, status, asked)
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
	s.pipe.hours.Observe(h.Name, h.Home(), &h.memory.speed, t.resp.Start, t.resp.ResponseBytes, t.resp.Took)
}

// note writes the exchange to the log of the collection.
func (s *storing) note(t *turn) error {
	if t.err != nil {
		return s.parts.Records.Journal.Comment("%v", t.err)
	}
	return s.parts.Records.Journal.Add(exchange(t.entry.URL, t.resp))
}

// queue puts the links of a turn into the queues of their hosts.
func (s *storing) queue(t *turn) error {
	first := t.past.Full.IsZero() // so that each link is counted once
	byHost := make(map[*Host][]frontier.Entry)
	for _, l := range t.links {
		if l.host == t.host || s.pipe.hosts.Get(l.host.Name) == l.host { // it may have been dropped
			byHost[l.host] = append(byHost[l.host], l.Entry)
		}
	}
	for h, entries := range byHost {
		if left := s.parts.Settings.Page.MaxPerHost - h.Front.Len(); len(entries) > left {
			for _, e := range entries[max(0, left):] {
				t.cut(h.Name, "host_full", e.URL, 1)
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
		if n > 0 && h != t.host {
			s.pipe.hosts.Wake(h)
		}
	}
	for _, e := range t.resting {
		front, err := s.parts.Records.Frontier.Host(weburl.Host(e.URL))
		if err == nil {
			_, err = front.Push(e)
		}
		if err != nil {
			return err
		}
	}
	for _, link := range t.found {
		if err := s.parts.Records.Found.Add(wire.HostLine{URL: link.top}); err != nil {
			return err
		}
		if link.page == "" {
			continue
		}
		if err := s.parts.Records.Found.AddPage(link.host, link.page); err != nil {
			return err
		}
	}
	for _, e := range t.others {
		if err := s.parts.Records.Found.Elsewhere(e); err != nil {
			return err
		}
	}
	return nil
}

// account adds to the coverage what became of the page, unless it was simply collected, and the
// links that are not followed.
func (s *storing) account(t *turn) error {
	events := t.cuts
	enter := func(kind batch.Kind, reason string) {
		events = append(events, batch.Uncollected{Kind: kind, Reason: reason, Host: t.name, N: 1, URL: t.entry.URL})
	}
	switch {
	case t.err != nil:
		kind := fetch.KindOf(t.err)
		if kind == "" {
			kind = fetch.Local
		}
		enter(batch.KindFailed, string(kind))
	case Failed(t.resp.Status):
		enter(batch.KindFailed, strconv.Itoa(t.resp.Status))
	case t.noArchive:
		enter(batch.KindWithheld, "noarchive")
	}
	if t.mark != page.None {
		enter(batch.KindMarked, string(t.mark))
	}
	if len(events) == 0 {
		return nil
	}
	return s.parts.Records.Ledger.Add(events...)
}

// learn adds the visit to the page's history, if its answer shows whether the page has changed.
func (s *storing) learn(t *turn, rec *archive.Record, visit *frontier.Visit) {
	if visit.Digest == "" || rec.Kind != archive.Page && rec.Kind != archive.Revisit {
		return
	}
	changed := rec.Kind == archive.Page && t.resp.Digest != t.past.Digest
	revisit.Learn(visit, t.past, t.resp.Start, changed, s.pipe.hours.Plan.Window.Location())
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

// count counts a page that was stored.
func (s *storing) count(t *turn, kind archive.Kind) {
	s.parts.Records.Tally.count(kind, t.resp.Certificate == "")
	s.parts.Records.Tally.links.Add(int64(len(t.links) + len(t.resting) + len(t.found) + len(t.others)))
	t.host.pages.Add(1)
	t.host.bytes.Add(t.resp.ResponseBytes)
	t.host.ms.Add(t.resp.Took.Milliseconds())
}

// tapped reads a stored record for the consumers of the tap; nil: there is none to read it. A
// record that cannot be read is only logged, since the page is stored.
func (s *storing) tapped(cell *batch.Cell) []byte {
	if s.parts.Records.Tap == nil || !s.parts.Records.Tap.Active() {
		return nil
	}
	record, err := cell.WARC(context.Background())
	if err != nil {
		s.parts.Log.Warn("tap: record not read", "url", cell.URL, "err", err)
		return nil
	}
	return record
}

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
