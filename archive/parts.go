package archive

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sheaf/archive/naming"
)

// A file in the members form is one segment, several segments, cells chosen from segments of any
// hosts, or a batch, which ends with the cell of its manifest.

// Parts returns the parts of a file in the members form, in stored order: each segment with its
// index, and each run of one host's cells without an index. It also reads a file that ends before
// its end member.
func Parts(ctx context.Context, src Source, size int64) ([]Part, error) {
	if size >= endMemberSize {
		tail, err := readRange(ctx, src, size-endMemberSize, endMemberSize)
		if err != nil {
			return nil, err
		}
		if off, n, one := parseEndMember(tail); one {
			if off+n != size-endMemberSize {
				return nil, corrupt("WI names an index cell of %d bytes at %d, which does not end at the end member at %d", n, off, size-endMemberSize)
			}
			x, err := ReadIndexAt(ctx, src, off, n)
			return []Part{{Source: src, Index: x}}, err
		}
	}
	parts, _, err := scanParts(ctx, src, size)
	return parts, err
}

// VerifyFile checks all of a file in the members form. It calls each for every segment in it and
// for every run of one host's cells without an index. For such runs, Summary has no Segment, SHA256
// and index fields.
func VerifyFile(ctx context.Context, src Source, size int64, opt VerifyOptions, each func(*Summary) error) error {
	parts, ended, err := scanParts(ctx, src, size)
	if err != nil {
		return err
	}
	if !ended {
		return &FormatError{Offset: size, Cell: -1, Code: codeTruncated, Msg: "ends before the end member"}
	}
	for _, p := range parts {
		x := p.Index
		base := p.Source.(partSource).base
		if x.IndexLength == 0 { // its cells were checked as they were found
			s := &Summary{Host: x.Host, Size: x.CellsEnd}
			for i := range x.Cells {
				s.count(&x.Cells[i])
			}
			if err := each(s); err != nil {
				return err
			}
			continue
		}
		rc, err := p.Source.OpenRange(ctx, 0, x.CellsEnd+x.IndexLength)
		if err != nil {
			return err
		}
		s, err := VerifyRange(rc, opt)
		rc.Close()
		if err != nil {
			if ferr, ok := err.(*FormatError); ok {
				ferr.Offset += base
			}
			return err
		}
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

// partSource is the Source of a part that begins at base.
type partSource struct {
	Source
	base int64
}

func (s partSource) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return s.Source.OpenRange(ctx, s.base+off, n)
}

// partScan finds the parts of a file, cell by cell.
type partScan struct {
	src   Source
	walk  *walker
	parts []Part
	run   []Cell // since the last part's end; with offsets in the file
	host  string // host of the cells in run

	lines    int   // of the current index cell, without its links line
	links    *Cell // the links cell before the index cell; nil: none
	manifest bool  // the batch's manifest was met
}

// scanParts reads a whole file and checks every cell. ended says whether an end member ends the
// file.
func scanParts(ctx context.Context, src Source, size int64) (parts []Part, ended bool, err error) {
	rc, err := src.OpenRange(ctx, 0, size)
	if err != nil {
		return nil, false, err
	}
	defer rc.Close()
	const noRatio = 1 << 20 // DEFLATE cannot reach it; bodies are not kept
	w := newWalker(rc, VerifyOptions{MaxRatio: noRatio})
	defer w.free()
	w.mixed = true
	s := &partScan{src: src, walk: w}
	w.onLine = func(line string) error {
		if !strings.HasPrefix(line, linksPrefix) {
			s.lines++
		}
		return nil
	}
	for {
		start := w.off
		it, err := w.next()
		switch {
		case err == io.EOF && s.links == nil:
			s.loose(len(s.run))
			return s.parts, false, nil
		case err == io.EOF:
			return nil, false, w.fail(&FormatError{Code: codeTruncated, Msg: "ends before the index cell"}, start)
		case err != nil:
			return nil, false, err
		}
		if err := s.take(&it); err != nil {
			return nil, false, w.fail(err, start)
		}
		if it.kind == endItem {
			return s.parts, true, w.atEnd("the end member")
		}
	}
}

// take adds the next item of the file.
func (s *partScan) take(it *item) *FormatError {
	if s.links != nil && it.kind != indexItem || s.manifest && it.kind != endItem {
		return corrupt("the cell before is not followed by what must follow it")
	}
	switch it.kind {
	case cellItem:
		if s.walk.host != s.host {
			s.loose(len(s.run))
			s.host = s.walk.host
		}
		s.run = append(s.run, it.cell)
	case linksItem:
		c := it.cell
		s.links = &c
	case indexItem:
		if err := s.segment(it); err != nil {
			return corrupt("%v", err)
		}
		s.lines, s.links, s.host = 0, nil, ""
		s.walk.host, s.walk.cell, s.walk.decoded = "", 0, 0
	case manifestItem:
		s.loose(len(s.run))
		s.manifest = true
	case endItem:
		s.loose(len(s.run))
		if it.indexLen > 0 && (len(s.parts) != 1 || s.parts[0].Index.IndexLength != it.indexLen || s.parts[0].Index.CellsEnd != it.indexOff) {
			return corrupt("WI says %d bytes at %d, where no index cell of the one segment is", it.indexLen, it.indexOff)
		}
	}
	return nil
}

// loose makes a part without index of the run's first n cells.
func (s *partScan) loose(n int) {
	if n > 0 {
		s.add(&Index{Host: s.host, Cells: s.run[:n:n]}, s.run[0].Offset)
	}
	s.run = s.run[n:]
}

// segment makes parts of the run. The index cell and as many cells before it as it has lines become
// a segment; the cells before these become a part without index.
func (s *partScan) segment(it *item) error {
	if s.lines > len(s.run) {
		return fmt.Errorf("the index has %d lines for %d cells", s.lines, len(s.run))
	}
	s.loose(len(s.run) - s.lines)
	base := it.cell.Offset
	if s.links != nil {
		base = s.links.Offset
	}
	if s.lines > 0 {
		base = s.run[0].Offset
	}
	host, _, _ := naming.ParseMetaName(it.cell.Name, ".cdxj")
	x := &Index{Host: host, Segment: it.segment, Cells: s.run, IndexLength: it.cell.Len(), links: s.links, self: it.cell}
	if s.links != nil {
		s.links.Offset -= base
	}
	x.self.Offset -= base
	s.run = nil
	s.add(x, base)
	return nil
}

// add adds a part that begins at base, and makes its cells' offsets relative to base.
func (s *partScan) add(x *Index, base int64) {
	for i := range x.Cells {
		x.Cells[i].Offset -= base
		x.CellsEnd = x.Cells[i].Offset + x.Cells[i].Len()
	}
	if x.links != nil {
		x.CellsEnd = x.links.Offset + x.links.Len()
	}
	s.parts = append(s.parts, Part{Source: partSource{s.src, base}, Index: x})
}
