package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
	"sheaf/internal/media"
)

// forge is a segment in parts. A test changes some of them; build then sets every length, sum and
// offset that follows, so that only the rule that was broken is left to notice.
type forge struct {
	t     testing.TB
	comp  *deflate.Compressor
	cells []*forgedCell
	was   []Cell // what the index says of the cells, places and sums apart

	lines   func([]string) []string // changes the index lines
	name    string                  // of the index cell
	time    time.Time               // of the index cell
	headers func([]byte) []byte     // changes the index cell's tar headers
	extra   []byte                  // fields of the index cell's B besides WL
	end     func(off, n int64) []byte
	tail    []byte // after the end member
}

// forgedCell is one cell in parts. What is nil follows from the rest.
type forgedCell struct {
	headers                    []byte // tar headers; empty in a WARC-only cell
	warc, http                 string
	cut                        []byte // body in WP
	body                       []byte
	headerRun, headRun, run    []byte // runs of tar headers, heads and body
	pad, ws, tExtra, tFinal    []byte
	fields                     func(ws, wp []byte) []byte
	headerSize, headSize, size int64 // added to ISIZE of T, of WS and of B
}

// newForge takes three kinds of cells apart: a page with every tar header, a page in stored blocks,
// an error page and a revisit.
func newForge(t testing.TB) *forge {
	first := page("/long/"+strings.Repeat("n", 80)+".html", "text/html", []byte("<p>first"), 0)
	first.Truncated = "length"
	cut := &Record{Kind: Response, URL: "http://" + testHost + "/b", Time: testTime.Add(time.Second), IP: "192.0.2.2",
		HTTP: []byte("HTTP/1.1 404 No\r\nContent-Type: text/plain\r\n\r\n"), Body: strings.NewReader("not found")}
	same := &Record{Kind: Revisit, URL: "http://" + testHost + "/c", Time: testTime.Add(2 * time.Second), HTTP: []byte("HTTP/1.1 304 Same\r\n\r\n"),
		RefersDate: testTime.AddDate(0, 0, -1), PayloadDigest: digestString(make([]byte, 32))}
	data, x := seal(t, []*Record{first, cut, same, page("/d.jpg", "image/jpeg", noise(100, 7), 3)}, "forged")
	comp, err := deflate.NewCompressor(6)
	if err != nil {
		t.Fatal(err)
	}
	f := &forge{t: t, comp: comp, was: x.Cells, name: naming.IndexName(testHost, "forged"), time: x.Cells[3].Time}
	for _, c := range x.Cells {
		f.cells = append(f.cells, takeApart(t, data, &c))
	}
	if again, _ := f.build(); !bytes.Equal(again, data) {
		t.Fatal("put together unchanged, the segment differs from the writer's")
	}
	return f
}

func takeApart(t testing.TB, data []byte, c *Cell) *forgedCell {
	t.Helper()
	decoded := func(s span) []byte {
		var b bytes.Buffer
		if err := deflate.NewInflater().Inflate(&b, bytes.NewReader(data[s.off:s.end()])); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	out := &forgedCell{headers: decoded(c.headerBlocks()), body: decoded(c.bodyBlocks())}
	head := string(decoded(span{c.record().off + gzipHeader, c.HeadLen - gzipHeader}))
	n := strings.Index(head, crlf2) + len(crlf2)
	out.warc, head = head[:n], head[n:]
	n = strings.Index(head, crlf2) + len(crlf2)
	out.http, out.cut = head[:n], []byte(head[n:])
	if media.IsCompressed(c.MIME) {
		out.run = data[c.bodyBlocks().off:c.bodyBlocks().end()]
	}
	return out
}

func or(given, otherwise []byte) []byte {
	if given != nil {
		return given
	}
	return otherwise
}

// put appends the cell to data and notes its places and sums in c.
func (f *forge) put(data []byte, s *forgedCell, c *Cell) []byte {
	comp := f.comp
	c.Offset, c.HeaderLen, c.HeaderCRC, c.BodyLen = int64(len(data)), int64(len(s.headers)), deflate.CRC(s.headers), int64(len(s.body))
	data = appendMember(data, s.tExtra, or(s.headerRun, appendHead(comp, nil, s.headers, c)), or(s.tFinal, []byte{3, 0}), c.HeaderCRC, c.HeaderLen+s.headerSize)
	c.TLen = int64(len(data)) - c.Offset

	head := s.warc + s.http + string(s.cut)
	whole := head + string(s.body) + crlf2
	wp := append([]byte(gzipPlainStart), or(s.headRun, appendHead(comp, nil, []byte(head), c))...)
	ws := or(s.ws, appendTrailer([]byte(recordEnd), deflate.CRC([]byte(whole)), int64(len(whole))+s.headSize))
	run, pad := or(s.run, comp.Run(s.body)), padding(int64(len(s.body)))
	c.HeadLen, c.BodyCRC = int64(len(wp)), deflate.CRC(s.body)
	c.RecordCRC = crc32.Update(crc32.Update(deflate.CRC(wp), crc32.IEEETable, run), crc32.IEEETable, ws)
	extra := appendField(appendField(nil, "WS", ws), "WP", wp)
	if s.fields != nil {
		extra = s.fields(ws, wp)
	}
	data = appendMember(data, extra, run, or(s.pad, padBlock(c.BodyLen)), deflate.CRCWithZeros(c.BodyCRC, pad), c.BodyLen+int64(pad)+s.size)
	c.BLen = int64(len(data)) - c.Offset - c.TLen
	return data
}

// build returns the segment, and where its cells, its index cell and its end member begin.
func (f *forge) build() (data []byte, starts []int64) {
	var lines []string
	warcOff := int64(len(warcInfo()))
	for i, s := range f.cells {
		starts = append(starts, int64(len(data)))
		c := f.was[i]
		data = f.put(data, s, &c)
		lines = append(lines, string(c.appendLine(nil, warcOff)))
		warcOff += c.WARCLength()
	}
	if f.lines != nil {
		lines = f.lines(lines)
	}
	content := []byte(strings.Join(lines, ""))
	headers := (&tarEntry{name: f.name, size: int64(len(content)), modified: f.time}).headers()
	if f.headers != nil {
		headers = f.headers(headers)
	}
	at := int64(len(data))
	data = f.tarOnly(data, headers, content, f.extra)
	end := EndMember
	if f.end != nil {
		end = f.end
	}
	starts = append(starts, at, int64(len(data)))
	data = append(data, end(at, int64(len(data))-at)...)
	return append(data, f.tail...), append(starts, int64(len(data)))
}

func (f *forge) tarOnly(data, headers, content, extra []byte) []byte {
	comp := f.comp
	data = appendMember(data, nil, comp.Run(headers), []byte{3, 0}, deflate.CRC(headers), int64(len(headers)))
	pad := padding(int64(len(content)))
	return appendMember(data, extra, comp.Run(content), padBlock(int64(len(content))), deflate.CRCWithZeros(deflate.CRC(content), pad), int64(len(content)+pad))
}

// Where a forgery is to be noticed, besides the cells' numbers.
const (
	atIndex = 4
	atEnd   = 5
)

// refused checks that the verifier rejects the forgery at its place, for the reason given.
func (f *forge) refused(t *testing.T, where int, reason string) {
	t.Helper()
	data, starts := f.build()
	_, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost})
	var ferr *FormatError
	if !errors.As(err, &ferr) {
		t.Fatalf("verified with %v", err)
	}
	if ferr.Offset < starts[where] || ferr.Offset >= starts[where+1] && where != atEnd {
		t.Errorf("offset is not from %d to %d: %v", starts[where], starts[where+1], err)
	}
	if !strings.Contains(err.Error(), reason) {
		t.Errorf("error %q does not speak of %q", err, reason)
	}
}

// renew sets what the WARC header says of the block and of the record itself.
func (c *forgedCell) renew(digests, id bool) {
	if digests {
		block, payload := sha256.New(), sha256.New()
		block.Write([]byte(c.http))
		for _, part := range [][]byte{c.cut, c.body} {
			block.Write(part)
			payload.Write(part)
		}
		c.set("WARC-Payload-Digest", digestString(payload.Sum(nil)))
		c.set("WARC-Block-Digest", digestString(block.Sum(nil)))
	}
	if h, err := parseWARC([]byte(c.warc)); id && err == nil {
		c.set("WARC-Record-ID", h.ownID())
	}
}

func (c *forgedCell) value(name string) string {
	_, rest, _ := strings.Cut(c.warc, "\r\n"+name+": ")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func (c *forgedCell) set(name, value string) {
	c.warc = strings.Replace(c.warc, name+": "+c.value(name)+"\r\n", name+": "+value+"\r\n", 1)
}
