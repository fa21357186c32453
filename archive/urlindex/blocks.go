package urlindex

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	blockRows  = 128 // lines of a block; URLINDEX.md has the measurements
	pageBlocks = 64  // blocks of a page, a section of cluster.idx
)

// block is one entry of cluster.idx. It describes a gzip member of cdx.gz.
type block struct {
	head   string // URL key and time of the first line
	offset int64  // of the gzip member in cdx.gz
	length int64
	number int64 // from 1
}

func appendBlock(dst []byte, b block) []byte {
	return fmt.Appendf(dst, "%s\t%s\t%d\t%d\t%d\n", b.head, fileRows, b.offset, b.length, b.number)
}

// parseBlock parses a line of cluster.idx, without its newline.
func parseBlock(line string) (b block, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 5 || f[1] != fileRows {
		return b, fmt.Errorf("line %.100q must have five fields, the second of them %s", line, fileRows)
	}
	b.head = f[0]
	if err := checkHead(b.head); err != nil {
		return b, err
	}
	err = numbers(f[2:], &b.offset, &b.length, &b.number)
	return b, err
}

func checkHead(head string) error {
	i := strings.IndexByte(head, ' ')
	if i <= 0 || len(head) != i+1+len(timeForm) {
		return fmt.Errorf("%.100q is not a URL key and a 14-digit time", head)
	}
	return nil
}

// numbers parses decimal numbers. It returns an error for a negative number.
func numbers(text []string, to ...*int64) error {
	for i, s := range text {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return err
		}
		if n < 0 {
			return fmt.Errorf("number %d", n)
		}
		*to[i] = n
	}
	return nil
}

// page is a reader's entry for a section of cluster.idx.
type page struct {
	head   string // URL key and time of the first block's first line
	offset int64  // in cluster.idx
	length int64
	first  int64 // number of the first block, from 1
	crc    uint32
}

func appendPage(dst []byte, p page) []byte {
	return fmt.Appendf(dst, "%s\t%d\t%d\t%d\t%08x\n", p.head, p.offset, p.length, p.first, p.crc)
}

func parsePage(line string) (p page, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 5 {
		return p, fmt.Errorf("line %.100q has %d fields, want 5", line, len(f))
	}
	p.head = f[0]
	if err := checkHead(p.head); err != nil {
		return p, err
	}
	if err := numbers(f[1:4], &p.offset, &p.length, &p.first); err != nil {
		return p, err
	}
	crc, err := strconv.ParseUint(f[4], 16, 32)
	p.crc = uint32(crc)
	return p, err
}

// parsePages parses a run's list of pages and checks that they make up its cluster.idx.
func parsePages(text string, ref *runRef) ([]page, error) {
	pages := make([]page, 0, strings.Count(text, "\n"))
	at := page{first: 1}
	for line := range strings.Lines(text) {
		p, err := parsePage(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", len(pages)+1, err, ErrCorrupt)
		}
		if p.offset != at.offset || p.first != at.first || p.head < at.head || p.length <= 0 {
			return nil, fmt.Errorf("line %d: page of block %d at %d does not follow on the one before: %w", len(pages)+1, p.first, p.offset, ErrCorrupt)
		}
		pages = append(pages, p)
		at = page{head: p.head, offset: p.offset + p.length, first: p.first + pageBlocks}
	}
	if want := (ref.Blocks + pageBlocks - 1) / pageBlocks; int64(len(pages)) != want || at.offset != ref.Idx.Size {
		return nil, fmt.Errorf("%d pages of %d bytes, want %d of %d: %w", len(pages), at.offset, want, ref.Idx.Size, ErrCorrupt)
	}
	return pages, nil
}

// parseBlocks parses a page of cluster.idx, and checks it against the page's entry and the run.
func parseBlocks(data []byte, p page, ref *runRef) ([]block, error) {
	if crc := crc32.Checksum(data, castagnoli()); crc != p.crc {
		return nil, fmt.Errorf("CRC-32C is %08x, want %08x: %w", crc, p.crc, ErrCorrupt)
	}
	want := min(pageBlocks, ref.Blocks-p.first+1)
	blocks := make([]block, 0, want)
	for line := range bytes.Lines(data) {
		b, err := parseBlock(string(bytes.TrimSuffix(line, []byte("\n"))))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", len(blocks)+1, err, ErrCorrupt)
		}
		bad := b.number != p.first+int64(len(blocks)) || b.length <= 0 || b.length > maxBlock || b.offset > ref.Cdx.Size-b.length
		if n := len(blocks); n == 0 {
			bad = bad || b.head != p.head
		} else {
			bad = bad || b.head < blocks[n-1].head || b.offset != blocks[n-1].offset+blocks[n-1].length
		}
		if bad {
			return nil, fmt.Errorf("line %d: block %d of %d bytes at %d is out of its place: %w", len(blocks)+1, b.number, b.length, b.offset, ErrCorrupt)
		}
		blocks = append(blocks, b)
	}
	if int64(len(blocks)) != want {
		return nil, fmt.Errorf("%d blocks, want %d: %w", len(blocks), want, ErrCorrupt)
	}
	return blocks, nil
}

// maxBlock and maxDecoded limit the size of a block, stored and decoded, in bytes.
const (
	maxBlock   = 64 << 20
	maxDecoded = 256 << 20
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
