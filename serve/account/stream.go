package account

import (
	"context"
	"io"

	"sheaf/internal/stream"
)

// Reader returns a reader of the size bytes of r, slowed down by take.
func Reader(ctx context.Context, r io.Reader, size int64, take stream.Taker) io.Reader {
	return &reader{ctx, r, take, 0, size}
}

type reader struct {
	ctx  context.Context
	r    io.Reader
	take stream.Taker
	left int64 // allowed by take and not yet read
	size int64 // not yet allowed by take
}

func (p *reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if p.left == 0 && p.size > 0 {
		n, err := p.take(p.ctx, min(int64(len(b)), p.size))
		if err != nil {
			return 0, err
		}
		p.left, p.size = n, p.size-n
	}
	if p.left > 0 {
		b = b[:min(p.left, int64(len(b)))]
	}
	n, err := p.r.Read(b) // after the last byte this returns EOF or an error
	p.left = max(0, p.left-int64(n))
	return n, err
}

// Writer returns a writer to w that is slowed down by take.
func Writer(ctx context.Context, w io.Writer, take stream.Taker) io.Writer {
	return &writer{ctx, w, take}
}

type writer struct {
	ctx  context.Context
	w    io.Writer
	take stream.Taker
}

func (p *writer) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := p.take(p.ctx, int64(len(b)-done))
		if err != nil {
			return done, err
		}
		m, err := p.w.Write(b[done : done+int(n)])
		done += m
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
