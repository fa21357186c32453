package archive

import (
	"io"
	"time"
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
