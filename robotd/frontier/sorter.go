package frontier

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"sheaf/internal/scratch"
)

// sortChunk is the number of visits that are sorted in memory.
const sortChunk = 1 << 14

// sorter sorts visits by their keys. If there are many, it uses temporary files. Of several visits
// to a page it keeps the last.
type sorter struct {
	dir, host string
	limit     int // maximum length of chunk
	chunk     []known
	files     []*os.File // sorted lines as in the state, older files first; the files have no names
}

func (s *sorter) add(k known) error {
	if s.chunk = append(s.chunk, k); len(s.chunk) < s.limit {
		return nil
	}
	return s.spill()
}

func (s *sorter) empty() bool { return len(s.chunk)+len(s.files) == 0 }

// order sorts the chunk and keeps the last visit to each page.
func (s *sorter) order() {
	slices.Reverse(s.chunk) // so that a page's last visit comes first, and is kept
	slices.SortStableFunc(s.chunk, func(a, b known) int { return cmp.Compare(a.key, b.key) })
	s.chunk = slices.CompactFunc(s.chunk, func(a, b known) bool { return a.key == b.key })
}

func (s *sorter) spill() error {
	f, err := scratch.File(s.dir)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	s.order()
	w := bufio.NewWriter(f)
	var line []byte
	for _, k := range s.chunk {
		line = k.append(line[:0], s.host)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	clear(s.chunk)
	s.chunk = s.chunk[:0]
	return w.Flush()
}

// sources returns the added visits as sorted sources, older ones first.
func (s *sorter) sources() ([]knownSource, error) {
	s.order()
	var all []knownSource
	for _, f := range s.files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		all = append(all, &chunkReader{s.host, &lineReader{f: f, r: bufio.NewReader(f)}})
	}
	return append(all, &chunkSlice{s.chunk}), nil
}

func (s *sorter) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

type chunkReader struct {
	host  string
	lines *lineReader
}

func (c *chunkReader) next() (known, bool, error) {
	line, err := c.lines.next()
	if err == io.EOF {
		return known{}, false, nil
	}
	if err != nil {
		return known{}, false, err
	}
	k, ok := parseKnown(line, c.host)
	if !ok {
		return k, false, fmt.Errorf("line %.200q of the sorted visits differs from what was written", line)
	}
	return k, true, nil
}

type chunkSlice struct{ left []known }

func (c *chunkSlice) next() (known, bool, error) {
	if len(c.left) == 0 {
		return known{}, false, nil
	}
	k := c.left[0]
	c.left = c.left[1:]
	return k, true, nil
}
