package foreign

import (
	"bytes"
	"fmt"
	"io"
	"net/textproto"
	"strings"
	"time"
)

// warcRecord is one record of a foreign WARC (ISO 28500:2009 and :2017).
type warcRecord struct {
	at     int64 // its offset in the inflated file
	head   []byte
	fields textproto.MIMEHeader // of several values of one name the first counts
	length int64                // of the block
	block  io.Reader
	query  string // what its request adds to the URL; see methodQuery
}

func (r *warcRecord) get(name string) string { return r.fields.Get(name) }
func (r *warcRecord) url() string            { return strings.Trim(r.get("WARC-Target-URI"), "<> ") }

// date returns the record's WARC-Date.
func (r *warcRecord) date() (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, r.get("WARC-Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("WARC-Date is %.40q, want a time as RFC 3339 has it", r.get("WARC-Date"))
	}
	return t.UTC(), nil
}

// isHTTP reports whether the block is an HTTP response with its head.
func (r *warcRecord) isHTTP() bool {
	media := strings.ToLower(strings.ReplaceAll(r.get("Content-Type"), " ", ""))
	return strings.HasPrefix(media, "application/http") && !strings.Contains(media, "msgtype=request")
}

// crlf2 ends a header.
const crlf2 = "\r\n\r\n"

// cutHead splits a block after its first empty line. b has the block or the beginning of it.
func cutHead(b []byte) (head, rest []byte, ok bool) {
	n := bytes.Index(b, []byte(crlf2)) + len(crlf2)
	if lf := bytes.Index(b, []byte("\n\n")) + 2; lf >= 2 && (n < len(crlf2) || lf < n) {
		n = lf
	} else if n < len(crlf2) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// printable is for strings.Map: it drops what is not printable ASCII.
func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}
