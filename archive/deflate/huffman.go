package deflate

import (
	"fmt"
	"io"
	"math/bits"
)

const (
	maxCode   = 15
	firstBits = 10
	longCode  = 0xfff // symbol in first for codes longer than firstBits
)

// huffman is a decoding table. first is indexed by the next firstBits bits; its entries are
// symbol<<4 | length of the code.
type huffman struct {
	first   [1 << firstBits]uint16
	count   [maxCode + 1]uint16 // codes of each length
	symbols [288]uint16         // in order of their codes
}

// build makes the table for codes of the given lengths. It returns an error if they are
// over-subscribed or incomplete. No code at all, a single code of one bit and the fixed distance
// codes are allowed.
func (h *huffman) build(lengths []byte) error {
	clear(h.count[:])
	for _, n := range lengths {
		h.count[n]++
	}
	used := len(lengths) - int(h.count[0])
	h.count[0] = 0
	var next, offset [maxCode + 2]int
	left := 1
	for n := 1; n <= maxCode; n++ {
		left = left<<1 - int(h.count[n])
		if left < 0 {
			return fmt.Errorf("%w: over-subscribed codes", ErrBlocks)
		}
		next[n+1] = (next[n] + int(h.count[n])) << 1
		offset[n+1] = offset[n] + int(h.count[n])
	}
	fixedDistances := len(lengths) == 30 && h.count[5] == 30
	if left > 0 && used > 0 && !(used == 1 && h.count[1] == 1) && !fixedDistances {
		return fmt.Errorf("%w: incomplete codes", ErrBlocks)
	}
	clear(h.first[:])
	for sym, length := range lengths {
		if length == 0 {
			continue
		}
		n := int(length)
		code := bits.Reverse16(uint16(next[n])) >> (16 - n)
		next[n]++
		h.symbols[offset[n]] = uint16(sym)
		offset[n]++
		if n > firstBits {
			h.first[code&(1<<firstBits-1)] = longCode << 4
			continue
		}
		for i := int(code); i < 1<<firstBits; i += 1 << n {
			h.first[i] = uint16(sym<<4 | n)
		}
	}
	return nil
}

// symbol decodes one Huffman code.
func (f *Inflater) symbol(h *huffman) (int, error) {
	e := h.first[f.acc&(1<<firstBits-1)]
	if e>>4 == longCode {
		return f.longSymbol(h)
	}
	n := uint(e & 15)
	if n == 0 || n > f.n {
		return 0, f.noSymbol()
	}
	f.acc >>= n
	f.n -= n
	return int(e >> 4), nil
}

// longSymbol decodes a code bit by bit, in canonical order. Codes longer than firstBits are rare.
func (f *Inflater) longSymbol(h *huffman) (int, error) {
	code, first, index := 0, 0, 0
	for n := 1; n <= maxCode; n++ {
		code |= int(f.acc >> (n - 1) & 1)
		count := int(h.count[n])
		if code-first < count {
			if uint(n) > f.n {
				break
			}
			f.acc >>= uint(n)
			f.n -= uint(n)
			return int(h.symbols[index+code-first]), nil
		}
		index += count
		first = (first + count) << 1
		code <<= 1
	}
	return 0, f.noSymbol()
}

func (f *Inflater) noSymbol() error {
	if f.n < maxCode {
		return io.EOF
	}
	return fmt.Errorf("%w: a code that stands for no symbol", ErrBlocks)
}

// readCodes reads the codes of a dynamic block (RFC 1951, 3.2.7).
func (f *Inflater) readCodes() error {
	v, err := f.take(14)
	if err != nil {
		return err
	}
	literals, distances, codes := int(v&31)+257, int(v>>5&31)+1, int(v>>10)+4
	if literals > 286 || distances > 30 {
		return fmt.Errorf("%w: %d literal and %d distance codes", ErrBlocks, literals, distances)
	}
	order := [19]byte{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	var lengths [286 + 30]byte
	for _, i := range order[:codes] {
		n, err := f.take(3)
		if err != nil {
			return err
		}
		lengths[i] = byte(n)
	}
	if err := f.literals.build(lengths[:19]); err != nil {
		return err
	}
	all := lengths[:literals+distances]
	if err := f.codeLengths(all); err != nil {
		return err
	}
	if all[256] == 0 {
		return fmt.Errorf("%w: no code for a block's end", ErrBlocks)
	}
	if err := f.literals.build(all[:literals]); err != nil {
		return err
	}
	return f.distances.build(all[literals:])
}

// codeLengths reads the lengths of a block's codes. f.literals holds the code in which the lengths
// are written.
func (f *Inflater) codeLengths(lengths []byte) error {
	clear(lengths)
	for i := 0; i < len(lengths); {
		if err := f.fill(); err != nil {
			return err
		}
		sym, err := f.symbol(&f.literals)
		if err != nil {
			return err
		}
		if sym < 16 {
			lengths[i] = byte(sym)
			i++
			continue
		}
		value, base, extra := byte(0), 3, uint(3)
		switch sym {
		case 16:
			if i == 0 {
				return fmt.Errorf("%w: a code length repeats none", ErrBlocks)
			}
			value, extra = lengths[i-1], 2
		case 18:
			base, extra = 11, 7
		}
		n, err := f.take(extra)
		if err != nil {
			return err
		}
		end := i + base + int(n)
		if end > len(lengths) {
			return fmt.Errorf("%w: too many code lengths", ErrBlocks)
		}
		for ; i < end; i++ {
			lengths[i] = value
		}
	}
	return nil
}
