package httpd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	"sheaf/internal/scratch"
)

// spoolMemory is how much of an answer is held in memory, in bytes; the rest lies in a temporary file.
const spoolMemory = 1 << 20

// spool takes an answer before any of it is sent, so that it is sent whole, with
// its length, its tag and where it goes on, or not at all.
type spool struct {
	head bytes.Buffer
	rest *os.File // nil as long as the answer is short
	size int64
	hash hash.Hash
}

func newSpool() *spool { return &spool{hash: sha256.New()} }

func (s *spool) Write(p []byte) (int, error) {
	s.hash.Write(p)
	s.size += int64(len(p))
	if s.rest == nil && s.head.Len()+len(p) <= spoolMemory {
		return s.head.Write(p)
	}
	if s.rest == nil {
		f, err := scratch.File("")
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

// etag names what was written.
func (s *spool) etag() string { return `"` + hex.EncodeToString(s.hash.Sum(nil)[:16]) + `"` }

// content reads it all.
func (s *spool) content() io.ReadSeeker {
	if s.rest != nil {
		return io.NewSectionReader(s.rest, 0, s.size)
	}
	return bytes.NewReader(s.head.Bytes())
}

func (s *spool) Close() error {
	if s.rest == nil {
		return nil
	}
	return s.rest.Close()
}
