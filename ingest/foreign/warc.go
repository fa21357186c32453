package foreign

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// Bounds of a foreign record's header.
const (
	maxLine   = 64 << 10
	maxFields = 1000
)

// warcRecord is one record of a foreign WARC (ISO 28500:2009 and :2017).
type warcRecord struct {
	at     int64 // where it begins, inflated
	head   []byte
	fields textproto.MIMEHeader // the first value of a name counts
	length int64                // of the block
	block  io.Reader
}

func (r *warcRecord) get(name string) string { return r.fields.Get(name) }
func (r *warcRecord) url() string            { return strings.Trim(r.get("WARC-Target-URI"), "<> ") }

// nextRecord reads a record's header; io.EOF where there is none. The block of the one before
// must have been read.
func (s *stream) nextRecord() (*warcRecord, error) {
	var line string
	var err error
	at := s.n
	for { // two empty lines end a record; some writers leave out one, or add some
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
	switch version {
	case "WARC/1.0", "WARC/1.1", "WARC/0.17", "WARC/0.18":
	default:
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

// date is the record's WARC-Date.
func (r *warcRecord) date() (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, r.get("WARC-Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("WARC-Date is %.40q, want a time as RFC 3339 has it", r.get("WARC-Date"))
	}
	return t.UTC(), nil
}

// isHTTP reports whether the block is an answer of an HTTP server, head and all.
func (r *warcRecord) isHTTP() bool {
	media := strings.ToLower(strings.ReplaceAll(r.get("Content-Type"), " ", ""))
	return strings.HasPrefix(media, "application/http") && !strings.Contains(media, "msgtype=request")
}

// check compares the block with its digest, where one is given that is known here.
func (r *warcRecord) check(b *block) error {
	text := r.get("WARC-Block-Digest")
	name, _, _ := strings.Cut(text, ":")
	make := algorithms[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "")]
	if make == nil {
		return nil
	}
	h := make()
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

// cutHead divides a block, of which at least the header is given, after its first empty line.
func cutHead(b []byte) (head, rest []byte, ok bool) {
	n := bytes.Index(b, []byte(crlf2)) + len(crlf2)
	if lf := bytes.Index(b, []byte("\n\n")) + 2; lf >= 2 && (n < len(crlf2) || lf < n) {
		n = lf
	} else if n < len(crlf2) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
