package urlindex

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
)

// sorter puts any number of lines in order with bounded memory: what does not fit is sorted
// in parts, which are spilled to one temporary file and merged when they are read.
type sorter struct {
	dir   string // of the temporary file
	limit int    // bytes of lines held in memory

	data []byte   // lines with their newlines, as they came
	at   [][2]int // where in data each begins and ends
	rows int64    // in all

	spill *os.File
	parts []int64 // where in spill each part ends
}

func newSorter(dir string, limit int) *sorter { return &sorter{dir: dir, limit: limit} }

// add takes lines, each with its newline.
func (s *sorter) add(some []byte) error {
	if len(s.data) > 0 && len(s.data)+len(some) > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	start := len(s.data)
	s.data = append(s.data, some...)
	for start < len(s.data) {
		end := start + bytes.IndexByte(s.data[start:], '\n')
		s.at = append(s.at, [2]int{start, end})
		start = end + 1
		s.rows++
	}
	return nil
}

// sort puts the lines in memory in order.
func (s *sorter) sort() {
	slices.SortFunc(s.at, func(a, b [2]int) int { return compareLines(s.data[a[0]:a[1]], s.data[b[0]:b[1]]) })
}

// flush spills the lines in memory as one more sorted part.
func (s *sorter) flush() (err error) {
	if s.spill == nil {
		if s.spill, err = tempFile(s.dir); err != nil {
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

// sorted gives all that was added, in order.
func (s *sorter) sorted(ctx context.Context) (rows, error) {
	s.sort()
	from := []rows{&inMemory{data: s.data, left: s.at}}
	start := int64(0)
	for _, end := range s.parts {
		from = append(from, &inFile{r: bufio.NewReaderSize(io.NewSectionReader(s.spill, start, end-start), 64<<10)})
		start = end
	}
	for _, r := range from {
		if err := r.next(ctx); err != nil {
			return nil, err
		}
	}
	return mergeRows(false, from...), nil
}

func (s *sorter) close() error {
	if s.spill == nil {
		return nil
	}
	return s.spill.Close()
}

// inMemory is lines of a sorter.
type inMemory struct {
	data []byte
	left [][2]int
	at   []byte
}

func (r *inMemory) line() []byte { return r.at }

func (r *inMemory) next(context.Context) error {
	r.at = nil
	if len(r.left) > 0 {
		r.at, r.left = r.data[r.left[0][0]:r.left[0][1]], r.left[1:]
	}
	return nil
}

// inFile is lines of a part of a temporary file.
type inFile struct {
	r   *bufio.Reader
	buf []byte
	at  []byte
}

func (r *inFile) line() []byte { return r.at }

func (r *inFile) next(context.Context) error {
	r.buf, r.at = r.buf[:0], nil
	for {
		some, err := r.r.ReadSlice('\n')
		r.buf = append(r.buf, some...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.buf) == 0:
			return nil
		case err != nil:
			return err
		}
		r.at = r.buf[:len(r.buf)-1]
		return nil
	}
}

// tempFile makes a file that is gone when it is closed, however the process ends.
func tempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "sheaf-urls-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
