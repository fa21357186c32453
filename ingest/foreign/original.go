package foreign

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"sheaf/archive"
)

// keep stores the header fields that rec.Original can have. whole: these are all fields.
func keep(r *warcRecord, rec *archive.Record) (whole bool) {
	whole = true
	size := 0
	for _, f := range headerFields(r.head) {
		n := len(f.Name) + len(f.Value)
		if size+n > archive.MaxOriginal || archive.CheckOriginal([]archive.Field{f}) != nil {
			whole = false
			continue
		}
		rec.Original, size = append(rec.Original, f), size+n
	}
	return whole
}

// headerFields returns the fields of a WARC header in order, with folded lines joined.
func headerFields(head []byte) (fields []archive.Field) {
	_, text, _ := strings.Cut(string(head), "\r\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, crlf2), "\r\n") {
		if n := len(fields) - 1; n >= 0 && line != "" && isSpace(line[0]) {
			fields[n].Value = strings.TrimSpace(fields[n].Value + " " + strings.TrimSpace(line))
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		fields = append(fields, archive.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return fields
}

// isSpace reports whether a line that begins with c continues the line before.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// originalHead adds a metadata record to the others. Its block has r's WARC header and HTTP header,
// which the segment could not keep completely. See FORMAT.md.
func (c *conversion) originalHead(r *warcRecord) error {
	const maxHead = 256 << 10
	raw, err := io.ReadAll(io.LimitReader(r.block.from(0), maxHead))
	if err != nil {
		return err
	}
	head := bytes.Clone(r.head)
	if http, _, ok := cutHead(raw); ok && r.isHTTP() {
		head = append(head, http...)
	}
	about := ""
	if id := r.get("WARC-Record-ID"); id != "" {
		about = "WARC-Refers-To: " + id + "\r\n"
	}
	return c.others.add(r, fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: %s\r\n"+
		"WARC-Date: %s\r\nWARC-Target-URI: %s\r\n%sContent-Type: application/warc\r\nContent-Length: %d\r\n\r\n",
		archive.RecordID(head), r.get("WARC-Date"), r.url(), about, len(head)), bytes.NewReader(head))
}
