package foreign

import (
	"encoding/base32"
	"io"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"sheaf/internal/wire"
)

// Limits of a record's header: bytes of a line, and number of lines.
const (
	maxLine   = 64 << 10
	maxFields = 1000
)

// warcVersions are the first lines of records that this package reads.
var warcVersions = []string{"WARC/1.0", "WARC/1.1", "WARC/0.17", "WARC/0.18"}

// nextRecord reads the header of the next record, or returns io.EOF. The previous record's block
// must have been read.
func (s *input) nextRecord() (*warcRecord, error) {
	version, at, err := s.firstLine()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(warcVersions, version) {
		return nil, wrong(at, "", wire.ReasonCorruptMember, "a record begins with %.40q, want WARC/1.0 or WARC/1.1", version)
	}
	r := &warcRecord{at: at, spot: spot{within: at}, head: []byte(version + "\r\n"), fields: make(textproto.MIMEHeader)}
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
		name, _, ok := strings.Cut(line, ":")
		folded := n > 0 && isSpace(line[0])
		switch {
		case n >= maxFields:
			return nil, wrong(s.n, "", wire.ReasonCorruptMember, "a record with more than %d header lines", maxFields)
		case !folded && (!ok || name == ""):
			return nil, wrong(s.n, "", wire.ReasonCorruptMember, "header line %.80q has no name and colon", line)
		}
	}
	for _, f := range headerFields(r.head) {
		r.fields.Add(f.Name, f.Value)
	}
	if r.length, err = strconv.ParseInt(r.get("Content-Length"), 10, 64); err != nil || r.length < 0 {
		return nil, wrong(at, r.url(), wire.ReasonCorruptMember, "Content-Length is %.40q, want a number of bytes", r.get("Content-Length"))
	}
	if r.get("WARC-Type") == "" {
		return nil, wrong(at, r.url(), wire.ReasonCorruptMember, "a record without WARC-Type")
	}
	return r, nil
}

// check compares the block with the record's WARC-Block-Digest, if the digest's algorithm is known.
func (r *warcRecord) check() error {
	text := r.get("WARC-Block-Digest")
	name, _, h := algorithm(text)
	if h == nil {
		return nil
	}
	if _, err := io.Copy(h, r.block.from(0)); err != nil {
		return err
	}
	sum := h.Sum(nil)
	if want, ok := parseDigest(text); !ok || want.sum != string(sum) {
		return wrong(r.at, r.url(), wire.ReasonSHAMismatch, "its block has %s %s, WARC-Block-Digest says %.80q", name, base32.StdEncoding.EncodeToString(sum), text)
	}
	return nil
}
