package foreign

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/wire"
)

// spot is a place in a file that is read leniently.
type spot struct {
	n      int64 // inflated bytes that were read before it
	at     int64 // in the file as it came: its gzip member begins here
	within int64 // inflated bytes from there to the place
}

// gap is damage that a lenient reader cannot read through.
type gap struct {
	at   int64 // in the file as it came
	cut  bool  // the file ends in the middle; what was read before the gap is proved by no checksum
	last bool  // nothing behind it is looked at
	why  string
}

func (g *gap) Error() string { return g.why }

// gzipMagic begins a gzip member (RFC 1952).
const gzipMagic = "\x1f\x8b\x08"

// parts reads a file leniently: the members of a gzip file, or a file that is not gzipped as it is.
// A gzip member is delivered only if its checksum is right. Where one is damaged, Read returns a
// *gap, again and again until pass has found the next whole member.
//
// Memory is bounded by maxMemory, and work by the file's size: see budget.
type parts struct {
	s      *stream
	layout layout
	file   io.ReaderAt
	size   int64
	gzip   bool
	checks *meter // of what is inflated to look at checksums
	budget int64  // bytes that may still be read again
	ahead  []byte // for looking where the next member begins

	in    *bufio.Reader // for checks
	end   int64         // of what in has taken from the file
	z     *gzip.Reader
	small bytes.Buffer // the member's content, or its first maxMemory bytes

	member io.Reader // of the content; nil: it is over
	next   int64     // where the next member begins
	err    error     // what comes after the member; nil: the next one
	n      int64     // inflated bytes delivered
	marks  []spot    // where the members begin that the stream may be in
	cut    int64     // where the member begins in which the file ends too early; -1: none is known
}

// budgetFor returns how many bytes of a file may be read again, to look for records in what is
// damaged.
func budgetFor(size int64) int64 { return 16*size + 64<<20 }

// openLenient is begin for a file that is read leniently.
func openLenient(ctx context.Context, file *os.File, kind Kind, limits Limits) (*stream, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	s := &stream{close: func() error { return nil }, meter: newMeter(limits, size)}
	p := &parts{s: s, layout: layoutOf(kind), size: size, checks: newMeter(limits, size), budget: budgetFor(size), cut: -1}
	p.file = readerAt{ctx, s, file}
	p.in = bufio.NewReaderSize(nil, 16<<10)
	s.parts, s.r = p, bufio.NewReaderSize(p, 64<<10)
	const enough = 64 << 10 // to see whether records stand in the file as they are
	head := make([]byte, enough)
	n, err := p.file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	p.gzip = bytes.HasPrefix(head[:n], []byte(gzipMagic))
	if !p.gzip && !bytes.Contains(head[:n], []byte("WARC/")) { // the beginning may be what is damaged
		at, err := p.find(0)
		if err != nil {
			return nil, err
		}
		p.gzip = at >= 0 && p.begins(at)
	}
	return s, nil
}

// begins reports whether the gzip member at the offset begins with a record.
func (p *parts) begins(at int64) bool {
	p.inflate(at)
	return beginsRecord(p.small.Bytes()) || beginsARC(p.small.Bytes())
}

// readerAt reads the file itself, as source does.
type readerAt struct {
	ctx  context.Context
	s    *stream
	file *os.File
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		r.s.disk = err
		return 0, err
	}
	n, err := r.file.ReadAt(p, off)
	if err != nil && err != io.EOF {
		r.s.disk = err
	}
	return n, err
}

// section reads the file from the offset to its end.
func (p *parts) section(at int64) io.Reader { return io.NewSectionReader(p.file, at, p.size-at) }

func (p *parts) Read(b []byte) (int, error) {
	for {
		if p.member != nil {
			n, err := p.member.Read(b)
			p.n += int64(n)
			switch {
			case n > 0:
				return n, nil
			case err == io.EOF:
				p.member = nil
			case err != nil:
				return 0, err
			}
			continue
		}
		if p.err != nil {
			return 0, p.err
		}
		p.open(p.next, 0)
	}
}

// open begins to deliver what is at the offset, without its first bytes.
func (p *parts) open(at, within int64) {
	if at >= p.size {
		p.err = io.EOF
		return
	}
	if !p.gzip {
		p.mark(at, 0)
		p.member, p.next = p.section(at), p.size
		return
	}
	size, err := p.inflate(at)
	p.next = p.position()
	switch {
	case p.s.disk != nil:
		p.err = p.s.disk
		return
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.cut = at
		p.err = &gap{at: at, cut: true, why: "the file ends here, in the middle"}
	default:
		var over *Error
		if p.err = err; !errors.As(err, &over) {
			p.err = &gap{at: at, why: fmt.Sprintf("the gzip member is damaged: %v", err)}
		}
		return
	}
	if size <= within {
		return
	}
	p.mark(at, within)
	if size <= maxMemory {
		p.member = bytes.NewReader(p.small.Bytes()[within:])
		return
	}
	z, err := gzip.NewReader(bufio.NewReaderSize(p.section(at), 64<<10))
	if err == nil {
		z.Multistream(false)
		_, err = io.CopyN(io.Discard, z, within)
	}
	if err != nil { // cannot be: it was inflated before
		p.err = err
		return
	}
	p.member = io.LimitReader(z, size-within)
}

// position returns how far the checks have read.
func (p *parts) position() int64 { return p.end - int64(p.in.Buffered()) }

// inflate inflates the member at the offset, keeps the beginning of its content in small, and
// returns its size. An error says that the member is not whole.
func (p *parts) inflate(at int64) (size int64, err error) {
	if p.position() != at || p.z == nil {
		p.end = at
		p.in.Reset(unexpectedEnd{counted{p.section(at), &p.end}})
	}
	p.small.Reset()
	if p.z == nil {
		p.z = new(gzip.Reader)
	}
	if err := p.z.Reset(p.in); err != nil {
		return 0, err
	}
	p.z.Multistream(false)
	content := checked{p.z, p.checks}
	size, err = io.CopyN(&p.small, content, maxMemory)
	if err == io.EOF {
		return size, nil
	} else if err != nil {
		return size, err
	}
	more, err := io.Copy(io.Discard, content)
	return size + more, err
}

// counted counts what was read.
type counted struct {
	r io.Reader
	n *int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += int64(n)
	return n, err
}

// checked counts what was read in a meter.
type checked struct {
	r     io.Reader
	meter *meter
}

func (c checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if merr := c.meter.read(int64(n)); merr != nil {
		return n, wrong(0, "", wire.ReasonBombRatio, "%v", merr)
	}
	return n, err
}

// pass goes on behind a gap, with the next member that is whole. A damaged one that begins with a
// record is the next gap. What else looks like the beginning of a member is none.
func (p *parts) pass(g *gap) error {
	p.err = nil
	if g.last || !p.gzip {
		p.err = io.EOF
		return nil
	}
	const leastCost = 64 << 10 // for reading ahead
	for at := g.at + 1; ; at++ {
		var err error
		if at, err = p.find(at); err != nil {
			return err
		}
		if at < 0 {
			p.err = io.EOF
			return nil
		}
		p.open(at, 0)
		var next *gap
		switch {
		case !errors.As(p.err, &next):
			return nil
		case p.layout.begins(p.small.Bytes()):
			return nil
		}
		p.member, p.err = nil, nil
		if p.budget -= max(p.next-at, leastCost); p.budget < 0 {
			p.err = &gap{at: at, last: true, why: "so much of the file is damaged that what follows was not looked at"}
			return nil
		}
	}
}

// find returns where the next bytes are that may begin a gzip member, or -1.
func (p *parts) find(from int64) (int64, error) {
	if p.ahead == nil {
		const size = 64 << 10
		p.ahead = make([]byte, size)
	}
	buf := p.ahead
	for from < p.size {
		n, err := p.file.ReadAt(buf, from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.Index(buf[:n], []byte(gzipMagic)); i >= 0 {
			return from + int64(i), nil
		}
		from += int64(max(n-len(gzipMagic)+1, 1))
	}
	return -1, nil
}

// mark notes where the bytes come from that are delivered next.
func (p *parts) mark(at, within int64) {
	read := 0 // marks that the stream has left
	for read+1 < len(p.marks) && p.marks[read+1].n < p.s.n {
		read++
	}
	p.marks = append(p.marks[read:], spot{p.n, at, within})
}

// spot returns the place of the next byte that the stream reads.
func (s *stream) spot() spot { return s.spotOf(s.n) }

// spotOf returns the place of a byte that the stream has just read, or reads next.
func (s *stream) spotOf(n int64) spot {
	of := spot{n: n}
	for _, m := range s.parts.marks {
		if m.n <= n {
			of.at, of.within = m.at, m.within+n-m.n
		}
	}
	if !s.parts.gzip {
		of.at, of.within = of.at+of.within, 0
	}
	return of
}

// back reads on from an earlier place, or where it is if too much was read again already.
func (s *stream) back(to spot) {
	p := s.parts
	again := s.n - to.n
	if p.budget -= again; p.budget < 0 {
		return
	}
	s.meter.inflated -= again
	s.n, p.n, p.marks = to.n, to.n, p.marks[:0]
	p.member, p.err = nil, nil
	s.r.Reset(p)
	p.open(to.at, to.within)
}
