package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
)

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
	taps := append(w.views.tarTap(), record)
	taps = append(taps, w.views.warcTap(b.wp)...)
	sum := newBodySum(http)
	sum.Write(cutBody)
	if err := w.file(b, b, c, &sum.file, "the body", taps...); err != nil {
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
	w.views.warcEnd(b.ws)
	return nil
}
