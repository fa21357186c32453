package archive

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
	"sheaf/internal/media"
	"sheaf/internal/wire"
)

// WriterOptions says how records are stored. The zero value is valid.
type WriterOptions struct {
	Level   int    // compression level of deflate, 1 to 9; 0: 6
	MaxBody int64  // longer bodies are cut and marked; 0: wire.PageBytes
	TempDir string // for bodies over 256 KiB; the system's if empty
	NoSync  bool   // Seal does not sync the file: the segment need not survive a loss of power

	Pool *WriterPool // shared by many writers; nil: the writer has its own buffers
}

// Writer writes a segment: one host's records, one cell after another. It must not be used
// concurrently.
//
// It keeps only the length and a checksum of what it has written, so that a robot can have ten
// thousand open segments. To make the index, Seal reads the cells back.
//
// A crash leaves a beginning of the file; Reopen cuts it after its last whole cell. Cells that were
// appended before a successful Sync are never lost. Until Seal, the records' links are in a file
// beside the segment, <path>.links: move or remove both together.
//
// The segment obeys the rule of expansion of package wire, so that every verifier accepts it.
type Writer struct {
	file     *os.File
	host     string
	segment  string
	opt      WriterOptions
	size     int64
	decoded  int64  // number of bytes that the segment decodes to
	sum      uint32 // CRC-32 of the stored bytes, if summed
	summed   bool   // this process has written all of them
	*buffers        // nil between calls if the writer uses a pool
}

// Create begins a segment of the host in a new file at path. segmentID names the index cell.
func Create(path, host, segmentID string, opt WriterOptions) (*Writer, error) {
	w, err := newWriter(host, segmentID, opt)
	if err != nil {
		return nil, err
	}
	w.summed = true
	w.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	return w, err
}

// Reopen continues a segment that a crash or Close left behind, sealed or not. It verifies and
// returns the whole cells, and cuts off what follows them: a torn cell, an index cell, an end
// member. If reading fails, it returns an error and cuts nothing.
func Reopen(path, host, segmentID string, opt WriterOptions) (*Writer, []Cell, error) {
	w, err := newWriter(host, segmentID, opt)
	if err != nil {
		return nil, nil, err
	}
	if w.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	cells, err := w.recover()
	if err != nil {
		w.file.Close()
		return nil, nil, fmt.Errorf("reopen %s: %w", path, err)
	}
	return w, cells, nil
}

func newWriter(host, segmentID string, opt WriterOptions) (*Writer, error) {
	if err := naming.CheckHost(host); err != nil {
		return nil, err
	}
	if err := naming.CheckSegment(segmentID); err != nil {
		return nil, err
	}
	opt.Level = cmp.Or(opt.Level, 6)
	opt.MaxBody = cmp.Or(opt.MaxBody, wire.PageBytes)
	w := &Writer{host: host, segment: segmentID, opt: opt}
	if opt.Pool == nil {
		var err error
		if w.buffers, err = newBuffers(opt); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Written is a Writer's progress: the number of bytes and, if this process wrote all of them, their
// CRC-32. SealWritten uses it to check that the file is still the same.
type Written struct {
	Size    int64
	decoded int64
	sum     uint32 // CRC-32
	summed  bool
}

// Written returns the Writer's progress, for Resume or SealWritten after Close.
func (w *Writer) Written() Written { return Written{w.size, w.decoded, w.sum, w.summed} }

// Resume continues a segment that this process has closed. It does not read the file.
func Resume(path, host, segmentID string, was Written, opt WriterOptions) (*Writer, error) {
	w, err := newWriter(host, segmentID, opt)
	if err != nil {
		return nil, err
	}
	w.size, w.decoded, w.sum, w.summed = was.Size, was.decoded, was.sum, was.summed
	w.file, err = os.OpenFile(path, os.O_RDWR, 0)
	return w, err
}

// recover cuts the segment after its whole cells, and returns them.
func (w *Writer) recover() (cells []Cell, err error) {
	walk := newWalker(w.file, w.verify())
	defer walk.free()
	for {
		it, err := walk.next()
		if ferr, ok := errors.AsType[*FormatError](err); ok && ferr.Err != nil {
			return nil, err
		}
		if err != nil || it.kind != cellItem {
			break
		}
		cells = append(cells, it.cell)
		w.size, w.decoded = w.size+it.cell.Len(), walk.decoded
	}
	return cells, errors.Join(w.file.Truncate(w.size), linkLogOf(w.file.Name()).cut(w.size))
}

// Size returns the length of the segment in bytes, without index cell and end member.
func (w *Writer) Size() int64 { return w.size }

// Append stores a record as one cell. After any error the segment is as it was before. After
// ErrRefused, other records can still be appended.
func (w *Writer) Append(r *Record) (Cell, error) {
	giveBack, err := w.borrow()
	if err != nil {
		return Cell{}, err
	}
	defer giveBack()
	http, truncated := r.HTTP, r.Truncated
	h := &warcHead{kind: r.Kind, url: r.URL, ip: r.IP, time: r.Time.UTC().Round(0), truncated: truncated, preferences: r.Preferences, original: r.Original}
	if r.Kind == Revisit && r.RefersTo != r.URL {
		h.refersTo = r.RefersTo
	}
	host, err := naming.HostOf(r.URL)
	if err == nil && host != w.host {
		err = fmt.Errorf("URL %.100q belongs to host %s, not %s", r.URL, host, w.host)
	}
	if err == nil {
		_, _, err = parseHTTP(http)
	}
	if err == nil {
		err = CheckOriginal(r.Original)
	}
	if err == nil {
		http, err = w.trimHTTP(h, http)
	}
	if err != nil {
		return Cell{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var cell *cellBytes
	switch r.Kind {
	case Page:
		h.payloadDigest = r.PayloadDigest
		cell, err = w.page(h, http, r)
	case Response:
		cell, err = w.response(h, http, r.Body)
	case Revisit:
		cell, err = w.revisit(h, http, r)
	default:
		err = fmt.Errorf("%w: kind %d of record %.100q is none", ErrRefused, r.Kind, r.URL)
	}
	if err != nil {
		return Cell{}, err
	}
	undo := func() error { return nil }
	if len(r.Links) > 0 && r.Kind != Revisit {
		undo, w.buffers.links, err = linkLogOf(w.file.Name()).add(w.size, r, w.buffers.links)
	}
	if err == nil {
		if err = w.write(cell); err != nil {
			err = errors.Join(err, undo())
		}
	}
	if err != nil {
		return Cell{}, fmt.Errorf("append %.100q: %w", r.URL, err)
	}
	w.size, w.decoded = w.size+cell.cell.Len(), w.decoded+cell.decoded
	return cell.cell, nil
}

// trimHTTP drops header lines at the end until the head certainly fits into WP.
func (w *Writer) trimHTTP(h *warcHead, http []byte) ([]byte, error) {
	const slack = 256 // for the digests: they are not known yet, and deflate hardly shortens them
	rest := warcHeadRest
	for _, f := range h.original {
		rest += len(originalPrefix) + len(f.Name) + len(f.Value) + len(": \r\n")
	}
	if rest+len(h.url)+max(len(h.url), len(h.refersTo))+len(http)+slack <= maxWP {
		return http, nil // nearly always
	}
	trial := *h
	sum := sha256.Sum256(http)
	trial.payloadDigest = digestString(sum[:])
	sum = sha256.Sum256(sum[:])
	trial.blockDigest = digestString(sum[:])
	trial.keep(h.original)
	for {
		head := append(trial.bytes(), http...)
		if len(head)+slack <= maxWP || len(w.compress.Run(head))+gzipHeader+slack <= maxWP {
			return http, nil
		}
		i := bytes.LastIndex(http[:len(http)-len(crlf2)], []byte("\r\n"))
		if i < 0 {
			return nil, fmt.Errorf("URL of %d bytes is too long for a record's head of %d", len(h.url), maxWP)
		}
		http = append(bytes.Clone(http[:i]), crlf2...)
		h.truncated = TruncatedLength
	}
}

// page stores a record with a file. The body passes once through digests, sums and compressor.
func (w *Writer) page(h *warcHead, http []byte, r *Record) (*cellBytes, error) {
	_, mimeType, _ := parseHTTP(http) // checked
	sum := newBodySum(http)
	if h.payloadDigest != "" {
		sum.payload = nil
	}
	run, err := w.begin(r.Deflated, media.IsCompressed(mimeType))
	if err != nil {
		return nil, fmt.Errorf("blocks of %.100q: %w", h.url, err)
	}
	cut := false
	if r.Body != nil {
		if cut, err = w.keep(run, &sum.file, r.Body); err != nil {
			return nil, fmt.Errorf("body of %.100q: %w", h.url, err)
		}
	}
	if err := run.Close(); err != nil {
		return nil, err
	}
	if cut {
		h.truncated = TruncatedLength
		if sum.payload == nil { // the caller gave the digest of the whole body
			sum.payload = sha256.New()
			if err := w.body.decodeTo(sum.payload); err != nil {
				return nil, fmt.Errorf("body of %.100q: %w", h.url, err)
			}
		}
	}
	if sum.payload != nil {
		h.payloadDigest = digestString(sum.payload.Sum(nil))
	}
	h.blockDigest = digestString(sum.block.Sum(nil))
	h.length = int64(len(http)) + sum.file.n
	return w.assemble(h, http, &sum.file)
}

// maxCutBody limits how much of an error page's body is tried, in bytes. About so much text fits
// into WP if it deflates well.
const maxCutBody = 128 << 10

func (w *Writer) response(h *warcHead, http []byte, body io.Reader) (*cellBytes, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = io.ReadAll(io.LimitReader(body, maxCutBody+1)); err != nil {
			return nil, fmt.Errorf("body of %.100q: %w", h.url, err)
		}
	}
	if most := max(0, min(maxCutBody, w.room(0))); int64(len(data)) > most {
		data, h.truncated = data[:most], TruncatedLength
	}
	for {
		sum := newBodySum(http)
		sum.Write(data)
		h.payloadDigest, h.blockDigest = digestString(sum.payload.Sum(nil)), digestString(sum.block.Sum(nil))
		block := append(bytes.Clone(http), data...)
		h.length = int64(len(block))
		trial := *h
		trial.keep(h.original)
		size := gzipHeader + len(w.compress.Run(append(trial.bytes(), block...)))
		if size <= maxWP || len(data) == 0 {
			return w.assemble(h, block, new(fileSum))
		}
		// The deflated size grows with the length, so try a little less than seems to fit.
		data, h.truncated = data[:min(len(data)*(maxWP-maxWP/16)/size, len(data)*15/16)], TruncatedLength
	}
}

func (w *Writer) revisit(h *warcHead, http []byte, r *Record) (*cellBytes, error) {
	h.payloadDigest, h.profile, h.refersDate = r.PayloadDigest, cmp.Or(r.Profile, IdenticalPayload), r.RefersDate.UTC().Round(0)
	sum := newBodySum(http)
	h.blockDigest = digestString(sum.block.Sum(nil))
	h.length = int64(len(http))
	return w.assemble(h, http, new(fileSum))
}

// Sync makes the appended cells durable, but not their links.
func (w *Writer) Sync() error { return w.file.Sync() }

// Close closes the file and leaves the segment as it is, for Reopen.
func (w *Writer) Close() error { return w.file.Close() }

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
