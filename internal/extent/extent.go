// Package extent sends files that are put together of other files' bytes, so that
// the kernel copies what lies in files and only what is made here passes through
// the process.
//
// A Reader gives such a file as extents, one after the other, and Send hands them
// on. It knows neither what the file is nor where it goes: archives give Readers,
// HTTP and FTP send them.
package extent

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Extent is a run of a file's bytes: those in Bytes or, where File is set, the Len
// bytes of that local file from Off on.
type Extent struct {
	Bytes []byte
	File  *os.File
	Off   int64 // bytes
	Len   int64 // bytes
}

// Size is how many bytes the extent has.
func (e *Extent) Size() int64 {
	if e.File != nil {
		return e.Len
	}
	return int64(len(e.Bytes))
}

// Reader gives a file's extents in their order. It is used by one goroutine at a
// time, and must be closed.
type Reader interface {
	// Next gives the next extent, or io.EOF behind the last. Its bytes and its
	// file, whose position may be moved, are good until the next call.
	Next(ctx context.Context) (Extent, error)
	Close() error
}

// Writer is where extents go. ReadFrom is given an *io.LimitedReader over an *os.File,
// which the kernel can send as it is (net.TCPConn, http.ResponseWriter).
type Writer interface {
	io.Writer
	io.ReaderFrom
}

// Taker says how many of the next n bytes may be sent now, at least one, and waits
// until that can be said.
type Taker func(ctx context.Context, n int64) (int64, error)

// SourceError is a failure to read what was to be sent, or a refusal of the
// Taker's. Send's other errors are the writer's.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Send writes all that r gives to w, each piece when take allows it, and returns
// how many bytes were sent.
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

// send writes the extent's next step bytes and takes them off it.
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
