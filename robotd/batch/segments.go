package batch

import (
	"container/list"
	"errors"
	"sync"

	"sheaf/archive"
)

// segment is one host's open segment. Its writer is nil while it is closed for
// want of file descriptors.
type segment struct {
	host, id string
	fresh    bool // the file is not made yet
	parked   bool // this run has written the file and closed it

	writer  *archive.Writer // used by whoever holds the segment
	written archive.Written // where it is parked: by the writer that was closed

	bytes int64         // guarded by segments.mu, as are the next two
	held  int           // users at this moment: a held segment is not closed
	place *list.Element // in the order of use
}

func (g *segment) close() error {
	if g.writer == nil {
		return nil
	}
	w := g.writer
	g.writer, g.parked, g.written = nil, true, w.Written()
	return errors.Join(w.Sync(), w.Close())
}

// segments knows every open segment and keeps at most max of their files open,
// closing the one that was used least lately.
type segments struct {
	max int

	mu    sync.Mutex // guards all below
	hosts map[string]*segment
	order list.List // of *segment, latest in front
	bytes int64
}

// get returns the host's segment, held; where there is none the one that make
// gives, or nil without make.
func (s *segments) get(host string, make func() *segment) (*segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.hosts[host]
	if seg == nil {
		if make == nil {
			return nil, nil
		}
		seg = make()
		s.insert(seg)
	}
	seg.held++
	s.order.MoveToFront(seg.place)
	return seg, s.closeUnused()
}

// closeUnused closes files until no more than max segments are near the front.
func (s *segments) closeUnused() error {
	at := s.order.Front()
	for n := 0; at != nil; at, n = at.Next(), n+1 {
		seg := at.Value.(*segment)
		if n < s.max || seg.held > 0 {
			continue
		}
		if seg.writer == nil {
			return nil // and so are all that were used before it
		}
		if err := seg.close(); err != nil {
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
	seg.place = s.order.PushFront(seg)
}

func (s *segments) remove(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hosts, seg.host)
	s.order.Remove(seg.place)
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
