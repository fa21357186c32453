package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Index is the content of a segment's index cell: every cell, in stored order.
type Index struct {
	Segment     string // the ID that the robot gave
	Host        string
	Cells       []Cell
	CellsEnd    int64 // end of the cells, including the links cell; the index cell begins here
	IndexLength int64 // of the index cell; 0 if the segment has none

	links *Cell // the links cell; nil: there is none
	self  Cell  // the index cell's own, for the tar views
}

// ReadIndex reads a segment's index at the place that the end member gives. If the segment has no
// such end member, ReadIndex makes the index from the cells. size is the segment's length in bytes.
func ReadIndex(ctx context.Context, src Source, size int64) (*Index, error) {
	parts, err := Parts(ctx, src, size)
	switch {
	case err != nil:
		return nil, err
	case len(parts) == 0:
		return new(Index), nil
	case len(parts) > 1:
		return nil, corrupt("cells of %d hosts or segments, where one segment should be", len(parts))
	}
	return parts[0].Index, nil
}

// ReadIndexAt reads the index cell of indexLen bytes at indexOff, which must be the end of the
// cells.
func ReadIndexAt(ctx context.Context, src Source, indexOff, indexLen int64) (*Index, error) {
	rc, err := src.OpenRange(ctx, indexOff, indexLen)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	x := &Index{CellsEnd: indexOff, IndexLength: indexLen}
	end := int64(0)
	w := newWalker(rc, VerifyOptions{})
	defer w.free()
	w.off = indexOff
	w.onLine = func(line string) error {
		if x.links != nil {
			return errors.New("a line after that of the links cell")
		}
		parse := parseLine
		if strings.HasPrefix(line, linksPrefix) {
			parse = func(line, host string) (*Cell, error) { return parseLinksLine(line, host, w.segmentID) }
		}
		c, err := parse(line, w.host)
		if err != nil {
			return err
		}
		if c.Offset != end {
			return fmt.Errorf("cell of %.60q at %d, want %d (cells lie one after another)", c.URL, c.Offset, end)
		}
		end += c.Len()
		if c.URL == "" {
			x.links = c
		} else {
			x.Cells = append(x.Cells, *c)
		}
		return nil
	}
	it, err := w.next()
	if err != nil {
		return nil, err
	}
	if it.kind != indexItem || w.off != indexOff+indexLen || end != indexOff {
		return nil, w.fail(corrupt("the index cell of %d bytes and its %d cells up to %d do not fit its place", indexLen, len(x.Cells), end), indexOff)
	}
	x.Host, x.Segment, x.self = w.host, it.segment, it.cell
	return x, nil
}

func readRange(ctx context.Context, src Source, off, n int64) ([]byte, error) {
	rc, err := src.OpenRange(ctx, off, n)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b := make([]byte, n)
	_, err = io.ReadFull(rc, b)
	return b, err
}

// Source reads ranges of a segment's stored bytes: of a file, an object, or a section of a batch.
// OpenRange may be called concurrently. The caller closes the reader.
type Source interface {
	OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// FileSource returns the Source of a segment that begins at base in f.
func FileSource(f io.ReaderAt, base int64) Source { return fileSource{f, base} }

type fileSource struct {
	f    io.ReaderAt
	base int64
}

func (s fileSource) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(s.f, s.base+off, n)), nil
}
