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
	gzip  bool // compress, if it is worth it
	begun bool
	zip   *gzip.Writer // nil: not compressed
	to    stored       // must be closed
}

func newSpool(gzip bool) *spool { return &spool{gzip: gzip, to: stored{hash: sha256.New()}} }

// Write adds a part of the answer. The first part decides whether it is worth compressing.
func (s *spool) Write(p []byte) (n int, err error) {
	if !s.begun && s.gzip && len(p) >= worthGzip {
		if s.zip, err = gzip.NewWriterLevel(&s.to, gzip.BestSpeed); err != nil {
			return 0, err
		}
	}
	s.begun = true
	if s.zip != nil {
		return s.zip.Write(p)
	}
	return s.to.Write(p)
}

// finish ends the writing.
func (s *spool) finish() error {
	if s.zip == nil {
		return nil
	}
	return s.zip.Close()
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
func sendJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body := newSpool(false)
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
}

func (s *stored) Write(p []byte) (int, error) {
	s.hash.Write(p)
	s.size += int64(len(p))
	if s.rest == nil && s.head.Len()+len(p) <= spoolMemory {
		return s.head.Write(p)
	}
	if s.rest == nil {
		f, err := files.Nameless("")
		if err != nil {
			return 0, err
		}
		s.rest = f
		if _, err := f.Write(s.head.Bytes()); err != nil {
			return 0, err
		}
		s.head = bytes.Buffer{}
	}
	return s.rest.Write(p)
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
	if s.rest == nil {
		return nil
	}
	return s.rest.Close()
}
