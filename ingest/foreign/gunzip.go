package foreign

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/pgzip"
)

// Two cores cannot inflate one gzip member together. But one core can inflate ahead while the other
// works on the bytes before. These are the number and the size, in bytes, of the blocks inflated
// ahead.
const (
	aheadBlock  = 1 << 20
	aheadBlocks = 4
)

// gunzip inflates the members of a gzip file, one after the other. It inflates a large first member
// ahead. For small members that would cost more than it saves.
type gunzip struct {
	in    *bufio.Reader // ends with io.ErrUnexpectedEOF in every case
	large *pgzip.Reader // the first member; nil: it is small, or has ended
	small *gzip.Reader  // any other member; nil before the first
	err   error
}

// newGunzip returns a reader of the gzip file that raw reads.
func newGunzip(raw *bufio.Reader) (io.ReadCloser, error) {
	head, err := raw.Peek(raw.Size())
	if err != nil && err != io.EOF {
		return nil, err
	}
	g := &gunzip{in: bufio.NewReaderSize(unexpectedEnd{raw}, raw.Size())}
	if endsWithin(head) {
		if err := g.next(); err != nil {
			return nil, err
		}
		return g, nil
	}
	if g.large, err = pgzip.NewReaderN(g.in, aheadBlock, aheadBlocks); err != nil {
		return nil, err
	}
	g.large.Multistream(false)
	return g, nil
}

// endsWithin reports whether the first member ends within head, the file's beginning.
func endsWithin(head []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return true // the error comes again
	}
	z.Multistream(false)
	_, err = io.Copy(io.Discard, z)
	return err == nil
}

// next begins the next member. It returns io.EOF if no member follows.
func (g *gunzip) next() (err error) {
	if _, err := g.in.Peek(1); err == io.ErrUnexpectedEOF {
		return io.EOF
	}
	if g.small == nil {
		g.small, err = gzip.NewReader(g.in)
	} else {
		err = g.small.Reset(g.in)
	}
	if err == nil {
		g.small.Multistream(false)
	}
	return err
}

func (g *gunzip) Read(p []byte) (n int, err error) {
	for n == 0 && g.err == nil && len(p) > 0 {
		var z io.Reader = g.small
		if g.large != nil {
			z = g.large
		}
		n, err = z.Read(p)
		if err == io.EOF { // the member's checksum is right
			if g.large != nil {
				err = g.large.Close()
				g.large = nil
			} else {
				err = nil
			}
			if err == nil {
				err = g.next()
			}
		}
		g.err = err
	}
	return n, g.err
}

func (g *gunzip) Close() error {
	if g.large == nil {
		return nil
	}
	return g.large.Close()
}

// unexpectedEnd ends with io.ErrUnexpectedEOF. An inflater that gets io.EOF in place of a member's
// trailer may take it for the end of the file, and not check the member.
type unexpectedEnd struct{ r io.Reader }

func (u unexpectedEnd) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
