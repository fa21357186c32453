package httpd

import (
	"io"
	"net/http"
	"time"
)

// A reader that takes nothing holds a connection, a file and a pinned catalog
// version. One that does not take stallChunk in stallTime is let go; it can resume.
const (
	stallTime  = 2 * time.Minute
	stallChunk = 256 << 10 // bytes: less than 2.2 KB/s is a standstill
)

// unstall bounds how long each piece of a request's body and of an answer may take.
func unstall(patience time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http takes the deadline away before the next request of the connection.
		s := &staller{ResponseWriter: w, deadline: http.NewResponseController(w), patience: patience}
		if r.Body != http.NoBody {
			r.Body = &slowBody{ReadCloser: r.Body, deadline: s.deadline, patience: patience}
		}
		next.ServeHTTP(s, r)
	})
}

// staller gives each piece of a body a deadline of its own.
type staller struct {
	http.ResponseWriter
	deadline *http.ResponseController
	patience time.Duration
}

// extend fails where the connection has no deadlines, as in a test's recorder: then nothing bounds it.
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

// ReadFrom passes pieces of src on, so that the kernel can send those of a file.
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

// Unwrap serves http.ResponseController.
func (s *staller) Unwrap() http.ResponseWriter { return s.ResponseWriter }
