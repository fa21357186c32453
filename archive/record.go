package archive

import (
	"io"
	"time"
)

// Kind says what a cell holds.
type Kind int8

const (
	Page     Kind = iota + 1 // a page: a file in the tar and a response record in the WARC
	Response                 // a redirect or an error: a WARC record only, its body cut to fit
	Revisit                  // an unchanged page: a WARC revisit record only
)

func (k Kind) String() string {
	switch k {
	case Page:
		return "page"
	case Response:
		return "response"
	case Revisit:
		return "revisit"
	}
	return "unknown"
}

// The profiles of a revisit: why the page is taken to be unchanged.
const (
	IdenticalPayload  = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	ServerNotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// Why a body is not complete, in the terms of WARC.
const (
	TruncatedLength      = "length"     // a limit of the one who fetched or stored it
	TruncatedTime        = "time"       // it came too slowly
	TruncatedDisconnect  = "disconnect" // it broke off
	TruncatedUnspecified = "unspecified"
)

// Record is what a robot passes to a Writer: one exchange with a server.
type Record struct {
	Kind Kind
	URL  string    // absolute, as a URL parser serialises it: printable ASCII, no fragment
	Time time.Time // when it was fetched
	IP   string    // the server's address; may be empty
	HTTP []byte    // status line and headers as stored, ended by an empty line (CRLFCRLF)

	// Body is the body after decoding the transfer and content codings. It is read to its end for a
	// Page, as far as it fits for a Response, and nil for a Revisit.
	Body io.Reader

	// Deflated is Body as a Deflater of the segment's level has written it; nil: Append deflates.
	// It is used for a Page that is stored whole, and is not checked.
	Deflated *Deflated

	// Truncated says why the body is not complete, by one of the Truncated constants. It is empty
	// if the body is complete.
	Truncated string

	// Preferences are what the response asks of those who use it, as package preference writes it.
	Preferences string

	// Original is the header of the WARC record from which this one was imported, in order. Its
	// WARC-Record-ID becomes this record's. The other fields are kept: under their own names, if
	// Sheaf writes none of that name or one with the same value; else with X-Original- before it.
	Original []Field

	// PayloadDigest, RefersTo, RefersDate and Profile describe what a Revisit refers to: a Page or,
	// in an import, also a Response. Of one in a segment, PayloadDigest is its Cell.Digest. Of one
	// that is known from another crawler's record only, it may also be "sha1:" or "md5:" and
	// base32, or empty. An empty RefersTo means the URL, an empty Profile IdenticalPayload. For a
	// Page, PayloadDigest is the digest of Body if the caller knows it already, and is not checked;
	// if it is empty, Append computes it.
	RefersTo      string
	RefersDate    time.Time
	PayloadDigest string
	Profile       string

	// Links are the references of a Page, or the target of a redirect. They go into the segment's
	// links cell. Those that the format cannot hold are left out.
	Links []Link
}
