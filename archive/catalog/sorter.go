package catalog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
)

// sorter puts any number of rows in order with bounded memory: what does not fit
// is sorted in parts, which are spilled to one temporary file and merged when
// they are read. Rows may be equal.
type sorter struct {
	dir   string // of the temporary file
	limit int    // bytes of rows held in memory

	data    []byte   // rows with their newlines, as they came
	ends    []int    // where in data each ends
	inOrder [][]byte // the rows in data, once they have been put in order

	spill *os.File
	parts []int64 // where in spill each part ends
}

func newSorter(dir string, limit int) *sorter { return &sorter{dir: dir, limit: limit} }

// add takes one row, which ends with a newline and has no other.
func (s *sorter) add(row []byte) error {
	if len(s.data) > 0 && len(s.data)+len(row) > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.inOrder = nil
	s.data = append(s.data, row...)
	s.ends = append(s.ends, len(s.data))
	return nil
}

// sorted gives the rows in memory, in order.
func (s *sorter) sorted() [][]byte {
	if s.inOrder != nil {
		return s.inOrder
	}
	rows := make([][]byte, len(s.ends))
	start := 0
	for i, end := range s.ends {
		rows[i] = s.data[start:end]
		start = end
	}
	slices.SortFunc(rows, bytes.Compare)
	s.inOrder = rows
	return rows
}

// flush spills the rows in memory as one more sorted part.
func (s *sorter) flush() (err error) {
	if s.spill == nil {
		if s.spill, err = tempFile(s.dir); err != nil {
			return err
		}
	}
	w := bufio.NewWriterSize(s.spill, 1<<20)
	for _, row := range s.sorted() {
		if _, err := w.Write(row); err != nil {
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
	s.data, s.ends, s.inOrder = s.data[:0], s.ends[:0], nil
	return nil
}

// rows gives everything that was added, in order, as often as it is called.
func (s *sorter) rows(ctx context.Context) (rows, error) {
	memory := &slice{left: s.sorted()}
	from := []rows{memory}
	start := int64(0)
	for _, end := range s.parts {
		r := bufio.NewReaderSize(io.NewSectionReader(s.spill, start, end-start), 64<<10)
		from = append(from, &part{r: r})
		start = end
	}
	for _, r := range from {
		if err := r.next(ctx); err != nil {
			return nil, err
		}
	}
	return mergeRows(from...), nil
}

func (s *sorter) close() error {
	if s.spill == nil {
		return nil
	}
	return s.spill.Close()
}

// slice is rows in memory, which end with newlines.
type slice struct {
	at   []byte
	left [][]byte
}

func (s *slice) row() []byte { return s.at }

func (s *slice) next(context.Context) error {
	s.at = nil
	if len(s.left) > 0 {
		s.at, s.left = bytes.TrimSuffix(s.left[0], []byte("\n")), s.left[1:]
	}
	return nil
}

// part is rows in a file, one a line.
type part struct {
	r  *bufio.Reader
	at []byte
}

func (p *part) row() []byte { return p.at }

func (p *part) next(context.Context) error {
	line, err := p.r.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) == 0 {
		p.at = nil
		return nil
	}
	p.at = bytes.TrimSuffix(line, []byte("\n"))
	return err
}
