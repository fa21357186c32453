package deflate

import (
	"encoding/binary"
	"io"
)

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
