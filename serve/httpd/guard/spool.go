package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/files"
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
	to         stored
}

// NewSpool returns a Spool. If gzip is set, the Spool compresses an answer that is worth it. Unless
// enter is nil, the Spool calls enter before it begins a file, and leave at Close.
func NewSpool(gzip bool, enter func() (leave func(), err error)) *Spool {
	return &Spool{gzip: gzip, to: stored{hash: sha256.New(), enter: enter}}
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
		if s.zip, err = gzip.NewWriterLevel(&s.to, gzip.BestSpeed); err != nil {
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
	h.Set("ETag", s.to.etag())
	if s.to.rest == nil {
		w = &Answer{ResponseWriter: w} // which has buffers; the kernel sends a file
	}
	http.ServeContent(w, r, "", time.Time{}, s.to.content())
}

// Compressed reports whether what was written is in gzip.
func (s *Spool) Compressed() bool { return s.compressed }

// Content returns a reader of what was written.
func (s *Spool) Content() io.ReadSeeker { return s.to.content() }

// Close removes the temporary file.
func (s *Spool) Close() error { return s.to.Close() }

// stored holds the bytes of an answer that is to be sent, or of a request's body.
type stored struct {
	head bytes.Buffer
	rest *os.File // nil as long as the answer is short
	size int64
	hash hash.Hash

	enter func() (leave func(), err error) // see NewSpool
	leave func()                           // nil: not entered
}

// Write implements io.Writer. It fails with library.ErrNoSpace if the disk is full, and with the
// error of enter.
func (s *stored) Write(p []byte) (int, error) {
	s.hash.Write(p)
	s.size += int64(len(p))
	if s.rest == nil && s.head.Len()+len(p) <= SpoolMemory {
		return s.head.Write(p)
	}
	if s.rest == nil {
		if err := s.begin(); err != nil {
			return 0, library.NoSpace(err)
		}
	}
	n, err := s.rest.Write(p)
	return n, library.NoSpace(err)
}

// begin calls enter, and moves what is in memory to a new temporary file.
func (s *stored) begin() (err error) {
	if s.enter != nil {
		if s.leave, err = s.enter(); err != nil {
			return err
		}
	}
	if s.rest, err = files.Nameless(""); err != nil {
		return err
	}
	if _, err = s.rest.Write(s.head.Bytes()); err == nil {
		s.head = bytes.Buffer{}
	}
	return err
}

// etag returns the strong ETag of what was written.
func (s *stored) etag() string { return `"` + hex.EncodeToString(s.hash.Sum(nil)[:16]) + `"` }

// content returns a reader of what was written.
func (s *stored) content() io.ReadSeeker {
	if s.rest != nil {
		return io.NewSectionReader(s.rest, 0, s.size)
	}
	return bytes.NewReader(s.head.Bytes())
}

// Close removes the temporary file.
func (s *stored) Close() error {
	if s.leave != nil {
		defer s.leave()
	}
	if s.rest == nil {
		return nil
	}
	return s.rest.Close()
}
