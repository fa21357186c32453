package foreign

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// Limits of a record's header: bytes of a line, and lines.
const (
	maxLine   = 64 << 10
	maxFields = 1000
)

// warcVersions are the first lines of records that are read.
var warcVersions = []string{"WARC/1.0", "WARC/1.1", "WARC/0.17", "WARC/0.18"}

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

// nextRecord reads the header of the next record, or returns io.EOF. The block of the record before
// must have been read.
func (s *stream) nextRecord() (*warcRecord, error) {
	var line string
	var err error
	at := s.n
	for { // two empty lines end a record, but some writers write one, or more
		if line, err = s.line(maxLine); err == io.EOF && line == "" {
			if s.disk != nil {
				return nil, s.disk
			}
			return nil, io.EOF
		} else if err != nil {
			return nil, s.reading(err, "")
		}
		if strings.TrimRight(line, "\r\n") != "" {
			break
		}
		at = s.n
	}
	version := strings.TrimRight(line, "\r\n")
	if !slices.Contains(warcVersions, version) {
		return nil, wrong(at, "", wire.ReasonCorruptMember, "a record begins with %.40q, want WARC/1.0 or WARC/1.1", version)
	}
	r := &warcRecord{at: at, head: []byte(version + "\r\n"), fields: make(textproto.MIMEHeader)}
	last := ""
	for n := 0; ; n++ {
		line, err := s.line(maxLine)
		if err != nil {
			return nil, s.reading(err, r.url())
		}
		line = strings.TrimRight(line, "\r\n")
		r.head = append(append(r.head, line...), "\r\n"...)
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		switch {
		case n >= maxFields:
			return nil, wrong(s.n, r.url(), wire.ReasonCorruptMember, "a record with more than %d header lines", maxFields)
		case last != "" && (line[0] == ' ' || line[0] == '\t'): // folded
			values := r.fields[last]
			values[len(values)-1] += " " + strings.TrimSpace(line)
			continue
		case !ok || name == "":
			return nil, wrong(s.n, r.url(), wire.ReasonCorruptMember, "header line %.80q has no name and colon", line)
		}
		last = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		r.fields[last] = append(r.fields[last], strings.TrimSpace(value))
	}
	if r.length, err = strconv.ParseInt(r.get("Content-Length"), 10, 64); err != nil || r.length < 0 {
		return nil, wrong(at, r.url(), wire.ReasonCorruptMember, "Content-Length is %.40q, want a number of bytes", r.get("Content-Length"))
	}
	if r.get("WARC-Type") == "" {
		return nil, wrong(at, r.url(), wire.ReasonCorruptMember, "a record without WARC-Type")
	}
	r.block = io.LimitReader(s, r.length)
	return r, nil
}

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

// check compares the block with its digest, if the record states one of a known algorithm.
func (r *warcRecord) check(b *block) error {
	text := r.get("WARC-Block-Digest")
	name, _, h := algorithm(text)
	if h == nil {
		return nil
	}
	if _, err := io.Copy(h, b.from(0)); err != nil {
		return err
	}
	sum := h.Sum(nil)
	if want, ok := parseDigest(text); !ok || want.sum != string(sum) {
		return wrong(r.at, r.url(), wire.ReasonSHAMismatch, "its block has %s %s, WARC-Block-Digest says %.80q", name, base32.StdEncoding.EncodeToString(sum), text)
	}
	return nil
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
