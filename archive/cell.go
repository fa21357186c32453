package archive

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sheaf/archive/naming"
)

// Kind is the kind of record that a cell holds.
type Kind int8

const (
	Page     Kind = iota + 1 // a page: a file in the tar and a response record in the WARC
	Response                 // a redirect or an error: a WARC record only, its body cut to fit
	Revisit                  // an unchanged page: a WARC revisit record only
	Partial                  // a part of a page, see media.IsPartial: a file in the tar and a response record in the WARC
)

// HasFile reports whether cells of the kind are files in the tar.
func (k Kind) HasFile() bool { return k == Page || k == Partial }

func (k Kind) String() string {
	if k < Page || k > Partial {
		return "unknown"
	}
	return [...]string{Page: "page", Response: "response", Revisit: "revisit", Partial: "partial"}[k]
}

// The profiles of a revisit say why the page counts as unchanged.
const (
	IdenticalPayload  = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	ServerNotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// The reasons why a body is not complete, in the terms of WARC.
const (
	TruncatedLength      = "length"     // longer than the fetcher or the writer allows
	TruncatedTime        = "time"       // the body came too slowly
	TruncatedDisconnect  = "disconnect" // the connection broke off
	TruncatedUnspecified = "unspecified"
)

// Record is one exchange with a server, as a robot passes it to a Writer.
type Record struct {
	Kind Kind      // Page also for what becomes a Partial
	URL  string    // absolute, as a URL parser serialises it: printable ASCII, no fragment
	Time time.Time // when it was fetched
	IP   string    // the server's address; may be empty
	HTTP []byte    // status line and headers as stored, ended by an empty line (CRLFCRLF)

	// Body is the body without transfer and content codings. It is read as far as the segment can
	// hold it. For a Revisit it is nil.
	Body io.Reader

	// Deflated is what a Deflater with the segment's level has made of Body. If it is nil, Append
	// deflates Body. Append uses it for a Page that is stored whole, and does not check it.
	Deflated *Deflated

	// Truncated says why the body is not complete, by one of the Truncated constants. It is empty
	// if the body is complete.
	Truncated string

	// Preferences are the response's conditions on use, as package preference writes them.
	Preferences string

	// Original holds the fields of the WARC record from which this one was imported, in order. Its
	// WARC-Record-ID becomes this record's. A field that Sheaf writes with another value is kept
	// with X-Original- before its name; the others are kept as they are.
	Original []Field

	// PayloadDigest, RefersTo, RefersDate and Profile name the Page that a Revisit refers to; in an
	// import it may also be a Response. PayloadDigest is the Cell.Digest of that record. If only
	// another crawler's revisit names the record, the digest may also be "sha1:" or "md5:" and
	// base32, or empty. An empty RefersTo means URL, an empty Profile means IdenticalPayload. For a
	// Page, PayloadDigest is the digest of Body. Append does not check it, and computes it if it is
	// empty.
	RefersTo      string
	RefersDate    time.Time
	PayloadDigest string
	Profile       string

	// Links are the references of a Page, or the target of a redirect. They go into the segment's
	// links cell, except for links that the format cannot hold.
	Links []Link
}

// ErrRefused says that a segment cannot hold a record, for example because the record's URL is
// invalid or of another host. The next record can still be appended.
var ErrRefused = errors.New("record refused")

// Cell is one cell as the index describes it: the record's metadata, and the places of its parts.
// Offsets are from the segment's start.
type Cell struct {
	Kind      Kind
	URLKey    string // of naming.SURT
	URL       string
	Name      string // the tar entry's; empty unless Kind.HasFile
	MIME      string // media type in lower case; "unk" where the server gave none, "warc/revisit" for a Revisit
	Time      time.Time
	Status    int
	Digest    string // of the payload: "sha256:" and base32; of a Revisit, see Record.PayloadDigest
	Truncated string // as in Record
	Reference
	Preferences string // as in Record

	Place
}

// Place holds the offsets, lengths and sums of a cell's parts. Views need no more of a cell.
type Place struct {
	Offset int64 // of T, the cell's first byte
	TLen   int64 // T's length
	BLen   int64 // B's length; B follows T

	HeaderLen int64  // tar headers, decoded; 0 where the cell is WARC-only
	HeadLen   int64  // WP: gzip header and blocks of the WARC and HTTP headers
	BodyLen   int64  // the file, decoded
	HeaderCRC uint32 // of the tar headers
	BodyCRC   uint32 // of the file, without padding
	RecordCRC uint32 // of the record's bytes in the WARC view
}

// Reference names the page of a Revisit.
type Reference struct {
	RefersDate time.Time
	RefersTo   string // URL; empty: the revisit's own
}

// Len returns the number of stored bytes of the cell: T and B.
func (c *Place) Len() int64 { return c.TLen + c.BLen }

// Cut reports whether the record's body is incomplete for another reason than its length.
func (c *Cell) Cut() bool { return c.Truncated != "" && c.Truncated != TruncatedLength }

// span is a range of stored bytes.
type span struct{ off, n int64 }

func (s span) end() int64 { return s.off + s.n }

// headerBlocks returns the range of the tar headers' blocks.
func (c *Place) headerBlocks() span { return span{c.Offset + memberHead, c.TLen - emptyMember} }

// recordTail returns the range of WS's data.
func (c *Place) recordTail() span {
	return span{c.Offset + c.TLen + memberHead + fieldHead, wsSize}
}

// record returns the range from WP's data to the end of the body's blocks.
func (c *Place) record() span {
	start := c.Offset + c.TLen + bodyHead
	return span{start, c.bodyBlocks().end() - start}
}

// bodyBlocks returns the range of the file's blocks.
func (c *Place) bodyBlocks() span {
	start := c.Offset + c.TLen + memberHead
	if c.HeadLen > 0 { // else WS and WP are absent: an index cell
		start = c.Offset + c.TLen + bodyHead + c.HeadLen
	}
	return span{start, c.Offset + c.Len() - trailerSize - int64(len(padBlock(c.BodyLen))) - start}
}

// file returns the range from the blocks of the file to B's end. With a gzip header before it, the
// range is a gzip member of only the file and its padding.
func (c *Place) file() span {
	start := c.bodyBlocks().off
	return span{start, c.Offset + c.Len() - start}
}

// filesLength returns the length of a page's cell in the files view.
func (c *Place) filesLength() int64 { return c.TLen + int64(len(gzipPlainStart)) + c.file().n }

// WARCLength returns the length of the record in the WARC view.
func (c *Place) WARCLength() int64 { return c.record().n + wsSize }

// Check checks that the numbers fit one another, so that views can rely on them.
func (c *Place) Check() error {
	const most = 1 << 50
	for _, n := range []int64{c.Offset, c.TLen, c.BLen, c.HeaderLen, c.HeadLen, c.BodyLen} {
		if n < 0 || n > most {
			return fmt.Errorf("length or offset %d is out of range", n)
		}
	}
	if c.TLen < emptyMember || c.HeadLen > maxWP || c.bodyBlocks().n < 0 {
		return fmt.Errorf("members of %d and %d bytes cannot hold a cell with %d bytes of headers", c.TLen, c.BLen, c.HeadLen)
	}
	return nil
}

// numbers returns the nine numbers of an index line's "cell" field. Views are made from them.
func (c *Cell) numbers() *[9]int64 {
	return &[9]int64{c.Offset, c.TLen, c.HeaderLen, int64(c.HeaderCRC), c.BLen, c.HeadLen, c.BodyLen, int64(c.BodyCRC), int64(c.RecordCRC)}
}

// setNumbers sets the fields that numbers returns, and checks them.
func (c *Cell) setNumbers(n *[9]int64) error {
	for _, crc := range []int64{n[3], n[7], n[8]} {
		if crc < 0 || crc > 1<<32-1 {
			return fmt.Errorf("CRC32 %d is out of range", crc)
		}
	}
	c.Offset, c.TLen, c.HeaderLen, c.HeaderCRC = n[0], n[1], n[2], uint32(n[3])
	c.BLen, c.HeadLen, c.BodyLen, c.BodyCRC, c.RecordCRC = n[4], n[5], n[6], uint32(n[7]), uint32(n[8])
	return c.Check()
}

// setKind derives the kind from the numbers, the media type and part. For a page or a Partial it
// also sets the name; for a revisit it sets the date and the URL to which the revisit refers. part
// is empty or the name of a Partial. refers is empty or in the form of RFC 3339. If Name is set
// before, it must be what naming.FileName returns; host may then be empty.
func (c *Cell) setKind(host, refers, refersTo, part string) (err error) {
	switch {
	case c.HeaderLen > 0 && part != "":
		c.Kind, c.Name = Partial, part
	case c.HeaderLen > 0:
		if c.Kind = Page; c.Name == "" {
			c.Name = naming.FileName(host, c.URL)
		}
	case c.MIME == revisitMIME:
		c.Kind, c.Name, c.RefersTo = Revisit, "", refersTo
		if refers != "" {
			if c.RefersDate, err = time.Parse(time.RFC3339Nano, refers); err != nil {
				return fmt.Errorf("refers: %w", err)
			}
		}
	default:
		c.Kind, c.Name = Response, ""
	}
	return nil
}
