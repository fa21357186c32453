// Package linesort sorts any number of lines with bounded memory, for the catalog and the URL
// index.
//
// It is an external merge sort: lines that do not fit into memory are sorted in parts, which are
// spilled to one unnamed temporary file. Merging the parts is left to the caller, because the
// callers also merge lines from other sources in the same way.
package linesort

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"sheaf/internal/scratch"
)

// Sorter sorts lines. It must not be used concurrently, and must be closed.
type Sorter struct {
	dir     string
	limit   int
	compare func(a, b []byte) int

	data  []byte   // lines with their newlines, in the order in which they were added
	at    [][2]int // start of each line in data, and position of its newline
	lines int64    // number of lines added

	spill *os.File
	parts []int64 // end of each part in spill
}

// New returns a sorter that holds limit bytes of lines in memory and spills the rest to a file in
// dir, or in the system's directory for temporary files if dir is empty. compare gets lines without
// their newlines. Lines that it calls equal may come in any order.
func New(dir string, limit int, compare func(a, b []byte) int) *Sorter {
	return &Sorter{dir: dir, limit: limit, compare: compare}
}

// Add adds whole lines, each with its newline.
func (s *Sorter) Add(lines []byte) error {
	if len(s.data) > 0 && len(s.data)+len(lines) > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	start := len(s.data)
	s.data = append(s.data, lines...)
	for start < len(s.data) {
		end := start + bytes.IndexByte(s.data[start:], '\n')
		s.at = append(s.at, [2]int{start, end})
		start = end + 1
		s.lines++
	}
	return nil
}

// Len returns the number of lines added.
func (s *Sorter) Len() int64 { return s.lines }

// Parts returns all lines as several sorted sequences, each positioned on its first line. They are
// valid until the next Add. Parts may be called again.
func (s *Sorter) Parts() ([]*Lines, error) {
	s.sort()
	parts := []*Lines{{data: s.data, left: s.at}}
	start := int64(0)
	for _, end := range s.parts {
		parts = append(parts, From(io.NewSectionReader(s.spill, start, end-start)))
		start = end
	}
	for _, p := range parts {
		if err := p.Next(); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// Close closes the temporary file.
func (s *Sorter) Close() error {
	if s.spill == nil {
		return nil
	}
	return s.spill.Close()
}

// sort sorts the lines in memory.
func (s *Sorter) sort() {
	slices.SortFunc(s.at, func(a, b [2]int) int { return s.compare(s.data[a[0]:a[1]], s.data[b[0]:b[1]]) })
}

// flush spills the lines in memory as one more part.
func (s *Sorter) flush() (err error) {
	if s.spill == nil {
		if s.spill, err = scratch.File(s.dir); err != nil {
			return err
		}
	}
	s.sort()
	w := bufio.NewWriterSize(s.spill, 1<<20)
	for _, at := range s.at {
		if _, err := w.Write(s.data[at[0] : at[1]+1]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	end := int64(len(s.data))
	if n := len(s.parts); n > 0 {
		end += s.parts[n-1]
	}
	s.parts = append(s.parts, end)
	s.data, s.at = s.data[:0], s.at[:0]
	return nil
}

// Lines is a sequence of lines, from memory or from a file.
type Lines struct {
	data []byte
	left [][2]int

	file *bufio.Reader // nil: from memory
	buf  []byte

	at []byte
}

// From returns the lines of r, whose last line must end with a newline. Call Next to get to the
// first.
func From(r io.Reader) *Lines { return &Lines{file: bufio.NewReaderSize(r, 64<<10)} }

// Line returns the current line without its newline, or nil at the end. It is valid until Next.
func (l *Lines) Line() []byte { return l.at }

// Next moves to the next line.
func (l *Lines) Next() error {
	l.at = nil
	if l.file != nil {
		return l.read()
	}
	if len(l.left) > 0 {
		l.at, l.left = l.data[l.left[0][0]:l.left[0][1]], l.left[1:]
	}
	return nil
}

func (l *Lines) read() error {
	l.buf = l.buf[:0]
	for {
		some, err := l.file.ReadSlice('\n')
		l.buf = append(l.buf, some...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.buf) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		l.at = l.buf[:len(l.buf)-1]
		return nil
	}
}
