package urlindex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/archive/sortedrun"
)

// Row is one record, with everything needed to open it without its segment's index.
type Row struct {
	archive.Cell // as in the segment's index
	// Seq is the sequence number of the catalog's entry that names the segment.
	Seq int64
	// Before is the size of the records before this one in the segment's WARC view, in bytes.
	Before int64
	// Filename is the path of the host's .warc.gz of the edition in the served tree, without the
	// leading slash. FileOffset is the record's offset in it. Both were right when the row was
	// made: a later take-down moves the records that follow in the file.
	Filename   string
	FileOffset int64
}

// Position returns the row's place in the order of the index.
func (r *Row) Position() Position {
	return Position{Key: r.URLKey, Time: r.Time, Seq: r.Seq, Offset: r.Offset}
}

// Host returns the host that naming.HostOf derives from the row's URL.
func (r *Row) Host() string {
	host, _ := naming.HostOf(r.URL) // parsing and making a row have checked the URL
	return host
}

// pageName returns the row's Name if the URL alone determines it; otherwise "".
func (r *Row) pageName() string {
	if r.Kind == archive.Page {
		return r.Name
	}
	return ""
}

// edition returns the edition that Filename names.
func (r *Row) edition() string {
	return strings.TrimSuffix(r.Filename[strings.LastIndexByte(r.Filename, '/')+1:], warcSuffix)
}

// warcSuffix is the suffix of WARC files in the tree.
const warcSuffix = ".warc.gz"

// timeForm is the layout of the time in a CDXJ line.
const timeForm = "20060102150405"

// rowLine is the JSON of a row, in the order of its fields.
type rowLine struct {
	archive.Line
	Seq    int64 `json:"seq"`
	Before int64 `json:"before"`
}

// appendRow appends a row's line with its newline.
func appendRow(b []byte, r *Row) []byte {
	b = r.AppendLine(b, r.Filename, r.FileOffset)
	b = strconv.AppendInt(append(b, `,"seq":`...), r.Seq, 10)
	b = strconv.AppendInt(append(b, `,"before":`...), r.Before, 10)
	return append(b, "}\n"...)
}

// scanRow parses the JSON of a row exactly as appendRow writes it. For any other text, valid or
// not, ok is false; see archive.Line.Scan.
func scanRow(text string) (l rowLine, ok bool) {
	s := sortedrun.LineScanner{Rest: text}
	ok = l.Scan(&s) && s.Number(`,"seq":`, &l.Seq) && s.Number(`,"before":`, &l.Before) && s.Rest == "}"
	return l, ok
}

// head returns the URL key, space and time with which a well-formed line begins.
func head(line []byte) []byte { return line[:bytes.IndexByte(line, ' ')+1+len(timeForm)] }

// checkLine checks that a line has a head with JSON behind it.
func checkLine(line []byte) error {
	i := bytes.IndexByte(line, ' ')
	if i <= 0 || len(line) < i+len(timeForm)+3 || line[i+len(timeForm)+1] != ' ' || line[i+len(timeForm)+2] != '{' {
		return fmt.Errorf("line %.60q does not begin with a URL key, a 14-digit time and an object: %w", line, ErrCorrupt)
	}
	return nil
}

// parseRow parses a line, with or without its newline.
func parseRow(line []byte) (*Row, error) { return parseAfter(nil, line) }

// parseAfter is parseRow, given the row before the line, or nil. Rows of one URL follow one
// another, so parseAfter takes from that row what the URL determines.
func parseAfter(before *Row, line []byte) (*Row, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if err := checkLine(line); err != nil {
		return nil, err
	}
	r, err := parseChecked(before, line)
	if err != nil {
		return nil, fmt.Errorf("row of %.100q: %w: %w", head(line), err, ErrCorrupt)
	}
	return r, nil
}

func parseChecked(before *Row, line []byte) (*Row, error) {
	h := head(line)
	at, err := time.Parse(timeForm, string(h[len(h)-len(timeForm):]))
	if err != nil {
		return nil, err
	}
	text := line[len(h)+1:]
	l, ok := scanRow(string(text))
	if !ok {
		l = rowLine{}
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
	}
	return l.row(before, h[:len(h)-len(timeForm)-1], at)
}

// row checks the parsed fields and returns them as a row. before is as in parseAfter.
func (l *rowLine) row(before *Row, key []byte, at time.Time) (_ *Row, err error) {
	r := &Row{Seq: l.Seq, Before: l.Before, Filename: l.Filename}
	if before != nil && before.URL == l.URL {
		l.URL, r.Name = before.URL, before.pageName()
	}
	host := ""
	if r.Name == "" {
		if host, err = naming.HostOf(l.URL); err != nil {
			return nil, err
		}
	}
	if before != nil && before.URLKey == string(key) {
		r.URLKey = before.URLKey
	} else {
		r.URLKey = string(key)
	}
	if err := l.Fill(&r.Cell, at, host); err != nil {
		return nil, err
	}
	if r.FileOffset, err = strconv.ParseInt(l.Offset, 10, 64); err != nil {
		return nil, fmt.Errorf("offset: %w", err)
	}
	switch {
	case l.Length != strconv.FormatInt(r.WARCLength(), 10):
		return nil, fmt.Errorf("length %q is not that of its cell, %d", l.Length, r.WARCLength())
	case r.Seq <= 0 || r.Before < 0 || r.FileOffset < archive.WARCStart()+r.Before:
		return nil, fmt.Errorf("entry %d, %d bytes before it, offset %d", r.Seq, r.Before, r.FileOffset)
	case !strings.HasSuffix(r.Filename, warcSuffix):
		return nil, fmt.Errorf("file name %q does not end in %s", r.Filename, warcSuffix)
	}
	return r, nil
}

// Position is a row's place in the order of the index: by URL key, time, sequence number and place
// in the segment. It depends on the record alone.
type Position struct {
	Key    string    `json:"k,omitempty"` // URL key
	Time   time.Time `json:"w,omitzero"`
	Seq    int64     `json:"s,omitempty"` // sequence number of the catalog's entry
	Offset int64     `json:"o,omitempty"` // of the record's cell in its segment
}

// Compare returns a negative number if p is before q, 0 if they are equal, and otherwise a positive
// number.
func (p Position) Compare(q Position) int {
	return cmp.Or(strings.Compare(p.Key, q.Key), p.Time.Compare(q.Time), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Offset, q.Offset))
}

// head returns the URL key and time with which the position's line begins.
func (p Position) head() []byte {
	return p.Time.UTC().AppendFormat(append([]byte(p.Key), ' '), timeForm)
}

// Range is a section of the index. Its bounds are compared as bytes with lines, which begin with a
// URL key and a space. Exact and Prefix return the usual ranges.
type Range struct {
	From    string    // lines that sort before it are excluded
	To      string    // lines that sort at or behind it are excluded; empty: no bound
	After   *Position // only rows after it, in the direction of the walk; nil: all
	Reverse bool      // from the last row to the first
}

// Exact returns the range of one URL key.
func Exact(key string) Range { return Range{From: key + " ", To: key + "!"} }

// Prefix returns the range of all URL keys with a prefix. URL keys are ASCII without spaces.
func Prefix(prefix string) Range { return Range{From: prefix, To: prefix + "\x7f"} }

// compareLines compares well-formed lines by their positions. Lines with the same head have the
// same URL key and second. That is rare, so compareLines then parses both lines.
func compareLines(a, b []byte) int {
	if c := bytes.Compare(head(a), head(b)); c != 0 {
		return c
	}
	p, perr := parseRow(a)
	q, qerr := parseRow(b)
	if perr != nil || qerr != nil {
		return bytes.Compare(a, b) // decoding them will report the error
	}
	return p.Position().Compare(q.Position())
}
