package guard

import (
	"io"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzip"

	"sheaf/serve/account"
	"sheaf/serve/library"
)

const (
	// SpoolMemory is the length, in bytes, up to which an answer is held in memory. A longer answer
	// is in a temporary file.
	SpoolMemory = 256 << 10

	// worthGzip is the length of the first part, in bytes, from which on an answer is compressed.
	worthGzip = 4 << 10
)

// Spool takes a whole answer before any of it is sent, or a whole body before it is read. So an
// answer has its length, its ETag and its next cursor, and an error can be answered in its place.
// The sources of an answer need not be held while a client reads. A Spool must be closed, and is
// not for concurrent use.
type Spool struct {
	gzip       bool // compress, if it is worth it
	begun      bool
	compressed bool
	zip        *gzip.Writer // nil: not compressed, or finished
	to         *library.TempFile
	leave      func() // see NewSpool; nil: not entered
}

// NewSpool returns a Spool. If gzip is set, the Spool compresses an answer that is worth it. Unless
// enter is nil, the Spool calls enter before it begins a file, and leave at Close.
func NewSpool(gzip bool, enter func() (leave func(), err error)) *Spool {
	s := &Spool{gzip: gzip}
	s.to = library.NewTempFile(SpoolMemory, func(int64) (err error) {
		if enter != nil && s.leave == nil {
			s.leave, err = enter()
		}
		return err
	})
	return s
}

// Spool returns a Spool for the answer to a request. While it has a file, it counts in
// Limits.Answers.
func (l *Limits) Spool(r *http.Request, a *account.Account, gzip bool) *Spool {
	return NewSpool(gzip, func() (func(), error) { return l.Answers.Enter(r, a) })
}

// Write adds a part of the answer. The first part's length decides whether the answer is worth
// compressing.
func (s *Spool) Write(p []byte) (n int, err error) {
	if !s.begun && s.gzip && len(p) >= worthGzip {
		if s.zip, err = gzip.NewWriterLevel(s.to, gzip.BestSpeed); err != nil {
			return 0, err
		}
		s.compressed = true
	}
	s.begun = true
	if s.zip != nil {
		return s.zip.Write(p)
	}
	return s.to.Write(p)
}

// Finish ends the writing and frees the compressor's memory, most of a MiB, before a client reads.
func (s *Spool) Finish() error {
	if s.zip == nil {
		return nil
	}
	err := s.zip.Close()
	s.zip = nil
	return err
}

// Send answers with what was written. A client that reads slowly costs up to SpoolMemory, or a
// file.
func (s *Spool) Send(w http.ResponseWriter, r *http.Request, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+s.to.SHA256()[:32]+`"`)
	if s.to.InMemory() {
		w = &Answer{ResponseWriter: w} // which has buffers; the kernel sends a file
	}
	http.ServeContent(w, r, "", time.Time{}, s.to.Content())
}

// Compressed reports whether what was written is in gzip.
func (s *Spool) Compressed() bool { return s.compressed }

// Content returns a reader of what was written.
func (s *Spool) Content() io.ReadSeeker { return s.to.Content() }

// Close removes the temporary file.
func (s *Spool) Close() error {
	if s.leave != nil {
		defer s.leave()
	}
	return s.to.Close()
}
