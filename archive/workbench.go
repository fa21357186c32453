package archive

import (
	"bufio"
	"io"
	"sync"
)

// Workbench lends what a Writer needs only while it works: a compressor and
// buffers, more than a megabyte. Writers that share one need as many as are at work at
// the same time, not as there are open segments. All of them must have one level.
//
// What is given back is kept: a sync.Pool forgets it at every second collection of garbage, and a
// robot that is to stay small collects many times a second.
type Workbench struct {
	mu   sync.Mutex // guards idle
	idle []*scratch
}

// mostIdle is how many wait to be lent.
const mostIdle = 4

// scratch is what a writer works with. It holds nothing between two appends.
type scratch struct {
	compress *compressor
	body     spool
	links    []byte // one record's
	copying  []byte // through which bodies go
	whole    []byte // a small cell
	head     []byte // of one record,
	wp       []byte // the same deflated,
	extra    []byte // and as it stands in the file's member
	back     *walker
}

// readBack is how much of a segment is read at once while it is sealed, in bytes.
const readBack = 64 << 10

// walker begins to read what was written, for one use at a time.
func (s *scratch) walker(r io.Reader, opt VerifyOptions) *walker {
	if s.back == nil {
		s.back = &walker{in: bufio.NewReaderSize(nil, readBack), inflate: newInflater(), section: bufio.NewReaderSize(nil, 32<<10)}
	}
	w := s.back
	*w = walker{in: w.in, inflate: w.inflate, section: w.section, host: opt.Host, opt: opt.orDefault()}
	w.in.Reset(r)
	return w
}

func newScratch(opt WriterOptions) (*scratch, error) {
	c, err := newCompressor(opt.Level)
	if err != nil {
		return nil, err
	}
	return &scratch{compress: c, body: spool{dir: opt.TempDir}, copying: make([]byte, 32<<10)}, nil
}

// borrow gives the writer something to work with until the returned function is called.
func (w *Writer) borrow() (giveBack func(), err error) {
	bench := w.opt.Workbench
	if bench == nil {
		return w.body.reset, nil
	}
	if w.scratch = bench.take(); w.scratch == nil {
		if w.scratch, err = newScratch(w.opt); err != nil {
			return nil, err
		}
	}
	return func() {
		w.body.reset()
		bench.put(w.scratch)
		w.scratch = nil
	}, nil
}

// take returns nil where none is idle.
func (b *Workbench) take() *scratch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) == 0 {
		return nil
	}
	last := len(b.idle) - 1
	s := b.idle[last]
	b.idle[last] = nil
	b.idle = b.idle[:last]
	return s
}

func (b *Workbench) put(s *scratch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) < mostIdle {
		b.idle = append(b.idle, s)
	}
}
