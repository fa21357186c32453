package sortedrun

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"sheaf/internal/files"
)

// Sorter sorts any number of rows with bounded memory: rows that do not fit are sorted in parts.
// The parts are spilled to one unnamed temporary file and merged (an external merge sort). A Sorter
// must not be used concurrently, and must be closed.
type Sorter struct {
	dir   string
	limit int
	order Order

	data []byte   // rows with their newlines, in the order in which they were added
	at   [][2]int // start of each row in data, and position of its newline

	spill *os.File
	parts []int64 // end of each part in spill
}

// NewSorter returns a sorter that holds limit bytes of rows in memory. It spills the rest to a file
// in dir; if dir is empty, in the system's directory for temporary files. Equal rows may come in
// any order.
func NewSorter(dir string, limit int, order Order) *Sorter {
	return &Sorter{dir: dir, limit: limit, order: order}
}

// Add adds whole rows, each with its newline.
func (s *Sorter) Add(rows []byte) error {
	if len(s.data) > 0 && len(s.data)+len(rows) > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	start := len(s.data)
	s.data = append(s.data, rows...)
	for start < len(s.data) {
		end := start + bytes.IndexByte(s.data[start:], '\n')
		s.at = append(s.at, [2]int{start, end})
		start = end + 1
	}
	return nil
}

// Rows returns all rows that were added, in order. It may be called again. Its result is valid
// until the next Add.
func (s *Sorter) Rows(ctx context.Context) (*Merged, error) {
	s.sort()
	parts := []Rows{&memoryRows{data: s.data, left: s.at}}
	start := int64(0)
	for _, end := range s.parts {
		parts = append(parts, NewReader(io.NewSectionReader(s.spill, start, end-start)))
		start = end
	}
	for _, p := range parts {
		if err := p.Next(ctx); err != nil {
			return nil, err
		}
	}
	return Merge(s.order, parts...), nil
}

// Close frees the temporary file. Do not use the sorter afterwards.
func (s *Sorter) Close() error {
	if s.spill == nil {
		return nil
	}
	return s.spill.Close()
}

// sort sorts at, the places of the rows in memory.
func (s *Sorter) sort() {
	slices.SortFunc(s.at, func(a, b [2]int) int { return s.order(s.data[a[0]:a[1]], s.data[b[0]:b[1]]) })
}

// flush spills the rows in memory as one more part.
func (s *Sorter) flush() (err error) {
	if s.spill == nil {
		if s.spill, err = files.Nameless(s.dir); err != nil {
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

// memoryRows are the Rows of sorted rows in memory.
type memoryRows struct {
	data []byte
	left [][2]int // start and end of the rows that follow
	row  []byte
}

func (m *memoryRows) Row() []byte { return m.row }

func (m *memoryRows) Next(context.Context) error {
	m.row = nil
	if len(m.left) > 0 {
		m.row, m.left = m.data[m.left[0][0]:m.left[0][1]], m.left[1:]
	}
	return nil
}

// Reader reads rows from an io.Reader.
type Reader struct {
	in  *bufio.Reader
	buf []byte
	row []byte
}

// NewReader returns the rows of r. The last row must also end with a newline. The first call of
// Next moves to the first row.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Row returns the current row, or nil behind the last one.
func (r *Reader) Row() []byte { return r.row }

// Next moves to the next row. It returns io.ErrUnexpectedEOF if the last row has no newline.
func (r *Reader) Next(context.Context) error {
	r.buf, r.row = r.buf[:0], nil
	for {
		some, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, some...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.buf) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		r.row = r.buf[:len(r.buf)-1]
		return nil
	}
}

// Merged is one sequence of the rows of several sequences. Equal rows all appear, in any order.
type Merged struct {
	from  []Rows
	heap  []head // the sequences that have a row; the first has the least row
	order Order
}

// head is a sequence and its current row.
type head struct {
	rows Rows
	row  []byte
}

// Merge merges sequences that are sorted by order. If they do not stand on their first rows yet,
// call Reset when they do.
func Merge(order Order, from ...Rows) *Merged {
	m := &Merged{from: from, heap: make([]head, 0, len(from)), order: order}
	m.Reset()
	return m
}

// Reset must be called after a sequence was moved other than by m.Next.
func (m *Merged) Reset() {
	m.heap = m.heap[:0]
	for _, r := range m.from {
		if row := r.Row(); row != nil {
			m.heap = append(m.heap, head{r, row})
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
}

// sink restores the heap after the row at i has become greater.
func (m *Merged) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.order(m.heap[child].row, m.heap[least].row) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

// Row returns the current row, or nil behind the last one.
func (m *Merged) Row() []byte {
	if len(m.heap) == 0 {
		return nil
	}
	return m.heap[0].row
}

// Next moves to the next row. It fails if ctx has ended.
func (m *Merged) Next(ctx context.Context) error {
	if len(m.heap) == 0 {
		return nil
	}
	first := &m.heap[0]
	if err := first.rows.Next(ctx); err != nil {
		return err
	}
	if first.row = first.rows.Row(); first.row == nil {
		last := len(m.heap) - 1
		*first = m.heap[last]
		m.heap = m.heap[:last]
	}
	m.sink(0)
	return ctx.Err()
}
