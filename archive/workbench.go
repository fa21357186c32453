package archive

import "sync"

// Workbench lends what a Writer needs only while it works: a compressor and a
// buffer, more than a megabyte. Writers that share one need as many as are at work at
// the same time, not as there are open segments. All of them must have one level.
type Workbench struct{ idle sync.Pool }

// scratch is what a writer works with. It holds nothing between two appends.
type scratch struct {
	compress *compressor
	body     spool
	links    []byte // one record's
	copying  []byte // through which bodies go
	whole    []byte // a small cell
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
	if s, ok := bench.idle.Get().(*scratch); ok {
		w.scratch = s
	} else if w.scratch, err = newScratch(w.opt); err != nil {
		return nil, err
	}
	return func() {
		w.body.reset()
		bench.idle.Put(w.scratch)
		w.scratch = nil
	}, nil
}
