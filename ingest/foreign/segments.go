package foreign

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/naming"
)

// maxOpen is how many segments may be open at once. The pages of a crawl come in any order of
// hosts.
const maxOpen = 128

// segments are the hosts' segments while records are appended.
type segments struct {
	dir  string
	id   string
	opt  archive.WriterOptions
	all  map[string]*segment
	used []*segment // with an open writer, the most recently used last
}

type segment struct {
	host    string
	path    string
	written archive.Written // the writer's progress when it was closed
	writer  *archive.Writer // nil if it is closed
}

func newSegments(dir, id string, opt archive.WriterOptions) *segments {
	opt.Pool = new(archive.WriterPool)
	opt.TempDir = dir
	opt.NoSync = true // an interrupted conversion starts again
	return &segments{dir: dir, id: id, opt: opt, all: make(map[string]*segment)}
}

// append stores a record in its host's segment.
func (s *segments) append(r *archive.Record) (archive.Cell, error) {
	host, err := naming.HostOf(r.URL)
	if err != nil {
		return archive.Cell{}, fmt.Errorf("%w: %w", archive.ErrRefused, err)
	}
	seg, err := s.open(host)
	if err != nil {
		return archive.Cell{}, err
	}
	return seg.writer.Append(r)
}

// open returns the segment of a host, with an open writer.
func (s *segments) open(host string) (*segment, error) {
	seg := s.all[host]
	if seg == nil {
		seg = &segment{host: host, path: filepath.Join(s.dir, fmt.Sprintf("%d", len(s.all)))}
	}
	if seg.writer == nil {
		if len(s.used) >= maxOpen {
			if err := s.close(s.used[0]); err != nil {
				return nil, err
			}
		}
		var err error
		if s.all[host] == nil {
			seg.writer, err = archive.Create(seg.path, host, s.id, s.opt)
		} else {
			seg.writer, err = archive.Resume(seg.path, host, s.id, seg.written, s.opt)
		}
		if err != nil {
			return nil, err
		}
		s.all[host] = seg
	}
	s.used = append(s.unused(seg), seg)
	return seg, nil
}

// unused returns s.used without a segment.
func (s *segments) unused(seg *segment) []*segment {
	return slices.DeleteFunc(s.used, func(o *segment) bool { return o == seg })
}

func (s *segments) close(seg *segment) error {
	s.used = s.unused(seg)
	w := seg.writer
	seg.written, seg.writer = w.Written(), nil
	return w.Close()
}

// each seals the segments in the order of their hosts' names, calls do with each segment, and then
// deletes the segment.
func (s *segments) each(do func(src archive.Source, x *archive.Index) error) error {
	hosts := slices.SortedFunc(maps.Values(s.all), func(a, b *segment) int { return strings.Compare(a.host, b.host) })
	for _, seg := range hosts {
		if seg.writer != nil {
			if err := s.close(seg); err != nil {
				return err
			}
		}
		if seg.written.Size == 0 { // all records of the host were refused
			continue
		}
		if err := s.sealed(seg, do); err != nil {
			return fmt.Errorf("host %s: %w", seg.host, err)
		}
	}
	return nil
}

func (s *segments) sealed(seg *segment, do func(src archive.Source, x *archive.Index) error) error {
	x, err := archive.SealWritten(seg.path, seg.host, s.id, seg.written, s.opt)
	if err != nil {
		return err
	}
	f, err := os.Open(seg.path)
	if err != nil {
		return err
	}
	return errors.Join(do(archive.FileSource(f, 0), x), f.Close(), os.Remove(seg.path))
}

// drop closes the segments that are open.
func (s *segments) drop() {
	for len(s.used) > 0 {
		_ = s.close(s.used[0]) // its result does not matter any more
	}
}
