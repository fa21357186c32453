package archive

import (
	"sync/atomic"

	"sheaf/archive/deflate"
)

// WriterPool keeps sets of compressors and buffers, each of more than a megabyte. A Writer needs a
// set only while it appends, so writers that share a pool need one set for each append in progress,
// not for each open segment. All of them must have the same compression level.
//
// It is not a sync.Pool, which drops idle objects at every second garbage collection. A robot with
// a low memory limit collects many times a second.
type WriterPool struct {
	idle [maxIdle]atomic.Pointer[buffers]
}

// maxIdle limits the sets of buffers that a pool keeps.
const maxIdle = 4

// buffers is the set of buffers of one append. It holds no data between two appends.
type buffers struct {
	compress *deflate.Compressor
	body     spool
	links    []byte // the links of one record
	copying  []byte // for copying bodies
	whole    []byte // a small cell
	head     []byte // the head of one record
	wp       []byte // head, deflated
	extra    []byte // wp as an extra field of the file's member
	headers  []byte // the tar headers of one page
	run      []byte // headers, deflated
	before   []byte // the bytes of a cell before the file's blocks
}

// verify returns the options for reading the segment back.
func (w *Writer) verify() VerifyOptions {
	return VerifyOptions{Host: w.host, MaxBody: w.opt.MaxBody, MaxRatio: 1 << 20}
}

func newBuffers(opt WriterOptions) (*buffers, error) {
	c, err := deflate.NewCompressor(opt.Level)
	if err != nil {
		return nil, err
	}
	return &buffers{compress: c, body: spool{dir: opt.TempDir}, copying: make([]byte, 32<<10)}, nil
}

// borrow gives the writer a set of buffers until giveBack is called.
func (w *Writer) borrow() (giveBack func(), err error) {
	pool := w.opt.Pool
	if pool == nil {
		return w.body.reset, nil
	}
	if w.buffers = pool.take(); w.buffers == nil {
		if w.buffers, err = newBuffers(w.opt); err != nil {
			return nil, err
		}
	}
	return func() {
		w.body.reset()
		pool.put(w.buffers)
		w.buffers = nil
	}, nil
}

// take returns an idle set of buffers, or nil.
func (p *WriterPool) take() *buffers {
	for i := range p.idle {
		if s := p.idle[i].Swap(nil); s != nil {
			return s
		}
	}
	return nil
}

func (p *WriterPool) put(s *buffers) {
	for i := range p.idle {
		if p.idle[i].CompareAndSwap(nil, s) {
			return
		}
	}
}
