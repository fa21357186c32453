package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/naming"
	"sheaf/archive/sortedrun"
)

// Line is the JSON of a cell's line in an index, in the order of its fields.
type Line struct {
	URL       string    `json:"url"`
	MIME      string    `json:"mime"`
	Status    string    `json:"status"`
	Digest    string    `json:"digest"`
	Length    string    `json:"length"`
	Offset    string    `json:"offset"`
	Filename  string    `json:"filename"` // of the WARC file in which the record is at Offset; empty: the segment's WARC view
	Truncated string    `json:"truncated"`
	Nanos     int64     `json:"ns"`
	Refers    string    `json:"refers"`
	RefersTo  string    `json:"refersto"`
	Asked     string    `json:"preferences"`
	Part      string    `json:"part"` // Name of a Partial
	Cell      *[9]int64 `json:"cell"` // see Cell.numbers
}

const cdxTime = "20060102150405"

// AppendLine appends the cell's index line, without the brace and the newline at its end. off is
// the record's offset in the file.
func (c *Cell) AppendLine(b []byte, filename string, off int64) []byte {
	b = c.appendStandard(b, filename, off)
	if ns := c.Time.Nanosecond(); ns != 0 {
		b = strconv.AppendInt(append(b, `,"ns":`...), int64(ns), 10)
	}
	if !c.RefersDate.IsZero() {
		b = appendText(append(b, `,"refers":`...), c.RefersDate.UTC().Format(time.RFC3339Nano))
	}
	b = appendOptional(b, `,"refersto":`, c.RefersTo)
	b = appendOptional(b, `,"preferences":`, c.Preferences)
	if c.Kind == Partial {
		b = appendOptional(b, `,"part":`, c.Name)
	}
	return c.appendNumbers(append(b, ','))
}

// appendLine appends the cell's line in its segment's index.
func (c *Cell) appendLine(b []byte, warcOff int64) []byte {
	return append(c.AppendLine(b, "", warcOff), "}\n"...)
}

// appendStandard appends that beginning of an index line that other programs know, too.
func (c *Cell) appendStandard(b []byte, filename string, off int64) []byte {
	b = append(append(b, c.URLKey...), ' ')
	b = c.Time.UTC().AppendFormat(b, cdxTime)
	b = appendText(append(b, ` {"url":`...), c.URL)
	b = appendText(append(b, `,"mime":`...), c.MIME)
	b = append(strconv.AppendInt(append(b, `,"status":"`...), int64(c.Status), 10), '"')
	b = appendText(append(b, `,"digest":`...), c.Digest)
	b = append(strconv.AppendInt(append(b, `,"length":"`...), c.WARCLength(), 10), '"')
	b = append(strconv.AppendInt(append(b, `,"offset":"`...), off, 10), '"')
	b = appendOptional(b, `,"filename":`, filename)
	return appendOptional(b, `,"truncated":`, c.Truncated)
}

// appendNumbers appends the field "cell".
func (c *Cell) appendNumbers(b []byte) []byte {
	b = append(b, `"cell":`...)
	sep := byte('[')
	for _, n := range c.numbers() {
		b = strconv.AppendInt(append(b, sep), n, 10)
		sep = ','
	}
	return append(b, ']')
}

// appendOptional appends a name and a text, unless the text is empty.
func appendOptional(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, name...), text)
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

// Scan parses the JSON of an index line exactly as AppendLine writes it. It is much faster than
// encoding/json, which took most of the time of reading an index. For any other text, valid or not,
// it returns false: the caller then uses encoding/json. The strings share memory with the text.
func (l *Line) Scan(s *sortedrun.LineScanner) bool {
	ok := s.Text(`{"url":`, &l.URL) && s.Text(`,"mime":`, &l.MIME) && s.Text(`,"status":`, &l.Status) &&
		s.Text(`,"digest":`, &l.Digest) && s.Text(`,"length":`, &l.Length) && s.Text(`,"offset":`, &l.Offset)
	if !ok {
		return false
	}
	s.Text(`,"filename":`, &l.Filename) // a missing field is skipped
	s.Text(`,"truncated":`, &l.Truncated)
	s.Number(`,"ns":`, &l.Nanos)
	s.Text(`,"refers":`, &l.Refers)
	s.Text(`,"refersto":`, &l.RefersTo)
	s.Text(`,"preferences":`, &l.Asked)
	s.Text(`,"part":`, &l.Part)
	l.Cell = new([9]int64)
	before := `,"cell":[`
	for i := range l.Cell {
		if !s.Number(before, &l.Cell[i]) {
			return false
		}
		before = ","
	}
	return s.Skip("]")
}

// Fill sets the fields of c that the line gives, and checks them. at is the second before the JSON.
// If c.Name is set already, it must be what naming.FileName returns; host may then be empty.
func (l *Line) Fill(c *Cell, at time.Time, host string) (err error) {
	if l.Cell == nil {
		return errors.New("cell is missing")
	}
	if l.Nanos < 0 || l.Nanos >= int64(time.Second) {
		return fmt.Errorf("%d nanoseconds", l.Nanos)
	}
	c.URL, c.MIME, c.Digest, c.Truncated, c.Preferences = l.URL, l.MIME, l.Digest, l.Truncated, l.Asked
	c.Time = at.Add(time.Duration(l.Nanos))
	if c.Status, err = strconv.Atoi(l.Status); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if err := c.setNumbers(l.Cell); err != nil {
		return err
	}
	if c.HeadLen == 0 {
		return errors.New("a cell without a record")
	}
	return c.setKind(host, l.Refers, l.RefersTo, l.Part)
}

// scanLine parses the JSON of a line of a segment's index by Line.Scan.
func scanLine(text string) (l Line, ok bool) {
	s := sortedrun.LineScanner{Rest: strings.TrimSuffix(text, "\n")}
	ok = l.Scan(&s) && s.Rest == "}"
	return l, ok
}

// parseLine parses a line of a segment's index, and checks that its URL is the host's.
func parseLine(line, host string) (*Cell, error) {
	key, rest, _ := strings.Cut(line, " ")
	stamp, text, ok := strings.Cut(rest, " ")
	t, err := time.Parse(cdxTime, stamp)
	if !ok || err != nil {
		return nil, fmt.Errorf("line %.60q does not begin with a URL key and a 14-digit time", line)
	}
	l, ok := scanLine(text)
	if !ok {
		l = Line{}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, fmt.Errorf("JSON after %.60q: %w", key, err)
		}
	}
	if h, err := naming.HostOf(l.URL); err != nil {
		return nil, err
	} else if h != host {
		return nil, fmt.Errorf("URL %.100q is not of the host %s", l.URL, host)
	}
	c := &Cell{URLKey: strings.Clone(key)}
	for _, s := range []*string{&l.URL, &l.MIME, &l.Digest, &l.Truncated, &l.RefersTo, &l.Asked, &l.Part} {
		*s = strings.Clone(*s) // so that a cell does not keep the whole line in memory
	}
	if err := l.Fill(c, t, host); err != nil {
		return nil, fmt.Errorf("line of %.60q: %w", l.URL, err)
	}
	return c, nil
}

// cdxjMemory limits the lines that are sorted in memory, in bytes.
const cdxjMemory = 8 << 20

// CDXJ sorts the standard index lines of a WARC view by key and time. It holds 8 MiB of lines in
// memory, and further lines in a temporary file. Close it, and do not use it concurrently.
type CDXJ struct {
	filename string // the view's
	at       int64  // where the next record begins in the view
	lines    *sortedrun.Sorter
	line     []byte
}

// NewCDXJ begins the index of a WARC view. Its lines give filename as the view's file.
func NewCDXJ(filename string) *CDXJ {
	return &CDXJ{filename: filename, at: WARCStart(), lines: sortedrun.NewSorter("", cdxjMemory, bytes.Compare)}
}

// Add adds the lines of a part's wanted cells. The parts must come in the order of the view.
func (x *CDXJ) Add(p Part) error {
	if err := p.check(); err != nil {
		return err
	}
	for c := range p.wanted() {
		x.line = append(c.appendStandard(x.line[:0], x.filename, x.at), "}\n"...)
		if err := x.lines.Add(x.line); err != nil {
			return err
		}
		x.at += c.WARCLength()
	}
	return nil
}

// WriteCDXJ writes the index of the parts' WARC view. Its lines give filename as the view's file.
func WriteCDXJ(ctx context.Context, w io.Writer, filename string, parts []Part) (err error) {
	x := NewCDXJ(filename)
	defer func() { err = errors.Join(err, x.Close()) }()
	for _, p := range parts {
		if err := x.Add(p); err != nil {
			return err
		}
	}
	return x.Write(ctx, w)
}

// Write writes all lines, sorted by key and time.
func (x *CDXJ) Write(ctx context.Context, w io.Writer) error {
	lines, err := x.lines.Rows(ctx)
	out := bufio.NewWriter(w)
	for ; err == nil && lines.Row() != nil; err = lines.Next(ctx) {
		out.Write(lines.Row())
		if err := out.WriteByte('\n'); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// Close deletes the temporary file.
func (x *CDXJ) Close() error { return x.lines.Close() }
