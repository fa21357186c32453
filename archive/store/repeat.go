package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// repeatable is the body of a Put that may have to be sent again, or compared with a stored object.
type repeatable struct {
	r     io.Reader
	seek  io.Seeker // r, or nil if r cannot seek
	start int64     // offset of r at the beginning
	sum   hash.Hash // of the bytes read since start
	read  int64     // bytes
	err   error     // first error of r
}

// mark remembers where the body begins, if r can seek.
func (b *repeatable) mark() {
	seek, ok := b.r.(io.Seeker)
	if !ok {
		return
	}
	if start, err := seek.Seek(0, io.SeekCurrent); err == nil { // a pipe is an *os.File, but fails here
		b.seek, b.start = seek, start
	}
}

func (b *repeatable) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.read += int64(n)
	_, _ = b.sum.Write(p[:n]) // never fails
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

func (b *repeatable) canRepeat() bool { return b.seek != nil }

func (b *repeatable) rewind() error {
	b.sum.Reset()
	b.read = 0
	_, err := b.seek.Seek(b.start, io.SeekStart)
	return err
}

// digest returns the SHA-256 of the body, in hexadecimal. It reads the body again if it can seek.
// Otherwise the digest is known only if the whole body was read; before that, no store can have the
// object either.
func (b *repeatable) digest(size int64) (sum string, known bool, err error) {
	if b.read != size && b.canRepeat() {
		if err := b.rewind(); err != nil {
			return sum, false, err
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(b, size)); err != nil {
			return sum, false, err
		}
	}
	return hex.EncodeToString(b.sum.Sum(nil)), b.read == size, nil
}

// resumingReader reopens an object after a failed read, and continues with the next byte. It gives
// up after RetryOptions.Attempts failures without a byte between them.
type resumingReader struct {
	store  *Retry
	ctx    context.Context
	key    string
	off    int64 // of the next byte
	left   int64 // bytes; negative: up to the end
	r      io.ReadCloser
	failed int // failures since the last byte
}

func (r *resumingReader) Read(p []byte) (int, error) {
	for {
		n, err := r.r.Read(p)
		if n > 0 {
			r.failed = 0
			r.off += int64(n)
			if r.left > 0 {
				r.left -= int64(n)
			}
			if err != io.EOF {
				err = nil // an error that persists comes again with the next read
			}
			return n, err
		}
		if err == nil || err == io.EOF {
			return 0, err
		}
		if r.failed++; final(r.ctx, err) || !r.store.wait(r.ctx, r.failed) {
			return 0, err
		}
		next, again := r.store.open(r.ctx, r.key, r.off, r.left)
		if again != nil {
			return 0, fmt.Errorf("%w; open it again: %w", err, again)
		}
		_ = r.r.Close() // reports nothing new
		r.r = next
	}
}

func (r *resumingReader) Close() error { return r.r.Close() }
