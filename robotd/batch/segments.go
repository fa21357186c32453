package batch

import (
	"container/list"
	"errors"
	"os"
	"sync"

	"sheaf/archive"
)

// segment is one host's open segment. Its writer is nil while it is closed for
// want of file descriptors.
type segment struct {
	host, id string
	fresh    bool // the file is not made yet
	parked   bool // this run has written the file and closed it
	unsynced bool // and what it wrote may be lost with the power

	writer  *archive.Writer // used by whoever holds the segment
	written archive.Written // where it is parked: by the writer that was closed

	bytes int64         // guarded by segments.mu, as are the next two
	held  int           // users at this moment: a held segment is not closed
	place *list.Element // in segments.used; nil: the file is closed
}

// park closes the file. Whoever waits for another one must not wait for the disk too: sync is for those
// who want what was written to be durable.
func (g *segment) park() error {
	if g.writer == nil {
		return nil
	}
	w := g.writer
	g.writer, g.parked, g.unsynced, g.written = nil, true, true, w.Written()
	return w.Close()
}

// sync makes what was written to the file, which lies at path, durable.
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

// segments knows every open segment and keeps at most max of their files open,
// closing the one that was used least lately.
type segments struct {
	max int

	mu    sync.Mutex // guards all below
	hosts map[string]*segment
	used  list.List // those of them whose files may be open, latest in front
	bytes int64
}

// get returns the host's segment, held; where there is none the one that create
// gives, or nil without create.
func (s *segments) get(host string, create func() *segment) (*segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.hosts[host]
	if seg == nil {
		if create == nil {
			return nil, nil
		}
		seg = create()
		s.insert(seg)
	}
	seg.held++
	if seg.place == nil {
		seg.place = s.used.PushFront(seg)
	} else {
		s.used.MoveToFront(seg.place)
	}
	return seg, s.parkUnused()
}

// parkUnused closes files until no more than max may be open, but for those that are held.
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

func (s *segments) add(seg *segment) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.insert(seg)
	return seg
}

func (s *segments) insert(seg *segment) {
	if s.hosts == nil {
		s.hosts = make(map[string]*segment)
	}
	s.hosts[seg.host] = seg
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
	all := make([]*segment, 0, len(s.hosts))
	for _, seg := range s.hosts {
		all = append(all, seg)
	}
	return all
}
