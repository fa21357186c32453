package guard

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"sheaf/internal/stream"
)

// Answer counts the bytes of an answer's body.
type Answer struct {
	http.ResponseWriter
	Status int // 0 until the answer begins

	bytes    atomic.Int64 // of the body, written so far
	header   atomic.Int64 // bytes of the header on the wire, roughly
	declared atomic.Int64 // bytes of the body according to the header; -1: it does not say
	failed   bool         // writing to the client failed
}

// WriteHeader implements http.ResponseWriter.
func (w *Answer) WriteHeader(status int) {
	if w.Status == 0 {
		w.Status = status
		w.header.Store(headerSize(w.Header()))
		declared, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
		if err != nil {
			declared = -1
		}
		w.declared.Store(declared)
	}
	w.ResponseWriter.WriteHeader(status)
}

// headerSize returns roughly how many bytes an answer's header has on the wire.
func headerSize(h http.Header) int64 {
	n := len("HTTP/1.1 206 Partial Content\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return int64(n)
}

// sent reports whether the answer's status is 200 or 206.
func (w *Answer) sent() bool {
	return w.Status == http.StatusOK || w.Status == http.StatusPartialContent
}

// Write implements http.ResponseWriter.
func (w *Answer) Write(p []byte) (int, error) {
	w.Status = cmp.Or(w.Status, http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(int64(n))
	w.failed = w.failed || err != nil
	return n, err
}

// ReadFrom implements io.ReaderFrom. http.ServeContent calls it for each range, with an
// io.LimitedReader over what it serves.
func (w *Answer) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); ok {
		switch c := limited.R.(type) {
		case *stream.Content:
			c.Until(limited.N)
		case *content:
			if to, ok := w.ResponseWriter.(stream.Writer); ok {
				before := c.Err()
				n, err := c.sendTo(counted{to, &w.bytes}, limited.N)
				limited.N -= n
				w.failed = w.failed || err != nil && c.Err() == before // not reading the file failed
				return n, err
			}
		}
	}
	buf := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, src, buf[:])
}

// Unwrap is for http.ResponseController.
func (w *Answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// counted counts the bytes of a file while they are sent.
type counted struct {
	stream.Writer
	bytes *atomic.Int64
}

func (w counted) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

func (w counted) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.Writer.ReadFrom(src)
	w.bytes.Add(n)
	return n, err
}

// A client that has stopped reading holds a connection, a file and a pinned catalog version. If it
// does not take stallChunk within StallTime, the connection is closed. The client can resume.
const (
	StallTime  = 2 * time.Minute
	stallChunk = 256 << 10 // bytes: less than 2.2 KB/s is a standstill
)

// unstall bounds how long each piece of a request's body and of its answer may take.
func unstall(patience time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http removes the deadline before the next request of the connection.
		s := &staller{ResponseWriter: w, deadline: http.NewResponseController(w), patience: patience}
		if r.Body != http.NoBody {
			r.Body = &slowBody{ReadCloser: r.Body, deadline: s.deadline, patience: patience}
		}
		next.ServeHTTP(s, r)
	})
}

// staller gives each piece of an answer a deadline of its own.
type staller struct {
	http.ResponseWriter
	deadline *http.ResponseController
	patience time.Duration
}

// extend sets the deadline of the next piece. A connection without deadlines, such as a test's
// recorder, has no bound.
func (s *staller) extend() { _ = s.deadline.SetWriteDeadline(time.Now().Add(s.patience)) }

func (s *staller) Write(p []byte) (int, error) {
	written := 0
	for {
		piece := p[written:min(written+stallChunk, len(p))]
		s.extend()
		n, err := s.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// ReadFrom passes src on piece by piece. The kernel sends the pieces of a file.
func (s *staller) ReadFrom(src io.Reader) (int64, error) {
	to, ok := s.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{s}, src)
	}
	var limit *io.LimitedReader
	if l, ok := src.(*io.LimitedReader); ok {
		limit, src = l, l.R
	}
	var sent int64
	for {
		piece := int64(stallChunk)
		if limit != nil {
			piece = min(piece, limit.N)
		}
		if piece == 0 {
			return sent, nil
		}
		s.extend()
		n, err := to.ReadFrom(io.LimitReader(src, piece))
		sent += n
		if limit != nil {
			limit.N -= n
		}
		if err != nil || n < piece {
			return sent, err
		}
	}
}

// Unwrap is for http.ResponseController.
func (s *staller) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// slowBody gives each piece of a request's body a deadline, as staller does for an answer's.
// Without it a client that stops in the middle would hold a connection and what was read so far. It
// is used by one goroutine at a time.
type slowBody struct {
	io.ReadCloser
	deadline *http.ResponseController
	patience time.Duration
	left     int // bytes of the piece that have not come
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.left = stallChunk
		_ = b.deadline.SetReadDeadline(time.Now().Add(b.patience)) // fails as in staller.extend
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if err != nil {
		// net/http reads on, to learn whether the client goes away before it is answered.
		_ = b.deadline.SetReadDeadline(time.Time{})
	}
	return n, err
}
