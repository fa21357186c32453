package urlindex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
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

// rowJSON is the JSON of a row, in the order of its fields.
type rowJSON struct {
	URL       string    `json:"url"`
	MIME      string    `json:"mime"`
	Status    string    `json:"status"`
	Digest    string    `json:"digest"`
	Length    string    `json:"length"`
	Offset    string    `json:"offset"`
	Filename  string    `json:"filename"`
	Truncated string    `json:"truncated,omitempty"`
	Nanos     int64     `json:"ns,omitempty"`
	Refers    string    `json:"refers,omitempty"`
	RefersTo  string    `json:"refersto,omitempty"`
	Asked     string    `json:"preferences,omitempty"`
	Part      string    `json:"part,omitempty"`
	Cell      *[9]int64 `json:"cell"`
	Seq       int64     `json:"seq"`
	Before    int64     `json:"before"`
}

// appendRow appends a row's line with its newline.
func appendRow(b []byte, r *Row) []byte {
	b = append(append(b, r.URLKey...), ' ')
	b = r.Time.UTC().AppendFormat(b, timeForm)
	b = appendText(append(b, ` {"url":`...), r.URL)
	b = appendText(append(b, `,"mime":`...), r.MIME)
	b = append(strconv.AppendInt(append(b, `,"status":"`...), int64(r.Status), 10), '"')
	b = appendText(append(b, `,"digest":`...), r.Digest)
	b = append(strconv.AppendInt(append(b, `,"length":"`...), r.WARCLength(), 10), '"')
	b = append(strconv.AppendInt(append(b, `,"offset":"`...), r.FileOffset, 10), '"')
	b = appendText(append(b, `,"filename":`...), r.Filename)
	if r.Truncated != "" {
		b = appendText(append(b, `,"truncated":`...), r.Truncated)
	}
	if ns := r.Time.Nanosecond(); ns != 0 {
		b = strconv.AppendInt(append(b, `,"ns":`...), int64(ns), 10)
	}
	if !r.RefersDate.IsZero() {
		b = appendText(append(b, `,"refers":`...), r.RefersDate.UTC().Format(time.RFC3339Nano))
	}
	if r.RefersTo != "" {
		b = appendText(append(b, `,"refersto":`...), r.RefersTo)
	}
	if r.Preferences != "" {
		b = appendText(append(b, `,"preferences":`...), r.Preferences)
	}
	if r.Kind == archive.Partial {
		b = appendText(append(b, `,"part":`...), r.Name)
	}
	b = append(b, `,"cell":`...)
	sep := byte('[')
	for _, n := range r.Numbers() {
		b = strconv.AppendInt(append(b, sep), n, 10)
		sep = ','
	}
	b = strconv.AppendInt(append(b, `],"seq":`...), r.Seq, 10)
	b = strconv.AppendInt(append(b, `,"before":`...), r.Before, 10)
	return append(b, "}\n"...)
}

// appendText appends s as a JSON string, without HTML escapes.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted := bytes.NewBuffer(b)
			enc := json.NewEncoder(quoted)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(s) // cannot fail: a string, to memory
			return bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))
		}
	}
	return append(append(append(b, '"'), s...), '"')
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
	j, ok := scanRow(string(text))
	if !ok {
		j = rowJSON{}
		if err := json.Unmarshal(text, &j); err != nil {
			return nil, err
		}
	}
	return j.row(before, h[:len(h)-len(timeForm)-1], at)
}

// row checks the parsed fields and returns them as a row. before is as in parseAfter.
func (j *rowJSON) row(before *Row, key []byte, at time.Time) (*Row, error) {
	r := &Row{Seq: j.Seq, Before: j.Before, Filename: j.Filename}
	r.URL, r.MIME, r.Digest, r.Truncated = j.URL, j.MIME, j.Digest, j.Truncated
	host := ""
	if before != nil && before.URL == j.URL {
		r.URL, r.Name = before.URL, before.pageName()
	}
	if r.Name == "" {
		var err error
		if host, err = naming.HostOf(j.URL); err != nil {
			return nil, err
		}
	}
	if before != nil && before.URLKey == string(key) {
		r.URLKey = before.URLKey
	} else {
		r.URLKey = string(key)
	}
	if j.Cell == nil {
		return nil, fmt.Errorf("cell is missing")
	}
	status, err := strconv.Atoi(j.Status)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	r.Status = status
	if j.Nanos < 0 || j.Nanos >= int64(time.Second) {
		return nil, fmt.Errorf("%d nanoseconds", j.Nanos)
	}
	r.Preferences = j.Asked
	r.Time = at.Add(time.Duration(j.Nanos))
	if err := r.SetNumbers(j.Cell); err != nil {
		return nil, err
	}
	if err := r.SetKind(host, j.Refers, j.RefersTo, j.Part); err != nil {
		return nil, err
	}
	if r.FileOffset, err = strconv.ParseInt(j.Offset, 10, 64); err != nil {
		return nil, fmt.Errorf("offset: %w", err)
	}
	switch {
	case r.HeadLen == 0 || j.Length != strconv.FormatInt(r.WARCLength(), 10):
		return nil, fmt.Errorf("length %q is not that of its cell, %d", j.Length, r.WARCLength())
	case r.Seq <= 0 || r.Before < 0 || r.FileOffset < archive.WARCStart()+r.Before:
		return nil, fmt.Errorf("entry %d, %d bytes before it, offset %d", r.Seq, r.Before, r.FileOffset)
	case !strings.HasSuffix(r.Filename, warcSuffix):
		return nil, fmt.Errorf("file name %q does not end in %s", r.Filename, warcSuffix)
	}
	return r, nil
}
