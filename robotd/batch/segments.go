package batch

import (
	"container/list"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"

	"sheaf/archive"
)

// segment is one host's open segment. Its writer is nil while its file is closed to save file
// descriptors.
type segment struct {
	host, id string
	fresh    bool // the file does not exist yet
	parked   bool // this process has written the file and closed it
	unsynced bool // a power failure may lose what it wrote

	writer  *archive.Writer // used by the holder of the segment
	written archive.Written // result of the writer that was closed, if parked

	bytes int64         // guarded by segments.mu, as the next two
	held  int           // number of current users; a held segment is not closed
	place *list.Element // in segments.used; nil: the file is closed
}

// park closes the file without syncing it, so that a caller that needs another segment does not
// wait for the disk. sync makes the file durable.
func (g *segment) park() error {
	if g.writer == nil {
		return nil
	}
	w := g.writer
	g.writer, g.parked, g.unsynced, g.written = nil, true, true, w.Written()
	return w.Close()
}

// sync makes what was written to the file at path durable.
func (g *segment) sync(path string) error {
	if g.writer != nil {
		err := g.writer.Sync()
		g.unsynced = g.unsynced && err != nil
		return err
	}
	if !g.unsynced {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Close())
	g.unsynced = err != nil
	return err
}

// close makes the file durable and closes it.
func (g *segment) close(path string) error {
	if err := g.sync(path); err != nil {
		return errors.Join(err, g.park())
	}
	err := g.park()
	g.unsynced = false
	return err
}

// segments has all open segments. It keeps at most max of their files open, apart from held
// segments, and closes the least recently used file first.
type segments struct {
	max int

	mu    sync.Mutex // guards all below
	hosts map[string]*segment
	used  list.List // segments whose files may be open, most recently used first
	bytes int64
}

// get returns the host's segment, held. If the host has no segment, it adds the one from create, or
// returns nil if create is nil.
func (s *segments) get(host string, create func() *segment) (*segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.hosts[host]
	if seg == nil {
		if create == nil {
			return nil, nil
		}
		seg = create()
		s.hosts[host] = seg
	}
	seg.held++
	if seg.place == nil {
		seg.place = s.used.PushFront(seg)
	} else {
		s.used.MoveToFront(seg.place)
	}
	if err := s.parkUnused(); err != nil {
		seg.held--
		return nil, err
	}
	return seg, nil
}

// parkUnused closes files until at most max are open, except for held ones.
func (s *segments) parkUnused() error {
	for at := s.used.Back(); at != nil && s.used.Len() > s.max; {
		seg := at.Value.(*segment)
		at = at.Prev()
		if seg.held > 0 {
			continue
		}
		s.used.Remove(seg.place)
		seg.place = nil
		if err := seg.park(); err != nil {
			return err
		}
	}
	return nil
}

func (s *segments) put(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg.held--
}

func (s *segments) remove(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hosts, seg.host)
	if seg.place != nil {
		s.used.Remove(seg.place)
		seg.place = nil
	}
	s.bytes -= seg.bytes
}

func (s *segments) grow(seg *segment, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += size - seg.bytes
	seg.bytes = size
}

func (s *segments) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

func (s *segments) all() []*segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.hosts))
}
