package library

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sort"

	"sheaf/internal/stream"
)

// Joined is a file that consists of parts, one after another. A part is opened when its bytes are
// read.
type Joined struct {
	Local bool            // whether all parts are Extents whose bytes lie in local files
	Parts int             // their number
	End   func(int) int64 // where a part ends in the file, by the part's number

	// Open returns the bytes of a part. length is how many of them are in the file.
	Open func(ctx context.Context, part int, length int64) (Ranges, error)
}

// part returns the part that holds the byte at off, and where the part begins and ends in the file.
func (j *Joined) part(ctx context.Context, off int64) (part Ranges, begin, end int64, err error) {
	i := sort.Search(j.Parts, func(i int) bool { return j.End(i) > off })
	if i > 0 {
		begin = j.End(i - 1)
	}
	end = j.End(i)
	part, err = j.Open(ctx, i, end-begin)
	return part, begin, end, err
}

// OpenRange implements Ranges.
func (j *Joined) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return &joinedReader{file: j, ctx: ctx, at: off, end: off + n}, nil
}

// Extents implements Extents.
func (j *Joined) Extents(off, n int64) (stream.Reader, error) {
	if !j.Local {
		return nil, nil
	}
	return &joinedExtents{file: j, at: off, end: off + n}, nil
}

type joinedReader struct {
	file    *Joined
	ctx     context.Context
	at, end int64         // of the range that is still to be read
	part    io.ReadCloser // reads from at on; nil: to be opened
	left    int64         // bytes of part that are still to be read
}

func (r *joinedReader) Read(p []byte) (int, error) {
	for r.at < r.end {
		if r.part == nil {
			part, begin, end, err := r.file.part(r.ctx, r.at)
			if err != nil {
				return 0, err
			}
			r.left = min(end, r.end) - r.at
			if r.part, err = part.OpenRange(r.ctx, r.at-begin, r.left); err != nil {
				return 0, err
			}
		}
		n, err := r.part.Read(p[:min(int64(len(p)), r.left)])
		r.at += int64(n)
		r.left -= int64(n)
		if r.left == 0 {
			err = r.Close()
		} else if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

func (r *joinedReader) Close() error {
	part := r.part
	if r.part = nil; part == nil {
		return nil
	}
	return part.Close()
}

// joinedExtents returns the extents of one part after another.
type joinedExtents struct {
	file    *Joined
	at, end int64         // where the next part begins, and where the range ends
	part    stream.Reader // of the part before at; nil: to be opened
}

func (x *joinedExtents) Next(ctx context.Context) (stream.Extent, error) {
	for {
		if x.part != nil {
			e, err := x.part.Next(ctx)
			if err != io.EOF {
				return e, err
			}
			if err := x.Close(); err != nil {
				return stream.Extent{}, err
			}
		}
		if x.at >= x.end {
			return stream.Extent{}, io.EOF
		}
		part, begin, end, err := x.file.part(ctx, x.at)
		if err != nil {
			return stream.Extent{}, err
		}
		off, n := x.at-begin, min(end, x.end)-x.at
		x.at += n
		if b, ok := part.(Bytes); ok {
			return stream.Extent{Bytes: b[off : off+n]}, nil
		}
		if local, ok := part.(Extents); ok {
			x.part, err = local.Extents(off, n)
		}
		if err == nil && x.part == nil {
			err = errors.New("a part is no local file, and others are")
		}
		if err != nil {
			return stream.Extent{}, err
		}
	}
}

func (x *joinedExtents) Close() error {
	part := x.part
	if x.part = nil; part == nil {
		return nil
	}
	return part.Close()
}

// Bytes are Ranges in memory.
type Bytes []byte

// OpenRange implements Ranges.
func (b Bytes) OpenRange(_ context.Context, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b[off : off+n])), nil
}
