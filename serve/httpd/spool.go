package httpd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	// spoolMemory is how many bytes of an answer are held in memory. The rest is in a temporary
	// file.
	spoolMemory = 256 << 10

	// worthGzip is the least length of an answer that is compressed, in bytes.
	worthGzip = 4 << 10
)

// spool takes a whole answer before any of it is sent. So it is sent with its length, its ETag and
// its next cursor, or an error is.
type spool struct {
	gzip       bool // compress, if it is worth it
	begun      bool
	compressed bool
	zip        *gzip.Writer // nil: not compressed, or finished
	to         stored       // must be closed
}

// newSpool returns a spool. If its answer needs a file, enter is called before; nil: nothing is.
func newSpool(gzip bool, enter func() (leave func(), err error)) *spool {
	return &spool{gzip: gzip, to: stored{hash: sha256.New(), enter: enter}}
}

// spool returns a spool for the answer to a request.
func (q *Queries) spool(r *http.Request, a *account.Account, gzip bool) *spool {
	return newSpool(gzip, func() (func(), error) { return q.Limits.Answer(r, a) })
}

// Write adds a part of the answer. The first part decides whether it is worth compressing.
func (s *spool) Write(p []byte) (n int, err error) {
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

// finish ends the writing. The compressor's memory, most of a MiB, is not held while a client
// reads.
func (s *spool) finish() error {
	if s.zip == nil {
		return nil
	}
	err := s.zip.Close()
	s.zip = nil
	return err
}

// send answers with what was written. A client that reads slowly costs spoolMemory and a file.
func (s *spool) send(w http.ResponseWriter, r *http.Request, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", s.to.etag())
	http.ServeContent(w, r, "", time.Time{}, s.to.content())
}

// sendJSON answers with v in JSON, which is not held in memory while it is sent.
func (q *Queries) sendJSON(w http.ResponseWriter, r *http.Request, a *account.Account, v any) error {
	body := q.spool(r, a, false)
	defer body.to.Close()
	if err := json.NewEncoder(body).Encode(v); err != nil {
		return err
	}
	body.send(w, r, "application/json")
	return nil
}

// stored is what of an answer is to be sent, or what has come of a request.
type stored struct {
	head bytes.Buffer
	rest *os.File // nil as long as the answer is short
	size int64
	hash hash.Hash

	enter func() (leave func(), err error) // see newSpool
	leave func()                           // nil: not entered
}

// Write implements io.Writer. It fails with library.ErrNoSpace if the disk is full.
func (s *stored) Write(p []byte) (int, error) {
	s.hash.Write(p)
	s.size += int64(len(p))
	if s.rest == nil && s.head.Len()+len(p) <= spoolMemory {
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

// begin begins the temporary file.
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

// content reads what was written.
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
