package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"time"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
)

// next reads one cell, or the end member. It returns io.EOF if the input ends between cells.
func (w *walker) next() (item, error) {
	if _, err := w.in.Peek(1); err == io.EOF {
		return item{}, io.EOF
	}
	w.taps = nil
	t, err := w.member("a cell's first member")
	if err != nil {
		return item{}, err
	}
	if it, ok, err := w.end(t); ok || err != nil {
		return it, err
	}
	if t.fields != 0 {
		return item{}, w.fail(corrupt("a tar header's member has extra fields besides WL"), t.start)
	}
	c := Cell{Place: Place{Offset: t.start, TLen: t.length}}
	headers, err := w.tarHeaders(t, &c)
	if err != nil {
		return item{}, err
	}
	b, err := w.member("a cell's second member")
	if err != nil {
		return item{}, err
	}
	c.BLen = b.length
	if b.ws == nil && b.wp == nil {
		return w.tarOnly(b, &c, headers)
	}
	if b.wp == nil || b.ws == nil || b.wi != nil {
		return item{}, w.fail(corrupt("a body's member must have WL, WS and WP"), b.start)
	}
	if err := w.record(b, &c, headers); err != nil {
		return item{}, w.recordFault(err, &c, headers)
	}
	w.cell++
	if c.Time.After(w.last) {
		w.last = c.Time
	}
	return item{kind: cellItem, cell: c}, nil
}

// recordFault returns the error of a cell whose record is not right. If the cell's tar headers are
// not those of one file, that is the error.
func (w *walker) recordFault(err error, c *Cell, headers []byte) error {
	if len(headers) > 0 {
		if _, ferr := parseTarHeaders(headers); ferr != nil {
			err = w.fail(ferr, c.Offset)
		}
	}
	if ferr, ok := errors.AsType[*FormatError](err); ok && ferr.Entry == "" {
		ferr.Entry = c.URL
	}
	return err
}

// record reads a B with a record, after B's head, and compares it with headers, the decoded T.
func (w *walker) record(b *member, c *Cell, headers []byte) error {
	c.HeadLen = int64(len(b.wp))
	head, err := w.head(b)
	if err != nil {
		return err
	}
	n := bytes.Index(head, []byte(crlf2)) + len(crlf2)
	if n < len(crlf2) {
		return w.fail(corrupt("the WARC header has no end"), b.wpOff)
	}
	h, err := parseWARC(head[:n])
	if err != nil {
		return w.fail(corrupt("WARC header: %v", err), b.wpOff)
	}
	block := head[n:]
	httpEnd := bytes.Index(block, []byte(crlf2)) + len(crlf2)
	if httpEnd < len(crlf2) {
		return w.fail(corrupt("the HTTP header has no end"), b.wpOff)
	}
	http, cutBody := block[:httpEnd], block[httpEnd:]
	if len(headers) > 0 {
		h.kind = Page
		c.BodyLen = h.length - int64(httpEnd)
		if len(cutBody) > 0 || c.BodyLen < 0 {
			return w.fail(corrupt("WP holds %d bytes of body, which must be in the blocks after it", len(cutBody)), b.wpOff)
		}
	} else if h.length != int64(len(block)) {
		return w.fail(corrupt("Content-Length is %d, but WP holds %d bytes", h.length, len(block)), b.wpOff)
	}
	c.URL = h.url
	if err := w.identity(b, c, h, head[:n], http); err != nil {
		return err
	}
	if len(headers) > 0 {
		if err := w.sameEntry(c, headers); err != nil {
			return err
		}
	}
	return w.body(b, c, h, head, http, cutBody)
}

// head decodes WP: the WARC header, the HTTP header and the body if WP holds it.
func (w *walker) head(b *member) ([]byte, error) {
	if len(b.wp) > maxWP || !bytes.HasPrefix(b.wp, []byte(gzipPlainStart)) {
		return nil, w.fail(corrupt("WP of %d bytes is over %d or does not begin with % x", len(b.wp), maxWP, gzipPlainStart), b.wpOff+min(firstDifference(b.wp, []byte(gzipPlainStart)), int64(len(b.wp))-1))
	}
	buf := limitedBuffer{max: maxHead}
	count := &meter{w: w, out: &buf, what: "WP", most: math.MaxInt64, // out has its limit
		stored: b.start + b.length}
	if err := w.inflate.Inflate(count, bytes.NewReader(b.wp[gzipHeader:])); err != nil {
		var ferr *FormatError
		if !errors.As(err, &ferr) {
			ferr = corrupt("WP: %v", err)
		}
		return nil, w.fail(ferr, b.wpOff)
	}
	return buf.Bytes(), nil
}

// identity checks the record's header and copies its fields to c.
func (w *walker) identity(b *member, c *Cell, h *warcHead, head, http []byte) error {
	host, err := naming.HostOf(h.url)
	if err == nil {
		err = h.check()
	}
	if err == nil {
		err = h.fillCell(c, host, http)
	}
	if err != nil {
		return w.fail(corrupt("%v", err), b.wpOff)
	}
	if w.host == "" || w.mixed {
		w.host = host
	}
	if host != w.host {
		return w.fail(corrupt("a record of host %s among those of %s", host, w.host), b.wpOff)
	}
	if want := h.bytes(); !bytes.Equal(head, want) {
		return w.fail(corrupt("WARC header has %s", difference(head, want)), b.wpOff)
	}
	return nil
}

// difference describes the first line in which two headers differ.
func difference(got, want []byte) string {
	g, v := strings.SplitAfter(string(got), "\n"), strings.SplitAfter(string(want), "\n")
	for i := range min(len(g), len(v)) {
		if g[i] != v[i] {
			return fmt.Sprintf("line %d %.120q, want %.120q", i+1, g[i], v[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(v))
}

// sameEntry checks that T is exactly the tar header of the record.
func (w *walker) sameEntry(c *Cell, headers []byte) error {
	want := c.tarEntry().headers()
	if bytes.Equal(headers, want) {
		return nil
	}
	e, ferr := parseTarHeaders(headers)
	switch at := firstDifference(headers, want); {
	case ferr != nil:
		return w.fail(ferr, c.Offset)
	case e.name != c.Name:
		ferr = corrupt("entry is called %q, want %q", e.name, c.Name)
		if !strings.HasPrefix(e.name, naming.HostDir(w.host)+"/") {
			ferr.Code = codePathEscape
		}
	case at < int64(min(len(headers), len(want))):
		ferr = corrupt("tar header byte %d is %#02x, want %#02x from its record", at, headers[at], want[at])
	default:
		ferr = corrupt("the tar header is not the one of its record")
	}
	ferr.Entry = e.name
	return w.fail(ferr, c.Offset)
}

// file reads the blocks of a cell's file into sum, and the end of the member b. It sets c.BodyCRC.
// The rule of expansion holds for the bytes up to the end of within. what is the file's name in
// messages.
func (w *walker) file(b, within *member, c *Cell, sum *fileSum, what string, taps ...io.Writer) error {
	pad := padBlock(c.BodyLen)
	n := b.start + b.length - trailerSize - int64(len(pad)) - b.blocksStart()
	if n < 0 {
		return w.fail(corrupt("WL says %d bytes, too few for the padding of %s of %d", b.length, what, c.BodyLen), b.start)
	}
	if err := w.blocks(within, n, c.BodyLen, sum, what, taps...); err != nil {
		return err
	}
	if sum.n != c.BodyLen {
		return w.fail(corrupt("%s has %d bytes, want %d from its header", what, sum.n, c.BodyLen), b.blocksStart())
	}
	c.BodyCRC = sum.crc
	zeros := padding(c.BodyLen)
	if err := w.finish(pad, deflate.CRCWithZeros(c.BodyCRC, zeros), c.BodyLen+int64(zeros), what+"'s member"); err != nil {
		return err
	}
	w.views.tarFile(c)
	return nil
}

// body reads the blocks and the end of B, and checks every digest and sum.
func (w *walker) body(b *member, c *Cell, h *warcHead, head, http, cutBody []byte) error {
	if c.BodyLen > w.opt.MaxBody {
		return w.fail(&FormatError{Code: codeBombRatio, Excess: true, Msg: fmt.Sprintf("body of %d bytes is over the allowed %d", c.BodyLen, w.opt.MaxBody)}, b.start)
	}
	record := crc32.NewIEEE()
	record.Write(b.wp)
	w.views.warc.Write(b.wp)
	sum := newBodySum(http)
	sum.Write(cutBody)
	if err := w.file(b, b, c, &sum.file, "the body", &w.views.single, record, &w.views.warc); err != nil {
		return err
	}
	if h.kind != Revisit {
		if got := digestString(sum.payload.Sum(nil)); got != h.payloadDigest {
			return w.fail(&FormatError{Code: codeSHA, Msg: fmt.Sprintf("payload digest is %s, want %s from the body", h.payloadDigest, got)}, b.wpOff)
		}
	} else if len(cutBody) > 0 {
		return w.fail(corrupt("a revisit has a body of %d bytes", len(cutBody)), b.wpOff)
	}
	if got := digestString(sum.block.Sum(nil)); got != h.blockDigest {
		return w.fail(&FormatError{Code: codeSHA, Msg: fmt.Sprintf("block digest is %s, want %s from the block", h.blockDigest, got)}, b.wpOff)
	}
	whole := deflate.JoinCRC(deflate.JoinCRC(deflate.CRC(head), c.BodyCRC, c.BodyLen), deflate.CRC([]byte(crlf2)), 4)
	want := appendTrailer([]byte(recordEnd), whole, int64(len(head))+c.BodyLen+4)
	if !bytes.Equal(b.ws, want) {
		return w.fail(corrupt("WS is % x, want % x from the record", b.ws, want), b.start+memberHead+fieldHead+firstDifference(b.ws, want))
	}
	record.Write(b.ws)
	c.RecordCRC = record.Sum32()
	w.views.warc.Write(b.ws)
	return nil
}

// tarOnly reads B of a links, index or manifest cell, after B's head.
func (w *walker) tarOnly(b *member, c *Cell, headers []byte) (item, error) {
	if b.fields != 0 {
		return item{}, w.fail(corrupt("a tar-only cell's body has extra fields besides WL"), b.start)
	}
	e, ferr := parseTarHeaders(headers)
	if ferr != nil {
		return item{}, w.fail(ferr, c.Offset)
	}
	c.Name, c.BodyLen = e.name, e.size
	it, out, modified, ferr := w.metaEntry(e)
	if ferr != nil {
		return item{}, w.fail(ferr, c.Offset)
	}
	if want := (&tarEntry{name: e.name, size: e.size, modified: modified}).headers(); !bytes.Equal(headers, want) {
		return item{}, w.fail(corrupt("the tar header of %q differs from the one that FORMAT.md gives", e.name), c.Offset)
	}
	if err := w.tarOnlyBody(b, c, it.kind, out); err != nil {
		return item{}, err
	}
	switch out := out.(type) {
	case *limitedBuffer:
		it.manifest = out.Bytes()
	case *lineWriter:
		if len(out.part) > 0 {
			return item{}, w.fail(corrupt("%s: the last line does not end with a newline", c.Name), b.start)
		}
	}
	it.cell = *c
	return it, nil
}

// metaEntry recognises an entry without a record by its name. It returns the item that the entry
// begins, a writer for its body, and the time that its tar header must have.
func (w *walker) metaEntry(e *tarEntry) (it item, out io.Writer, modified time.Time, _ *FormatError) {
	if e.name == manifestName {
		return item{kind: manifestItem}, &limitedBuffer{max: maxManifest}, time.Unix(0, 0), nil
	}
	it.kind, out = indexItem, &lineWriter{what: "index line", emit: w.onLine}
	host, segment, ok := naming.ParseMetaName(e.name, ".cdxj")
	if !ok {
		host, segment, ok = naming.ParseMetaName(e.name, ".links")
		it.kind = linksItem
	}
	if w.host == "" && ok {
		w.host = host
	}
	if !ok || host != w.host {
		ferr := corrupt("entry %q without a record is neither the links or index cell of %s nor a batch's manifest", e.name, w.host)
		if !strings.HasPrefix(e.name, naming.HostDir(w.host)+"/") {
			ferr.Code = codePathEscape
		}
		return it, nil, modified, ferr
	}
	it.segment, w.segmentID = segment, segment
	if it.kind == linksItem {
		out = &lineWriter{what: "line", emit: (&linkChecker{host: w.host}).line}
	}
	if w.cell == 0 || w.mixed { // only the index is read, or cells that it does not list are read, too
		return it, out, e.modified, nil
	}
	return it, out, w.last, nil
}

// tarOnlyBody reads the body of a cell without a record into out, and the end of its member.
func (w *walker) tarOnlyBody(b *member, c *Cell, kind itemKind, out io.Writer) error {
	taps := []io.Writer{&w.views.single}
	if kind == linksItem {
		taps = append(taps, w.views.linksTap())
	}
	within := b
	if kind == indexItem && w.cell > 0 && w.onLine != nil && !w.mixed {
		within = &member{} // each line is compared with the cells, so the rule of expansion is not needed
	}
	if err := w.file(b, within, c, &fileSum{to: out}, c.Name, taps...); err != nil {
		return err
	}
	if kind == linksItem {
		w.views.linksFile(c)
	}
	return nil
}

// lineWriter splits the text that is written to it into lines.
type lineWriter struct {
	what string
	emit func(line string) error // may be nil
	part []byte
	n    int
}

func (l *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			l.part = append(l.part, rest...)
			if len(l.part) > maxLine {
				return 0, corrupt("%s %d is longer than %d bytes", l.what, l.n+1, maxLine)
			}
			break
		}
		line := append(l.part, rest[:i+1]...)
		l.part, rest = l.part[:0], rest[i+1:]
		l.n++
		if l.emit == nil {
			continue
		}
		if err := l.emit(string(line)); err != nil {
			return 0, corrupt("%s %d: %v", l.what, l.n, err)
		}
	}
	return len(p), nil
}
