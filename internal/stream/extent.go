package stream

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Extent is a part of a file: either Bytes or, if File is set, Len bytes of that local file from
// Off on.
type Extent struct {
	Bytes []byte
	File  *os.File
	Off   int64 // bytes
	Len   int64 // bytes
}

// Size returns the number of bytes in the extent.
func (e *Extent) Size() int64 {
	if e.File != nil {
		return e.Len
	}
	return int64(len(e.Bytes))
}

// Reader returns a file's extents in order. It must not be used concurrently, and must be closed.
type Reader interface {
	// Next returns the next extent, or io.EOF after the last one. The extent's bytes and file are
	// valid until the next call. The caller may move the file's position.
	Next(ctx context.Context) (Extent, error)
	Close() error
}

// Writer is the destination of extents. ReadFrom gets an *io.LimitedReader over an *os.File, for
// which net.TCPConn and http.ResponseWriter use sendfile.
type Writer interface {
	io.Writer
	io.ReaderFrom
}

// Taker waits until some of the next n bytes may be sent, and returns how many: at least one.
type Taker func(ctx context.Context, n int64) (int64, error)

// SourceError is an error of Send from its Reader or its Taker. Send's other errors are the
// writer's.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Send writes all extents of r to w, as fast as take allows, and returns the number of bytes sent.
func Send(ctx context.Context, w Writer, r Reader, take Taker) (sent int64, err error) {
	for {
		e, err := r.Next(ctx)
		if err == io.EOF {
			return sent, nil
		}
		if err != nil {
			return sent, &SourceError{err}
		}
		for left := e.Size(); left > 0; {
			step, err := take(ctx, left)
			if err != nil {
				return sent, &SourceError{err}
			}
			n, err := e.send(w, step)
			sent += n
			left -= n
			if err != nil {
				return sent, err
			}
		}
	}
}

// send writes the next step bytes of the extent and removes them from it.
func (e *Extent) send(w Writer, step int64) (int64, error) {
	if e.File == nil {
		n, err := w.Write(e.Bytes[:step])
		e.Bytes = e.Bytes[n:]
		return int64(n), err
	}
	if _, err := e.File.Seek(e.Off, io.SeekStart); err != nil {
		return 0, &SourceError{err}
	}
	n, err := w.ReadFrom(&io.LimitedReader{R: e.File, N: step})
	e.Off += n
	if err == nil && n < step {
		err = &SourceError{fmt.Errorf("%s ends at %d, before what is sent of it does: %w", e.File.Name(), e.Off, io.ErrUnexpectedEOF)}
	}
	return n, err
}
