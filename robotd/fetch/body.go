package fetch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// decoded is a body without its content codings.
type decoded struct {
	io.Reader
	removed bool // Content-Encoding no longer holds
	close   func()
}

// maxCodings is how many codings one upon the other are taken off.
const maxCodings = 4

// decode takes off the codings that Content-Encoding names, last first. A
// coding that the robot does not know stays on; one that is declared and not
// there is passed over, as browsers do with gzip.
func decode(r io.Reader, values []string) (*decoded, error) {
	var codings []string
	for coding := range strings.SplitSeq(strings.ToLower(strings.Join(values, ",")), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && coding != "identity" {
			codings = append(codings, coding)
		}
	}
	d := &decoded{Reader: r, close: func() {}}
	if len(codings) > maxCodings {
		return d, nil
	}
	for _, coding := range codings {
		switch coding {
		case "gzip", "x-gzip", "deflate", "br", "zstd":
		default:
			return d, nil
		}
	}
	for i := len(codings) - 1; i >= 0; i-- {
		if err := d.takeOff(codings[i]); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *decoded) takeOff(coding string) error {
	in := bufio.NewReader(d.Reader)
	d.Reader, d.removed = in, true
	magic, err := in.Peek(2)
	if err != nil {
		if err == io.EOF { // nothing, or too little to be coded
			return nil
		}
		return err
	}
	switch coding {
	case "gzip", "x-gzip":
		if magic[0] == 0x1f && magic[1] == 0x8b {
			d.Reader = &gzipReader{in: in}
		}
	case "deflate":
		if magic[0]&15 == 8 && (uint(magic[0])<<8|uint(magic[1]))%31 == 0 {
			d.Reader, err = zlib.NewReader(in)
		} else {
			d.Reader = flate.NewReader(in)
		}
	case "br":
		d.Reader = brotli.NewReader(in)
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err == nil {
			d.Reader = z
			outer := d.close
			d.close = func() { z.Close(); outer() }
		}
	}
	return err
}

// gzipReader reads members one after another and ends, as browsers do, where
// what follows a whole member is no other.
type gzipReader struct {
	in *bufio.Reader
	z  *gzip.Reader
}

func (g *gzipReader) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.in)
		if err != nil {
			return 0, err
		}
		z.Multistream(false)
		g.z = z
	}
	n, err := g.z.Read(p)
	if err != io.EOF {
		return n, err
	}
	if magic, _ := g.in.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return n, io.EOF
	}
	if err := g.z.Reset(g.in); err != nil {
		return n, io.EOF
	}
	g.z.Multistream(false)
	return n, nil
}

// Bodies are kept in memory up to maxInMemory each and maxOfAll together; others go to
// temporary files. Pages that wait for a busy processor would else fill the memory
// as fast as ten thousand servers can send them.
const (
	maxInMemory = 256 << 10
	maxOfAll    = 12 << 20
)

// spool keeps a body, in memory or in a temporary file, and digests it.
type spool struct {
	dir    string
	memory *atomic.Int64 // bytes that all spools hold in memory
	size   int64
	sum    hash.Hash
	mem    []byte
	held   int64 // this spool's part of memory
	file   *os.File
}

// newSpool expects a body of so many bytes; negative: nobody knows.
func (f *Fetcher) newSpool(expected int64) *spool {
	s := &spool{dir: f.opt.TempDir, memory: f.memory, sum: sha256.New()}
	if expected > 0 && expected <= maxInMemory && s.hold(expected) {
		s.mem = make([]byte, 0, expected)
	}
	return s
}

// hold reserves memory for n bytes in all.
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
	size := max(need, min(2*cap(s.mem), maxInMemory))
	if need > maxInMemory || !s.hold(int64(size)) {
		return false
	}
	s.mem = append(make([]byte, 0, size), s.mem...)
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
	s.sum.Write(p[:n])
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
