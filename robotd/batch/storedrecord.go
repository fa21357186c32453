package batch

import (
	"context"
	"fmt"
	"io"
	"os"

	"sheaf/archive"
	"sheaf/internal/wire"
)

// Body opens the body of the record, which must be a page.
func (c *Cell) Body(ctx context.Context) (io.ReadCloser, error) {
	f, err := os.Open(c.path)
	if err != nil {
		return nil, err
	}
	view, err := archive.PageBodyOf(archive.FileSource(f, c.base), &c.Cell)
	if err != nil {
		f.Close()
		return nil, err
	}
	body, err := view.Open(ctx)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{body, f}, nil
}

// Stored returns the records of a host, and the name of its open segment; "": the host has none. It
// reads all the records, and is meant for repair.
func (s *Store) Stored(ctx context.Context, host string) (segment string, all []Cell, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	spool, err := s.Spool()
	if err != nil {
		return "", nil, err
	}
	for _, b := range spool {
		in, err := storedIn(ctx, b, host)
		if err != nil {
			return "", nil, fmt.Errorf("batch %s: %w", b.ID, err)
		}
		all = append(all, in...)
	}
	seg, err := s.segments.get(host, nil)
	if err != nil || seg == nil {
		return "", all, err
	}
	defer s.segments.put(seg)
	if seg.fresh {
		return "", all, nil
	}
	if err := seg.close(s.segmentPath(seg)); err != nil {
		return "", nil, err
	}
	seg.parked = false // so that it is read, not just continued
	cells, err := s.load(seg)
	for _, c := range cells {
		all = append(all, Cell{Cell: c, End: c.Offset + c.Len(), path: s.segmentPath(seg)})
	}
	return seg.id, all, err
}

func storedIn(ctx context.Context, b Spooled, host string) ([]Cell, error) {
	m, err := wire.PeekManifest(b.Signed)
	if err != nil {
		return nil, err
	}
	var all []Cell
	for _, h := range m.Hosts {
		if h.Name != host {
			continue
		}
		f, err := os.Open(b.Path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		sum, err := archive.VerifyRange(io.NewSectionReader(f, h.Offset, h.Length), archive.VerifyOptions{Host: host})
		if err != nil {
			return nil, err
		}
		idx, err := archive.ReadIndexAt(ctx, archive.FileSource(f, h.Offset), sum.IndexOffset, sum.IndexLength)
		if err != nil {
			return nil, err
		}
		for _, c := range idx.Cells {
			all = append(all, Cell{Cell: c, path: b.Path, base: h.Offset})
		}
	}
	return all, nil
}
