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

// spot is a place in a leniently read file.
type spot struct {
	n      int64 // inflated bytes read before it
	at     int64 // offset of its member in the file
	within int64 // inflated bytes from the member's beginning to the place
}

// gap is damage in a file that a lenient reader must skip.
type gap struct {
	at   int64 // offset in the file
	cut  bool  // the file ends within a member; no checksum proves the bytes read before the gap
	last bool  // nothing after it is read
	why  string
}

func (g *gap) Error() string { return g.why }

// gzipMagic begins a gzip member (RFC 1952).
const gzipMagic = "\x1f\x8b\x08"

// packing describes how a file is compressed, in gzip members or Zstandard frames. Each member can
// be inflated alone.
type packing struct {
	member string // name of a member in messages
	magic  string // first bytes of a member
	opener func() opener
}

// opener returns the content of the next member in a reader. The reader must end with
// io.ErrUnexpectedEOF. The content ends where the member ends, if the member is whole. Each call
// invalidates the previous call's content.
type opener func(in *bufio.Reader) (io.Reader, error)

// gzipped is the packing of a gzip file.
var gzipped = &packing{"gzip member", gzipMagic, func() opener {
	var z *gzip.Reader
	return func(in *bufio.Reader) (_ io.Reader, err error) {
		if z == nil {
			z, err = gzip.NewReader(in)
		} else {
			err = z.Reset(in)
		}
		if err != nil {
			return nil, err
		}
		z.Multistream(false)
		return z, nil
	}
}}

// parts reads a file leniently: the members of a compressed file, or another file unchanged. It
// delivers a member only if the member can be inflated and its checksum, if it has one, is right.
// At a damaged member Read returns a *gap, and does so again until pass has found the next whole
// member.
//
// maxMemory bounds the memory, and budget bounds the work in proportion to the file's size.
type parts struct {
	s      *input
	layout layout
	file   io.ReaderAt
	size   int64
	pack   *packing // nil: the file is not compressed
	checks *meter   // counts the bytes inflated for checksums
	budget int64    // bytes that may still be read again
	ahead  []byte   // buffer of find

	in    *bufio.Reader // for checking members
	end   int64         // offset in the file up to which in has read
	inner opener
	small bytes.Buffer // the checked member's content, or its first maxMemory bytes

	member io.Reader // content that is being delivered; nil: it has ended
	next   int64     // offset of the next member
	err    error     // what follows the member; nil: the next member
	n      int64     // inflated bytes delivered
	marks  []spot    // beginnings of the members that the input may still have to read
	cut    int64     // offset of the member in which the file ends too early; -1: none is known
}

// leastCost is the least cost of trying one place in the file, in bytes, because the file is read
// ahead.
const leastCost = 64 << 10

// budgetFor returns how many bytes of a file may be read again to find records in damaged parts.
func budgetFor(size int64) int64 { return 16*size + 64<<20 }

// openLenient does the same as begin, but for lenient reading.
func openLenient(ctx context.Context, file *os.File, kind Kind, limits Limits) (*input, error) {
	s, whole, err := newInput(ctx, file, limits)
	if err != nil {
		return nil, err
	}
	return s, s.leniently(whole, whole.Size(), kind, limits)
}

// leniently prepares the input for lenient reading, and finds out how the file is compressed.
func (s *input) leniently(file io.ReaderAt, size int64, kind Kind, limits Limits) error {
	p := &parts{s: s, layout: layoutOf(kind), size: size, checks: newMeter(limits, size), budget: budgetFor(size), cut: -1}
	p.file = file
	p.in = bufio.NewReaderSize(nil, 16<<10)
	s.parts, s.r = p, bufio.NewReaderSize(p, 64<<10)
	const enough = 64 << 10 // bytes in which to look for records of an uncompressed file
	head := make([]byte, enough)
	n, err := p.file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return err
	}
	head = head[:n]
	framed := zstandard(p.section(0))
	switch {
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		p.as(gzipped)
	case isZstd(head):
		p.as(framed)
	case bytes.Contains(head, []byte("WARC/")):
	default: // the beginning may be damaged
		for _, pack := range []*packing{gzipped, framed} {
			p.as(pack)
			if found, err := p.holds(); found || err != nil {
				return err
			}
		}
		p.as(nil)
	}
	return nil
}

// holds reports whether any member of the file begins with a record.
func (p *parts) holds() (bool, error) {
	budget := budgetFor(p.size) / 4 // the larger part is for reading records
	for at, err := p.find(0); ; at, err = p.find(at + 1) {
		switch {
		case err != nil:
			return false, err
		case at < 0 || budget < 0:
			return false, nil
		case p.begins(at):
			return true, nil
		}
		budget -= max(p.position()-at, leastCost)
	}
}

// as sets how the file is compressed; nil: it is not.
func (p *parts) as(pack *packing) {
	if p.pack, p.inner = pack, nil; pack != nil {
		p.inner = pack.opener()
	}
}

// begins reports whether the member at the offset begins with a record.
func (p *parts) begins(at int64) bool {
	p.inflate(at)
	return beginsRecord(p.small.Bytes()) || beginsARC(p.small.Bytes())
}

// readerAt reads the file itself. It stores errors of the disk and of the context in the input.
type readerAt struct {
	ctx  context.Context
	s    *input
	file io.ReaderAt
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		r.s.disk = err
		return 0, err
	}
	if off < 0 { // the damaged list of a zip's entries may ask for it
		return 0, errors.New("an offset before the file's beginning")
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

// open begins to deliver the member at an offset, without its first within bytes.
func (p *parts) open(at, within int64) {
	if at >= p.size {
		p.err = io.EOF
		return
	}
	if p.pack == nil {
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
			p.err = &gap{at: at, why: fmt.Sprintf("the %s is damaged: %v", p.pack.member, err)}
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
	content, err := p.pack.opener()(bufio.NewReaderSize(unexpectedEnd{p.section(at)}, 64<<10))
	if err == nil {
		_, err = io.CopyN(io.Discard, content, within)
	}
	if err != nil { // impossible: it was inflated before
		p.err = err
		return
	}
	p.member = io.LimitReader(content, size-within)
}

// position returns the offset in the file up to which members were checked.
func (p *parts) position() int64 { return p.end - int64(p.in.Buffered()) }

// inflate inflates the member at the offset, keeps the beginning of its content in small, and
// returns the content's size. It returns an error if the member is not whole.
func (p *parts) inflate(at int64) (size int64, err error) {
	if p.position() != at || p.end == 0 {
		p.end = at
		p.in.Reset(unexpectedEnd{counted{p.section(at), &p.end}})
	}
	p.small.Reset()
	member, err := p.inner(p.in)
	if err != nil {
		return 0, err
	}
	content := checked{member, p.checks}
	size, err = readStart(&p.small, content)
	if err == io.EOF {
		return size, nil
	} else if err != nil {
		return size, err
	}
	more, err := io.Copy(io.Discard, content)
	return size + more, err
}

// unexpectedEnd ends with io.ErrUnexpectedEOF, because a member must end before its file does.
type unexpectedEnd struct{ r io.Reader }

func (u unexpectedEnd) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	return n, unexpected(err)
}

// counted counts in n the bytes that are read from r.
type counted struct {
	r io.Reader
	n *int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += int64(n)
	return n, err
}

// checked counts in a meter the bytes that are read from r, and fails at the meter's limit.
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

// pass goes on behind a gap, with the next whole member. A damaged member that begins with a record
// is the next gap. Other bytes that look like the beginning of a member are skipped.
func (p *parts) pass(g *gap) error {
	p.err = nil
	if g.last || p.pack == nil {
		p.err = io.EOF
		return nil
	}
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

// find returns the first offset, not before from, at which a member may begin, or -1.
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
		if i := bytes.Index(buf[:n], []byte(p.pack.magic)); i >= 0 {
			return from + int64(i), nil
		}
		from += int64(max(n-len(p.pack.magic)+1, 1))
	}
	return -1, nil
}

// mark records the place of the bytes that are delivered next.
func (p *parts) mark(at, within int64) {
	read := 0 // number of marks that the input has passed
	for read+1 < len(p.marks) && p.marks[read+1].n < p.s.n {
		read++
	}
	p.marks = append(p.marks[read:], spot{p.n, at, within})
}

// spot returns the place of the next byte that the input reads.
func (s *input) spot() spot { return s.spotOf(s.n) }

// spotOf returns the place of a byte that the input has just read or reads next.
func (s *input) spotOf(n int64) spot {
	of := spot{n: n}
	for _, m := range s.parts.marks {
		if m.n <= n {
			of.at, of.within = m.at, m.within+n-m.n
		}
	}
	if s.parts.pack == nil {
		of.at, of.within = of.at+of.within, 0
	}
	return of
}

// back returns to an earlier place, unless too many bytes were read again already; then reading
// goes on where it is.
func (s *input) back(to spot) {
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
