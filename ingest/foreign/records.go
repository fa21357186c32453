package foreign

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/media"
	pages "sheaf/internal/page"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// original identifies a page by the URL and the digest in a revisit.
type original struct{ url, digest string }

// page is what a revisit in a segment states about its page.
type page struct {
	digest string
	time   time.Time
	full   bool // it is a page with a whole body
}

// records converts the records that next returns, until io.EOF.
func (c *conversion) records(in *input, next func() (*warcRecord, error)) error {
	for {
		r, err := next()
		if err == io.EOF {
			return c.answer(in)
		}
		if err != nil {
			return err
		}
		if err := c.read(in, r); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return in.reading(err, r.url())
		}
		if err := c.take(in, r); err != nil {
			return err
		}
	}
}

// read counts a record, and reads its block.
func (c *conversion) read(in *input, r *warcRecord) error {
	if err := c.meter.entry(); err != nil {
		return wrong(r.at, r.url(), wire.ReasonBombRatio, "%v", err)
	}
	r.block = c.block
	err := r.block.fill(io.LimitReader(in, r.length))
	if err == nil && r.block.size < r.length {
		err = io.ErrUnexpectedEOF
	}
	return in.reading(err, r.url())
}

// errOther says that a segment cannot hold a record. The file is not at fault.
var errOther = errors.New("not for a segment")

// record stores a record in its host's segment, or among the others.
func (c *conversion) record(r *warcRecord) error {
	var err error
	switch kind := strings.ToLower(r.get("WARC-Type")); {
	case kind == "response" && r.isHTTP():
		err = c.response(r)
	case kind == "resource":
		err = c.resource(r)
	case kind == "revisit":
		err = c.revisit(r)
	case kind == "response":
		err = fmt.Errorf("%w: a response of type %.80q, not application/http", errOther, r.get("Content-Type"))
	case kind == "continuation":
		err = fmt.Errorf("%w: it continues another record, which is stored without it", errOther)
	default:
		return c.beside(r)
	}
	if errors.Is(err, errOther) || errors.Is(err, archive.ErrRefused) {
		if isPlace(r.url()) {
			c.result.Aside.add(Loss{r.spot.at, r.spot.within, r.url(), wire.ReasonForeign, err.Error()})
		}
		return c.beside(r)
	}
	return err
}

// isPlace reports whether a record's target is, or should be, an address that a reader may ask for.
// A DNS name, a name for something derived from a page, and a file of the crawler's own are not.
func isPlace(target string) bool {
	scheme, rest, _ := strings.Cut(strings.ToLower(target), ":")
	return scheme == "http" || scheme == "https" || rest == "" || strings.HasPrefix(rest, "//") && scheme != "dns" && scheme != "metadata"
}

// beside puts a record among the others.
func (c *conversion) beside(r *warcRecord) error {
	c.result.Others++
	if t, err := r.date(); err == nil && !strings.EqualFold(r.get("WARC-Type"), "warcinfo") && t.After(c.about) {
		c.about = t
	}
	return c.others.add(r, r.head, r.block.from(0))
}

// base returns a segment record with the fields that all kinds of records have.
func (c *conversion) base(r *warcRecord) (*archive.Record, error) {
	url, err := r.asked()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOther, err)
	}
	t, err := r.date()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOther, err)
	}
	rec := &archive.Record{URL: url, Time: t}
	if ip, err := netip.ParseAddr(r.get("WARC-IP-Address")); err == nil {
		rec.IP = ip.String()
	}
	switch why := r.get("WARC-Truncated"); why {
	case "", archive.TruncatedLength, archive.TruncatedTime, archive.TruncatedDisconnect:
		rec.Truncated = why
	default:
		rec.Truncated = archive.TruncatedUnspecified
	}
	if rec.Truncated == "" && r.get("WARC-Segment-Number") != "" { // records of the type continuation have the rest
		rec.Truncated = archive.TruncatedUnspecified
	}
	return rec, nil
}

func (c *conversion) response(r *warcRecord) error {
	rec, err := c.base(r)
	if err != nil {
		return err
	}
	answer, err := c.parse(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.query, methodParam+http.MethodHead) {
		answer.truncated = "" // the answer to HEAD has no body
	}
	rec.Kind, rec.HTTP, rec.Truncated = archive.Response, answer.head, cmp.Or(rec.Truncated, answer.truncated)
	if answer.isFile() {
		rec.Kind = archive.Page
	}
	body, done := answer.body()
	defer done()
	rec.Body = body
	err = c.appendResponse(r, rec, keep(r, rec) && bytes.Equal(answer.head, answer.came))
	if err == nil && answer.damaged {
		err = c.beside(r) // keeps the whole record
	}
	return err
}

// appendResponse stores rec, which was made from r, so that later revisits can refer to it. whole
// says that rec has everything that stands before the body in r.
func (c *conversion) appendResponse(r *warcRecord, rec *archive.Record, whole bool) error {
	cell, err := c.append(rec)
	if err == nil {
		c.mayBeOriginal(original{rec.URL, r.payload()}, page{cell.Digest, cell.Time, cell.Kind == archive.Page && cell.Truncated == ""})
	}
	switch {
	case err == nil && cell.Truncated != rec.Truncated:
		return c.beside(r) // keeps the whole record
	case err == nil && !whole:
		return c.originalHead(r)
	}
	return err
}

// mayBeOriginal records an answer to which later revisits may refer. If several answers have the
// same URL and digest, revisits refer to the last page with a whole body or, without such a page,
// to the last answer.
func (c *conversion) mayBeOriginal(id original, p page) {
	if id.digest == "" || p.full || !c.originals[id].full {
		c.originals[id] = p
	}
}

// parse reads the HTTP response in the record's block.
func (c *conversion) parse(r *warcRecord) (*response, error) {
	answer, err := parseResponse(c.ctx, r.block, min(maxDecoded, c.meter.room()+1))
	if err != nil {
		return nil, err
	}
	if answer.decoded {
		if err := c.meter.made(answer.size); err != nil {
			return nil, wrong(r.at, r.url(), wire.ReasonBombRatio, "%v", err)
		}
	}
	return answer, nil
}

// resource stores a file that was fetched without HTTP, or whose HTTP header was not kept. The file
// gets a header that says so.
func (c *conversion) resource(r *warcRecord) error {
	rec, err := c.base(r)
	if err != nil {
		return err
	}
	mediaType := r.get("Content-Type")
	if mediaType == "" {
		head, err := io.ReadAll(io.LimitReader(r.block.from(0), looked))
		if err != nil {
			return err
		}
		mediaType = media.Sniff("", head)
	}
	rec.Kind = archive.Page
	rec.HTTP = fmt.Appendf(nil, "HTTP/1.0 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Crawler-Imported: resource\r\n\r\n",
		strings.Map(printable, mediaType), r.block.size)
	rec.Body = r.block.from(0)
	return c.appendResponse(r, rec, keep(r, rec))
}

// revisit stores a revisit. If its page came earlier in the file, the revisit gets the page's
// stored digest and date. Otherwise it gets what the file states, because the page may be
// elsewhere.
func (c *conversion) revisit(r *warcRecord) error {
	rec, err := c.base(r)
	if err != nil {
		return err
	}
	refersTo := rec.URL
	if to := strings.Trim(r.get("WARC-Refers-To-Target-URI"), "<> "); to != "" && to != r.url() {
		if refersTo, err = bareURL(to); err != nil {
			return fmt.Errorf("%w: %w", errOther, err)
		}
	}
	digest, ok := parseDigest(r.get("WARC-Payload-Digest"))
	if !ok {
		digest = claimed{}
	}
	date, _ := r.time("WARC-Refers-To-Date") // zero if the field is missing
	known, ok := c.originals[original{refersTo, r.payload()}]
	if !ok || r.payload() == "" && !known.time.Equal(date) {
		known = page{digest: digest.stored(), time: date}
	}
	rec.Kind, rec.Truncated = archive.Revisit, ""
	rec.PayloadDigest, rec.RefersTo, rec.RefersDate = known.digest, refersTo, known.time
	if strings.HasSuffix(r.get("WARC-Profile"), "/server-not-modified") {
		rec.Profile = archive.ServerNotModified
	}
	whole, body := keep(r, rec), int64(0)
	rec.HTTP = []byte("HTTP/1.1 304 Not Modified\r\n\r\n")
	if r.block.size > 0 {
		answer, err := c.parse(r)
		if err != nil {
			return err
		}
		rec.HTTP, body = answer.alone(), answer.size
		whole = whole && bytes.Equal(rec.HTTP, answer.came)
	}
	switch _, err = c.append(rec); {
	case err == nil && body > 0:
		return c.beside(r) // keeps the whole record
	case err == nil && !whole:
		return c.originalHead(r)
	}
	return err
}

// keep stores the header fields that rec.Original can have. whole: these are all fields.
func keep(r *warcRecord, rec *archive.Record) (whole bool) {
	whole = true
	size := 0
	for _, f := range headerFields(r.head) {
		n := len(f.Name) + len(f.Value)
		if size+n > archive.MaxOriginal || archive.CheckOriginal([]archive.Field{f}) != nil {
			whole = false
			continue
		}
		rec.Original, size = append(rec.Original, f), size+n
	}
	return whole
}

// headerFields returns the fields of a WARC header in order, with folded lines joined.
func headerFields(head []byte) (fields []archive.Field) {
	_, text, _ := strings.Cut(string(head), "\r\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, crlf2), "\r\n") {
		if n := len(fields) - 1; n >= 0 && line != "" && isSpace(line[0]) {
			fields[n].Value = strings.TrimSpace(fields[n].Value + " " + strings.TrimSpace(line))
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		fields = append(fields, archive.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return fields
}

// isSpace reports whether a line that begins with c continues the line before.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// originalHead adds a metadata record to the others. Its block has r's WARC header and HTTP header,
// which the segment could not keep completely. See FORMAT.md.
func (c *conversion) originalHead(r *warcRecord) error {
	const maxHead = 256 << 10
	raw, err := io.ReadAll(io.LimitReader(r.block.from(0), maxHead))
	if err != nil {
		return err
	}
	head := bytes.Clone(r.head)
	if http, _, ok := cutHead(raw); ok && r.isHTTP() {
		head = append(head, http...)
	}
	about := ""
	if id := r.get("WARC-Record-ID"); id != "" {
		about = "WARC-Refers-To: " + id + "\r\n"
	}
	return c.others.add(r, fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: %s\r\n"+
		"WARC-Date: %s\r\nWARC-Target-URI: %s\r\n%sContent-Type: application/warc\r\nContent-Length: %d\r\n\r\n",
		archive.RecordID(head), r.get("WARC-Date"), r.url(), about, len(head)), bytes.NewReader(head))
}

// links adds a page's links, or a redirect's target, to r. It finds links as robots do. If the
// page's body cannot be read, the error comes again when the record is stored.
func (c *conversion) links(r *archive.Record) {
	header := make(http.Header)
	head := parseHead(r.HTTP)
	for _, f := range head.fields {
		header.Add(f[0], f[1])
	}
	status, _, _ := statusLine(head.first) // 0 without one
	var found []pages.Link
	switch contentType := media.ContentType(header); {
	case r.Kind == archive.Response && status/100 == 3 && header.Get("Location") != "":
		if to, err := weburl.Parse(r.URL, header.Get("Location"), nil); err == nil {
			found = []pages.Link{{URL: to, Tag: "redirect"}}
		}
	case r.Kind == archive.Page && r.Body != nil:
		found = pages.HeaderLinks(header, r.URL)
		if start, _ := c.head.Peek(preference.Searched); !pages.Searches(start, contentType) {
			break
		}
		c.searched.Reset()
		_, _ = io.CopyN(&c.searched, r.Body, pages.MaxBytes+1) // one more shows that there is more
		r.Body = io.MultiReader(bytes.NewReader(c.searched.Bytes()), r.Body)
		if p, err := pages.LinksAndText(c.searched.Bytes(), contentType, r.URL, 0); err == nil {
			found = append(found, p.Links...)
		}
	}
	for _, l := range found[:min(len(found), pages.MaxRecorded)] {
		r.Links = append(r.Links, archive.Link{URL: l.URL, Kind: l.Kind(), Rel: l.Rel, Anchor: l.Anchor})
	}
}
