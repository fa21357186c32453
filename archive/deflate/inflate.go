// Package deflate makes and decodes runs of DEFLATE blocks (RFC 1951) as segments have them: no
// block is final, and the last ends on a byte boundary, so that runs can stand one after another.
//
// # Checksums
//
// JoinCRC and the functions beside it compute CRC-32s as gzip has them (RFC 1952, 8) without the
// bytes: a text's CRC from the CRCs of its two parts, or a part's CRC from the CRCs of the text and
// of the other part. The CRC of a string is its remainder as a polynomial over GF(2).
package deflate

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Inflater decodes a run of DEFLATE blocks. Unlike the standard library's inflater, it tells where
// the blocks end. The segment format needs that: every run begins and ends on byte boundaries and
// has no final block. An Inflater must not be used concurrently.
type Inflater struct {
	in    *bufio.Reader
	ahead []byte // the bytes that in has buffered; valid until settle
	taken int    // number of bytes used of ahead
	acc   uint64 // bits read ahead; the next one is the lowest
	n     uint   // number of bits in acc

	unread int // see Unread

	out  io.Writer
	win  []byte // up to end: the last 32 KiB written to out, then bytes that are decoded and not written yet
	end  int
	done int // end of the part of win that was written to out

	literals, distances huffman
	fixedLit, fixedDist huffman
}

const (
	window    = 32 << 10
	winBuffer = window + 128<<10
	maxMatch  = 258
	overhang  = 64 + maxMatch // bytes decoded between two calls of room, at most: one literal for each bit, and a match
)

// ErrBlocks says that the bytes are not a run.
var ErrBlocks = errors.New("blocks are not valid DEFLATE")

// NewInflater returns an Inflater for any number of runs, one after another.
func NewInflater() *Inflater {
	f := &Inflater{in: bufio.NewReaderSize(nil, 32<<10), win: make([]byte, winBuffer+overhang)}
	var lengths [288]byte
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	f.fixedLit.build(lengths[:])
	for i := range 30 {
		lengths[i] = 5
	}
	f.fixedDist.build(lengths[:30])
	return f
}

// Inflate decodes the run that is all of src, and writes the result to dst. It returns an error if
// a block is final, if the last block ends within a byte, or if a match reaches before the run.
func (f *Inflater) Inflate(dst io.Writer, src io.Reader) error {
	f.in.Reset(src)
	f.ahead, f.taken, f.out, f.acc, f.n, f.end, f.done = nil, 0, dst, 0, 0, 0, 0
	defer func() {
		f.settle()
		f.unread, f.out = f.in.Buffered(), nil
		f.in.Reset(nil)
	}()
	for {
		if f.n == 0 && f.taken == len(f.ahead) {
			f.settle()
			if _, err := f.in.Peek(1); err == io.EOF {
				return f.flush()
			}
		}
		if err := f.block(); err != nil {
			if err == io.EOF {
				err = fmt.Errorf("%w: the last block does not end on a byte boundary where the run ends", ErrBlocks)
			}
			return err
		}
	}
}

// Unread returns how many bytes Inflate had read ahead when it ended.
func (f *Inflater) Unread() int { return f.unread }

func (f *Inflater) block() error {
	header, err := f.take(3)
	if err != nil {
		return err
	}
	if header&1 != 0 {
		return fmt.Errorf("%w: a final block (BFINAL=1) within a run", ErrBlocks)
	}
	switch header >> 1 {
	case 0:
		return f.stored()
	case 1:
		return f.compressed(&f.fixedLit, &f.fixedDist)
	case 2:
		if err := f.readCodes(); err != nil {
			return err
		}
		return f.compressed(&f.literals, &f.distances)
	}
	return fmt.Errorf("%w: block type 3", ErrBlocks)
}

func (f *Inflater) stored() error {
	if f.n < 7 { // up to seven bits to the byte's end
		if err := f.fill(); err != nil {
			return err
		}
	}
	if skipped, err := f.take(f.n & 7); err != nil || skipped != 0 {
		return fmt.Errorf("%w: a stored block's unused bits are not zero", ErrBlocks)
	}
	v, err := f.take(32)
	if err != nil {
		return err
	}
	left := int(v & 0xffff)
	if left != int(^v>>16) {
		return fmt.Errorf("%w: a stored block's length and its complement differ", ErrBlocks)
	}
	for ; left > 0 && f.n > 0; left-- {
		c, _ := f.take(8)
		if err := f.room(); err != nil {
			return err
		}
		f.win[f.end] = byte(c)
		f.end++
	}
	f.settle()
	for left > 0 {
		if err := f.room(); err != nil {
			return err
		}
		k := min(left, winBuffer-f.end)
		n, err := io.ReadFull(f.in, f.win[f.end:f.end+k])
		f.end += n
		if err != nil {
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			return err
		}
		left -= k
	}
	return nil
}

// room makes room in win for one more match: it writes the decoded bytes out.
func (f *Inflater) room() error {
	if f.end < winBuffer {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.end = copy(f.win, f.win[f.end-window:f.end])
	f.done = f.end
	return nil
}

func (f *Inflater) flush() error {
	_, err := f.out.Write(f.win[f.done:f.end])
	f.done = f.end
	return err
}

// The lengths and distances of RFC 1951, 3.2.5.
var (
	lengthBase  = [29]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [29]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distBase    = [30]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	distExtra   = [30]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
)

func (f *Inflater) compressed(lit, dist *huffman) error {
	for {
		if err := f.room(); err != nil {
			return err
		}
		if f.n < 48 { // the longest literal or match: 15+5+15+13 bits
			if err := f.fill(); err != nil {
				return err
			}
		}
		f.literalsOf(lit)
		if f.n < 48 {
			if err := f.fill(); err != nil {
				return err
			}
		}
		sym, err := f.symbol(lit)
		if err != nil {
			return err
		}
		switch {
		case sym < 256:
			f.win[f.end] = byte(sym)
			f.end++
			continue
		case sym == 256:
			return nil
		case sym > 285:
			return fmt.Errorf("%w: length symbol %d", ErrBlocks, sym)
		}
		extra, err := f.take(uint(lengthExtra[sym-257]))
		if err != nil {
			return err
		}
		length := int(lengthBase[sym-257]) + int(extra)
		if sym, err = f.symbol(dist); err != nil {
			return err
		}
		if sym > 29 {
			return fmt.Errorf("%w: distance symbol %d", ErrBlocks, sym)
		}
		if extra, err = f.take(uint(distExtra[sym])); err != nil {
			return err
		}
		if err := f.match(length, int(distBase[sym])+int(extra)); err != nil {
			return err
		}
	}
}

// match appends a copy of the length bytes that begin distance bytes back.
func (f *Inflater) match(length, distance int) error {
	at := f.end
	if distance > at {
		return fmt.Errorf("%w: a match reaches %d bytes back, before the run's start", ErrBlocks, distance)
	}
	f.end += length
	if distance >= length {
		copy(f.win[at:f.end], f.win[at-distance:])
		return nil
	}
	to, from := f.win[at:f.end], f.win[at-distance:f.end-distance]
	for i := range to {
		to[i] = from[i] // in this order: from may grow into to
	}
	return nil
}

// literalsOf decodes literals while their codes are short and there are enough bits. This loop,
// which calls no function, does most of the work.
func (f *Inflater) literalsOf(lit *huffman) {
	acc, n, win, end := f.acc, f.n, f.win, f.end
	for n >= firstBits {
		e := lit.first[acc&(1<<firstBits-1)]
		if e >= 256<<4 || e&15 == 0 {
			break
		}
		acc >>= e & 15
		n -= uint(e & 15)
		win[end] = byte(e >> 4)
		end++
	}
	f.acc, f.n, f.end = acc, n, end
}

// settle discards the used bytes from in's buffer.
func (f *Inflater) settle() {
	f.in.Discard(f.taken) // cannot fail: it is buffered
	f.ahead, f.taken = nil, 0
}

// fill reads ahead until acc has at least 56 bits, or the run ends.
func (f *Inflater) fill() error {
	if len(f.ahead)-f.taken < 8 {
		f.settle()
		if _, err := f.in.Peek(8); err != nil && err != io.EOF {
			return err
		}
		f.ahead, _ = f.in.Peek(f.in.Buffered())
	}
	if len(f.ahead)-f.taken >= 8 {
		whole := (64 - f.n) / 8
		f.acc |= binary.LittleEndian.Uint64(f.ahead[f.taken:]) << f.n
		if f.n += 8 * whole; f.n < 64 {
			f.acc &= 1<<f.n - 1
		}
		f.taken += int(whole)
		return nil
	}
	for ; f.n <= 56 && f.taken < len(f.ahead); f.taken++ {
		f.acc |= uint64(f.ahead[f.taken]) << f.n
		f.n += 8
	}
	return nil
}

func (f *Inflater) take(n uint) (uint32, error) {
	if f.n < n {
		if err := f.fill(); err != nil {
			return 0, err
		}
		if f.n < n {
			return 0, io.EOF
		}
	}
	v := uint32(f.acc & (1<<n - 1))
	f.acc >>= n
	f.n -= n
	return v, nil
}
