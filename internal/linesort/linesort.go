// Package linesort puts any number of lines in order with bounded memory.
//
// It is the external merge sort as the catalog and the URL index need it: lines that do not fit are
// sorted in parts, which are spilled to one temporary file without a name, and read
// back side by side. Merging them is left to who reads: those readers merge lines of other
// sources by the same rules.
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

// Sorter takes lines and gives them back in order. It is good for one goroutine, and must be closed.
type Sorter struct {
	dir     string
	limit   int
	compare func(a, b []byte) int

	data  []byte   // lines with their newlines, as they came
	at    [][2]int // where in data each begins, and ends with its newline
	lines int64    // in all

	spill *os.File
	parts []int64 // where in spill each part ends
}

// New makes a sorter that holds limit bytes of lines in memory and spills what is more
// into dir, the system's directory for such where that is empty. compare is given lines without their newlines;
// lines that are equal by it may come in any order.
func New(dir string, limit int, compare func(a, b []byte) int) *Sorter {
	return &Sorter{dir: dir, limit: limit, compare: compare}
}

// Add takes whole lines, each with its newline.
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

// Len is how many lines were added.
func (s *Sorter) Len() int64 { return s.lines }

// Parts gives all that was added, divided into sequences that are in order, each
// standing on its first line. They are good until the next Add, and may be asked for again.
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

// Close gives the temporary file free.
func (s *Sorter) Close() error {
	if s.spill == nil {
		return nil
	}
	return s.spill.Close()
}

// sort puts the lines in memory in order.
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

// Lines is a sequence of lines, in memory or out of a file.
type Lines struct {
	data []byte
	left [][2]int

	file *bufio.Reader // nil: in memory
	buf  []byte

	at []byte
}

// From reads lines out of r, which ends with a newline. It stands on the first of them after Next.
func From(r io.Reader) *Lines { return &Lines{file: bufio.NewReaderSize(r, 64<<10)} }

// Line gives the line that the sequence stands on, without its newline, good until Next; nil behind the last.
func (l *Lines) Line() []byte { return l.at }

// Next goes to the next line.
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
