package frontier

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
	"sync"
)

// The links to a host's pages are counted. If not all new pages fit into a night, the pages with
// the most links go first. A page's links are counted at its first visit, so each page that links
// to another counts once. The hashes of the links' URLs are collected in a file, and the counts are
// added to the state at the end of the cycle. A crash loses the last few hundred links, or counts
// the links of one page twice.
const (
	countFrom  = 256     // URLs; a host with fewer surely fits into a night
	linkBuffer = 4 << 10 // bytes of hashes that are collected in memory
	mostLinks  = 8 << 20 // that are counted in a cycle: 64 MiB, however many a host makes up
	linksKind  = "links"
)

// linkLog collects the links that a host's pages have in a cycle.
type linkLog struct {
	mu     sync.Mutex // guards hashes and the file
	hashes []byte     // not in the file yet
}

// CountLinks counts the links of a page at its first visit, unless the host has fewer than
// countFrom URLs.
func (h *Host) CountLinks(entries []Entry) error {
	if h.Len() < countFrom {
		return nil
	}
	keys := make([]uint64, len(entries))
	for i, e := range entries {
		keys[i] = hash(e.URL)
	}
	slices.Sort(keys)
	h.links.add(slices.Compact(keys))
	return h.links.flush(h.path(linksKind), linkBuffer)
}

func (l *linkLog) add(keys []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.hashes = binary.BigEndian.AppendUint64(l.hashes, key)
	}
}

// flush writes the hashes to the file at path, unless they have fewer than least bytes.
func (l *linkLog) flush(path string, least int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.hashes) < max(least, 1) {
		return nil
	}
	size, err := fileSize(path)
	if err == nil && size < mostLinks*8 {
		_, err = appendAt(path, size&^7, l.hashes) // after whole hashes: a loss of power may tear the last one
	}
	l.hashes = nil
	return err
}

// linkCounts is a count-min sketch of two rows: it estimates how many links there are to a page. It
// never counts less, and more only if other pages have the same cell in both rows (Cormode and
// Muthukrishnan, "An Improved Data Stream Summary: The Count-Min Sketch and its Applications",
// 2005).
type linkCounts [2][]uint16

// mostCells bounds a row, and with it the memory of the sketch, to 2 MiB.
const mostCells = 1 << 20

// readLinks counts the links in a file, which may be missing.
func readLinks(path string) (c linkCounts, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return c, err
	}
	cells := 1 << bits.Len64(uint64(min(st.Size()/8, mostCells-1)))
	for i := range c {
		c[i] = make([]uint16, cells)
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var key [8]byte
	for {
		if _, err := io.ReadFull(r, key[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			return c, nil
		} else if err != nil {
			return c, err
		}
		for _, cell := range c.cells(binary.BigEndian.Uint64(key[:])) {
			if *cell < math.MaxUint16 {
				*cell++
			}
		}
	}
}

// cells returns the cells of a page; the two halves of its hash select them.
func (c *linkCounts) cells(key uint64) [2]*uint16 {
	last := uint64(len(c[0]) - 1)
	return [2]*uint16{&c[0][key&last], &c[1][key>>32&last]}
}

// of estimates the number of links to a page.
func (c *linkCounts) of(key uint64) int {
	if len(c[0]) == 0 {
		return 0
	}
	cells := c.cells(key)
	return int(min(*cells[0], *cells[1]))
}
