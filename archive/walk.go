package archive

import (
	"bufio"
	"cmp"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"sheaf/archive/deflate"
	"sheaf/internal/wire"
)

// Limits for parts of a cell that are held in memory while the cell is read, in decoded bytes.
const (
	maxTarHeaders = 64 << 10
	maxHead       = 1 << 20
	maxLine       = 64 << 10
	maxManifest   = 64 << 20
)

// walker reads and checks cells one after another, in one pass. It holds one cell's headers in
// memory, never a body.
type walker struct {
	in        *bufio.Reader
	off       int64 // of the next byte
	cell      int   // number of the current cell
	host      string
	mixed     bool // cells may be of several hosts; an index cell belongs to the last of them
	opt       VerifyOptions
	inflate   *deflate.Inflater
	taps      []io.Writer // get the stored bytes as they are read
	raw       hash.Hash   // of all bytes that were read; may be nil
	decoded   int64       // bytes inflated so far
	views     *viewHashes // may be nil
	onLine    func(line string) error
	segmentID string    // of the current links or index cell
	last      time.Time // time of the latest record
	manifest  []byte    // the batch's, after it was read
}

// walkers keeps the buffers of walkers that are done: 450 KB each, where most indexes have less.
var walkers = sync.Pool{New: func() any { return &walker{in: bufio.NewReaderSize(nil, 256<<10), inflate: deflate.NewInflater()} }}

// newWalker returns a walker of r. Call free when it is done.
func newWalker(r io.Reader, opt VerifyOptions) *walker {
	w := walkers.Get().(*walker)
	w.in.Reset(r)
	w.begin(opt)
	return w
}

// begin makes the walker forget all that it has read, but for what is in its buffer.
func (w *walker) begin(opt VerifyOptions) {
	*w = walker{in: w.in, inflate: w.inflate, host: opt.Host, opt: opt.orDefault()}
}

// free gives the walker's buffers to the next walker.
func (w *walker) free() {
	w.in.Reset(nil)
	w.begin(VerifyOptions{})
	walkers.Put(w)
}

func (o VerifyOptions) orDefault() VerifyOptions {
	o.MaxRatio = cmp.Or(max(o.MaxRatio, 0), wire.MaxRatio)
	o.Grace = cmp.Or(max(o.Grace, 0), wire.Grace)
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), wire.MaxBody)
	return o
}

type itemKind int

const (
	cellItem itemKind = iota
	linksItem
	indexItem
	manifestItem
	endItem
)

// item is one cell, or the end member.
type item struct {
	kind     itemKind
	cell     Cell
	segment  string // linksItem, indexItem: the segment's ID
	manifest []byte // manifestItem
	indexOff int64  // endItem: from WI
	indexLen int64
}

func (w *walker) fail(e *FormatError, off int64) error {
	e.Offset, e.Cell = off, w.cell
	return e
}

// Read reads stored bytes, and passes them to raw and to the taps.
func (w *walker) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.off += int64(n)
	if w.raw != nil {
		w.raw.Write(p[:n])
	}
	for _, tap := range w.taps {
		tap.Write(p[:n])
	}
	return n, err
}

func (w *walker) full(p []byte, what string) error {
	start := w.off
	_, err := io.ReadFull(w, p)
	if err == nil {
		return nil
	}
	return w.readError(err, start, what)
}

func (w *walker) readError(err error, start int64, what string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return w.fail(&FormatError{Code: codeTruncated, Msg: fmt.Sprintf("ends at %d within %s", w.off, what)}, start)
	}
	return w.fail(&FormatError{Code: codeTruncated, Msg: "reading " + what, Err: err}, start)
}
