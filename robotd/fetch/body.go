package fetch

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"
)

// Bodies are kept in memory up to maxInMemory each and maxOfAll together. Other bodies go to
// temporary files. Otherwise pages that wait for a busy processor would fill the memory as fast as
// ten thousand servers can send them.
const (
	maxInMemory = 256 << 10
	maxOfAll    = 8 << 20
)

// spool keeps a body in memory or in a temporary file, and computes its digest.
type spool struct {
	dir     string
	memory  *atomic.Int64 // bytes that all spools hold in memory
	buffers *buffers
	size    int64
	sum     hash.Hash // nil: there is none
	mem     []byte    // of buffers
	held    int64     // this spool's part of memory, in bytes
	file    *os.File
}

// newSpool returns a spool for a body of the expected size in bytes; negative: unknown.
func (f *Fetcher) newSpool(expected int64) *spool {
	s := &spool{dir: f.opt.TempDir, memory: f.memory, buffers: &f.buffers, sum: sha256.New()}
	if expected > 0 && expected <= maxInMemory {
		s.room(int(expected))
	}
	return s
}

// hold reserves memory for a total of n bytes, and reports whether there was enough.
func (s *spool) hold(n int64) bool {
	if s.memory.Add(n-s.held) > maxOfAll {
		s.memory.Add(s.held - n)
		return false
	}
	s.held = n
	return true
}

// room reports whether n more bytes may be kept in memory, and makes room for them.
func (s *spool) room(n int) bool {
	need := len(s.mem) + n
	if need <= cap(s.mem) {
		return true
	}
	size := bufferSize(max(need, min(2*cap(s.mem), maxInMemory)))
	if need > maxInMemory || !s.hold(int64(size)) {
		return false
	}
	larger := append(s.buffers.get(size), s.mem...)
	s.buffers.put(s.mem)
	s.mem = larger
	return true
}

func (s *spool) Write(p []byte) (n int, err error) {
	if s.file == nil && !s.room(len(p)) {
		if err := s.toFile(); err != nil {
			return 0, fmt.Errorf("the body's temporary file: %w", err)
		}
	}
	if s.file != nil {
		n, err = s.file.Write(p)
	} else {
		s.mem, n = append(s.mem, p...), len(p)
	}
	if s.sum != nil {
		s.sum.Write(p[:n])
	}
	s.size += int64(n)
	return n, err
}

func (s *spool) toFile() error {
	file, err := os.CreateTemp(s.dir, "body-*")
	if err != nil {
		return err
	}
	s.file = file
	if _, err := file.Write(s.mem); err != nil {
		return errors.Join(err, s.close())
	}
	s.letGo()
	return nil
}

func (s *spool) letGo() {
	s.buffers.put(s.mem)
	s.mem = nil
	s.memory.Add(-s.held)
	s.held = 0
}

func (s *spool) digest() string {
	return "sha256:" + base32.StdEncoding.EncodeToString(s.sum.Sum(nil))
}

func (s *spool) open() io.ReadSeekCloser {
	if s.file != nil {
		return nopCloser{io.NewSectionReader(s.file, 0, s.size)}
	}
	return nopCloser{bytes.NewReader(s.mem)}
}

func (s *spool) close() error {
	s.letGo()
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }
