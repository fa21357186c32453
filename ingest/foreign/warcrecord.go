package foreign

import (
	"bytes"
	"fmt"
	"net/textproto"
	"strings"
	"time"
)

// warcRecord is one record of a foreign WARC (ISO 28500:2009 and :2017).
type warcRecord struct {
	at     int64 // its offset in the inflated file
	spot   spot  // place in the file, for lenient reading
	head   []byte
	fields textproto.MIMEHeader // if a name has several values, the first counts
	length int64                // of the block
	block  *block               // once it was read
	query  string               // addition of its request to the URL; see methodQuery
}

func (r *warcRecord) get(name string) string { return r.fields.Get(name) }
func (r *warcRecord) url() string            { return strings.Trim(r.get("WARC-Target-URI"), "<> ") }

// date returns the record's WARC-Date.
func (r *warcRecord) date() (time.Time, error) { return r.time("WARC-Date") }

// dateLayouts are the forms of dates: WARC/1.1's forms, of any precision, and WARC/0.17 writers'
// forms.
var dateLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006", "2006-01-02T15:04:05", "20060102150405"}

// time returns the time in a field. For a less precise time, such as a day, it returns the
// beginning.
func (r *warcRecord) time(name string) (time.Time, error) {
	text := strings.ToUpper(r.get(name))
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is %.40q, want a time such as 2026-11-21T02:03:04Z", name, r.get(name))
}

// isHTTP reports whether Content-Type says that the block is an HTTP response. In a response record
// the field may be missing.
func (r *warcRecord) isHTTP() bool {
	mediaType := strings.ToLower(strings.ReplaceAll(r.get("Content-Type"), " ", ""))
	return mediaType == "" || strings.HasPrefix(mediaType, "application/http") && !strings.Contains(mediaType, "msgtype=request")
}

// crlf2 ends a header.
const crlf2 = "\r\n\r\n"

// cutHead splits a block after its first empty line. b is the block or its beginning. A line ends
// with LF, with or without CR before it (RFC 9112, 2.2).
func cutHead(b []byte) (head, rest []byte, ok bool) {
	for n := 0; ; {
		line := bytes.IndexByte(b[n:], '\n')
		if line < 0 {
			return nil, nil, false
		}
		n += line + 1
		for _, empty := range []string{"\n", "\r\n"} {
			if bytes.HasPrefix(b[n:], []byte(empty)) {
				n += len(empty)
				return b[:n], b[n:], true
			}
		}
	}
}

// printable is for strings.Map: it drops everything except printable ASCII.
func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}
