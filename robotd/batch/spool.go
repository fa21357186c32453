package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/wire"
)

// Spooled is a batch in the spool, as its manifest describes it.
type Spooled struct {
	ID     wire.BatchID
	Path   string // path of the batch file
	Size   int64
	SHA256 string
	Hosts  []string
	Signed []byte // the signed manifest
}

func (s *Store) batchPath(id wire.BatchID) string    { return s.path(spoolDir, string(id)+".tar.gz") }
func (s *Store) manifestPath(id wire.BatchID) string { return s.path(spoolDir, string(id)+".manifest") }

// Spool lists the batches in the spool, the oldest first.
func (s *Store) Spool() ([]Spooled, error) {
	paths, err := filepath.Glob(s.path(spoolDir, "*.manifest"))
	if err != nil {
		return nil, err
	}
	var all []Spooled
	for _, path := range paths {
		signed, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // published meanwhile
		}
		if err != nil {
			return nil, err
		}
		m, err := wire.PeekManifest(signed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; move it and its batch away", path, err)
		}
		b := Spooled{ID: m.Batch, Path: s.batchPath(m.Batch), Size: m.Size, SHA256: m.SHA256, Signed: signed}
		for _, h := range m.Hosts {
			b.Hosts = append(b.Hosts, h.Name)
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Spooled) int { return int(number(a.ID) - number(b.ID)) })
	return all, nil
}

// Pending is what the spool's folder tells about a batch, without its manifest.
type Pending struct {
	ID    wire.BatchID
	Bytes int64
	Made  time.Time
}

// Pending lists the batches in the spool, the oldest first, without reading them.
func (s *Store) Pending() ([]Pending, error) {
	paths, err := filepath.Glob(s.path(spoolDir, "*.manifest"))
	if err != nil {
		return nil, err
	}
	var all []Pending
	for _, path := range paths {
		p := Pending{ID: wire.BatchID(strings.TrimSuffix(filepath.Base(path), ".manifest"))}
		st, err := os.Stat(s.batchPath(p.ID))
		if os.IsNotExist(err) {
			continue // published meanwhile
		}
		if err != nil {
			return nil, err
		}
		p.Bytes, p.Made = st.Size(), st.ModTime()
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Pending) int { return cmp.Compare(number(a.ID), number(b.ID)) })
	return all, nil
}

// Held returns the bytes of the batches in the spool, and the bytes of the segments that are not in
// a batch yet. Quarantined batches do not count, since they only wait for the operator.
func (s *Store) Held() (spool, open int64, err error) {
	spool, err = sizeOf(s.path(spoolDir, "*.tar.gz*"))
	if err != nil {
		return 0, 0, err
	}
	sealing, err := s.Sealing()
	return spool, sealing + s.Size(), err
}

// Sealing returns the bytes of the segments that are being made into batches.
func (s *Store) Sealing() (int64, error) { return sizeOf(s.path(sealingDir, "*", "*"+suffix)) }

func sizeOf(pattern string) (bytes int64, err error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		st, err := os.Stat(path)
		if err == nil {
			bytes += st.Size()
		} else if !os.IsNotExist(err) { // published meanwhile
			return 0, err
		}
	}
	return bytes, nil
}

// Remove deletes a batch from the spool. The caller must have a signed receipt that it is
// published.
func (s *Store) Remove(id wire.BatchID) error {
	return errors.Join(os.RemoveAll(s.manifestPath(id)), os.RemoveAll(s.batchPath(id))) // they may be gone already
}

// Quarantine moves a batch that the service refused to spool/quarantined, and writes the reason
// beside it.
func (s *Store) Quarantine(id wire.BatchID, reason string) error {
	aside := s.path(quarantineDir, string(id))
	if err := os.WriteFile(aside+".reason", []byte(strings.TrimSpace(reason)+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.Rename(s.batchPath(id), aside+".tar.gz"); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Rename(s.manifestPath(id), aside+".manifest")
}

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
