package archive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"sheaf/archive/sortedrun"
)

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
