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
	if size >= endMemberSize {
		tail, err := readRange(ctx, src, size-endMemberSize, endMemberSize)
		if err != nil {
			return nil, err
		}
		if off, n, ok := parseEndMember(tail); ok {
			if off+n != size-endMemberSize {
				return nil, corrupt("WI names an index cell of %d bytes at %d, which does not end at the end member at %d", n, off, size-endMemberSize)
			}
			return ReadIndexAt(ctx, src, off, n)
		}
	}
	return scan(ctx, src, size)
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

// scan makes an index by reading all cells.
func scan(ctx context.Context, src Source, size int64) (*Index, error) {
	rc, err := src.OpenRange(ctx, 0, size)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	w := newWalker(rc, VerifyOptions{})
	defer w.free()
	x := new(Index)
	for {
		it, err := w.next()
		if errors.Is(err, io.EOF) {
			it.kind, err = endItem, nil
		}
		if err != nil {
			return nil, err
		}
		switch it.kind {
		case cellItem:
			x.Cells = append(x.Cells, it.cell)
			x.CellsEnd = it.cell.Offset + it.cell.Len()
		case linksItem:
			links := it.cell
			x.links, x.CellsEnd = &links, it.cell.Offset+it.cell.Len()
		case indexItem:
			x.Segment, x.self = it.segment, it.cell
			x.IndexLength = it.cell.Len()
			x.Host = w.host
			return x, nil
		default:
			x.Host = w.host
			return x, nil
		}
	}
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
