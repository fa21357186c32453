package guard

import (
	"io"
	"net/http"
	"time"
)

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
